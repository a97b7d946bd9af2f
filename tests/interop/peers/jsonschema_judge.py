"""Judges instances with PyPI jsonschema. Lines in: {"schema": …, "instances": […]}; lines out: a list of booleans."""

import json
import sys

from jsonschema import Draft7Validator, Draft202012Validator

for line in sys.stdin:
    case = json.loads(line)
    schema = case["schema"]
    is_draft_07 = isinstance(schema, dict) and "draft-07" in schema.get("$schema", "")
    validator = Draft7Validator(schema) if is_draft_07 else Draft202012Validator(schema)
    print(json.dumps([validator.is_valid(instance) for instance in case["instances"]]))
