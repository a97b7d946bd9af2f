"""Typed functions as JSON Schema 2020-12: schemas from annotations, and conversion between JSON and Python values.

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

A function's annotations and docstring become a schema, which a language model reads, and the JSON that comes back is
checked against it and converted to the annotated types. In `Annotated`, the first string is the description, and a dict
adds keywords. Constraints of the packages annotated-types and pydantic become keywords too. Before Python 3.13, no
member of a union can have a dict, so write `Annotated[int | None, {"minimum": 1}]`, not
`Annotated[int, {"minimum": 1}] | None`.

Reading order:

    values.py       `to_json`, and the Python types that become strings in JSON
    unions.py       the schema of a union `A | B`, and the conversion from JSON
    constraints.py  the objects in an `Annotated`, such as `Ge(1)`, as keywords of a schema
    models.py       classes that have their own schema, such as pydantic's `BaseModel`
    annotations.py  `schema_of` and `reader_of`, for one annotation
    docstrings.py   the descriptions of a function and of its parameters
    signatures.py   `signature_of`, for a whole function
"""

from .annotations import UnsupportedType, reader_of, schema_of
from .signatures import Parameter, Signature, signature_of
from .values import ConversionError, to_json

__all__ = ["ConversionError", "Parameter", "Signature", "UnsupportedType", "reader_of", "schema_of", "signature_of"]
__all__ += ["to_json"]
