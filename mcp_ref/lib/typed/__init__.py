"""A typed function is the schema: Python annotations as JSON Schema, JSON as Python values, Python values as JSON.

    def forecast(city: str, days: Annotated[int, "How far ahead", {"minimum": 1}] = 3) -> list[float]: ...

    signature_of(forecast).input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "description": "How far ahead", "minimum": 1, "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }

In `Annotated`, the first string is the description, and a dict adds keywords. Until Python 3.13 a dict goes outside a
union, as in `Annotated[int | None, {"minimum": 1}]`.

It knows nothing of MCP, and nothing below it: standard library only. Reading order:

- `values.py`: `to_json`, and the types whose JSON is a string
- `unions.py`: `A | B`
- `annotations.py`: `schema_of`, `reader_of`
- `docstrings.py`: what a docstring says about each parameter
- `signatures.py`: `signature_of` puts these together for a function

Spec: JSON Schema 2020-12; the dialect in which tools/list describes tools (server/tools#tool)
"""

from .annotations import UnsupportedType, reader_of, schema_of
from .signatures import Parameter, Signature, signature_of
from .values import JSON, UnfitValue, to_json

__all__ = [
    "JSON",
    "Parameter",
    "Signature",
    "UnfitValue",
    "UnsupportedType",
    "reader_of",
    "schema_of",
    "signature_of",
    "to_json",
]
