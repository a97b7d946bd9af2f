"""The speed of the JSON Schema validator, beside PyPI jsonschema, in one run.

    python3 tests/bench/bench_jsonschema.py --jsonschema /path/to/venv/with/jsonschema/bin/python

Each runs in a process of its own, and judges the same instances by the same schemas, compiled beforehand. Rounds are
interleaved, so that a noisy machine is noisy for all. Printed are medians, and ratios. Without --jsonschema that column
is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

KINDS = [("integer", 7), ("string", "some text"), ("number", 2.5), ("boolean", True), ("null", None)]
LOCATION = {
    "type": "object",
    "properties": {
        "latitude": {"type": "number", "minimum": -90, "maximum": 90},
        "longitude": {"type": "number", "minimum": -180, "maximum": 180},
    },
    "required": ["latitude", "longitude"],
    "additionalProperties": False,
}
PLACE = {"latitude": 48.2, "longitude": 16.4}

CASES: dict[str, tuple[object, object]] = {
    "add(a, b)": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {"a": 1, "b": 2},
    ),
    "a tool with seven arguments": (
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1, "maxLength": 100},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z-]+$"}, "uniqueItems": True},
                "near": {"$ref": "#/$defs/location"},
                "raw": {"type": "boolean"},
            },
            "required": ["city", "days"],
            "$defs": {"location": LOCATION},
        },
        {
            "city": "Wien",
            "unit": "celsius",
            "days": 3,
            "when": None,
            "tags": ["wind", "rain"],
            "near": PLACE,
            "raw": False,
        },
    ),
    "an object of 50 properties": (
        {
            "type": "object",
            "properties": {f"p{n}": {"type": KINDS[n % 5][0]} for n in range(50)},
            "required": [f"p{n}" for n in range(50)],
            "additionalProperties": False,
        },
        {f"p{n}": KINDS[n % 5][1] for n in range(50)},
    ),
    "a result of 1,000 rows": (
        {"type": "object", "properties": {"rows": {"type": "array", "items": LOCATION}}, "required": ["rows"]},
        {"rows": [PLACE] * 1000},
    ),
    "one of three shapes": (
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "size": {"type": "number"}},
                    "required": ["kind"],
                }
                for kind in ("circle", "square", "triangle")
            ]
        },
        {"kind": "square", "size": 2},
    ),
    "unevaluatedProperties": (
        {
            "allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}],
            "unevaluatedProperties": False,
        },
        {"a": 1, "b": "x"},
    ),
}
FIRST = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "number"}},
    "required": ["a", "b"],
}

LOADERS = {
    "mcp_ref": "from mcp_ref.lib.jsonschema import compile_schema as load",
    "jsonschema": "from jsonschema import Draft202012Validator as load",
}

PROGRAM = """
import json, sys, time
begun = time.perf_counter()
LOADER
figures = {"import over json, ms": (time.perf_counter() - begun) * 1000}
cases, first = json.load(sys.stdin)
for name, (schema, instance) in cases.items():
    is_valid = load(schema).is_valid
    assert is_valid(instance)
    count = 1
    while True:
        begun = time.perf_counter()
        for _ in range(count):
            is_valid(instance)
        seconds = time.perf_counter() - begun
        if seconds > 0.1:
            break
        count *= 2
    figures[name + ", validations/s"] = count / seconds
times = []
for _ in range(200):
    begun = time.perf_counter()
    load(first).is_valid({"a": 1, "b": "x"})
    times.append(time.perf_counter() - begun)
figures["compile and validate once, ms"] = sorted(times)[100] * 1000
print(json.dumps(figures))
"""


def run(python: str, name: str) -> dict[str, float]:
    """Return the figures of one validator, from a new process."""
    program = PROGRAM.replace("LOADER", LOADERS[name])
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",
    }  # as modules are when installed
    command, cases = [python, "-c", program], json.dumps([CASES, FIRST])
    done = subprocess.run(command, input=cases, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jsonschema", help="a Python that has PyPI jsonschema (4.25.1)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pythons = {"mcp_ref": sys.executable}
    if options.jsonschema:
        pythons["jsonschema"] = options.jsonschema
    rounds = [{name: run(python, name) for name, python in pythons.items()} for _ in range(options.rounds)]
    print(f"{'':46}" + "".join(f"{name:>14}" for name in pythons) + ("         ratio" if options.jsonschema else ""))
    for figure in rounds[0]["mcp_ref"]:
        medians = [statistics.median(each[name][figure] for each in rounds) for name in pythons]
        row = f"{figure:46}" + "".join(f"{value:14,.2f}" for value in medians)
        print(row + (f"{medians[0] / medians[1]:13.2f}x" if options.jsonschema else ""))


if __name__ == "__main__":
    main()
