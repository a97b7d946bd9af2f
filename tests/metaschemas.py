"""The metaschemas of 2020-12 and draft-07, as data, written shorter than they are published.

Left out are titles, comments and defaults, which assert nothing.
"""

from __future__ import annotations

from mcp_ref.jsonrpc.messages import JSON

_BASE = "https://json-schema.org/draft/2020-12/"


def _metaschema(properties: dict[str, JSON], name: str = "", more: dict[str, JSON] | None = None) -> dict[str, JSON]:
    """Return one part of the metaschema, which describes the keywords of one vocabulary."""
    return {
        "$schema": f"{_BASE}schema",
        "$id": f"{_BASE}meta/{name}" if name else f"{_BASE}schema",
        "$dynamicAnchor": "meta",
        "type": ["object", "boolean"],
        "properties": properties,
        **(more or {}),
    }


def _types(definitions: str) -> JSON:
    one: JSON = {"$ref": f"#/{definitions}/simpleTypes"}
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}]}


def _each(names: str, schema: JSON) -> dict[str, JSON]:
    return dict.fromkeys(names.split(), schema)


_DEFINITIONS: dict[str, JSON] = {
    "nonNegativeInteger": {"type": "integer", "minimum": 0},
    "simpleTypes": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]},
    "stringArray": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
}
_ASSERTIONS: dict[str, JSON] = {
    **_each("const", True),
    "enum": {"type": "array", "items": True},
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    **_each("maximum exclusiveMaximum minimum exclusiveMinimum", {"type": "number"}),
    "pattern": {"type": "string", "format": "regex"},
    "uniqueItems": {"type": "boolean"},
}
_SIZES = "maxLength minLength maxItems minItems maxProperties minProperties"
_ANNOTATIONS: dict[str, JSON] = {
    **_each("title description", {"type": "string"}),
    **_each("default", True),
    **_each("deprecated readOnly writeOnly", {"type": "boolean"}),
    "examples": {"type": "array", "items": True},
}

_SCHEMA: JSON = {"$dynamicRef": "#meta"}
_SCHEMAS: JSON = {"$ref": "#/$defs/schemaArray"}
_SCHEMAS_BY_NAME: dict[str, JSON] = {"type": "object", "additionalProperties": _SCHEMA}
_PARTS = ["core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content"]
_STRINGS: JSON = {"$ref": "#/$defs/stringArray"}
_URI_REFERENCE: JSON = {"$ref": "#/$defs/uriReferenceString"}
_ANCHOR: JSON = {"$ref": "#/$defs/anchorString"}

_2020_12: list[dict[str, JSON]] = [
    _metaschema(
        {
            "definitions": _SCHEMAS_BY_NAME,
            "dependencies": {
                "type": "object",
                "additionalProperties": {"anyOf": [_SCHEMA, {"$ref": "meta/validation#/$defs/stringArray"}]},
            },
            "$recursiveAnchor": {"$ref": "meta/core#/$defs/anchorString"},
            "$recursiveRef": {"$ref": "meta/core#/$defs/uriReferenceString"},
        },
        more={
            "$vocabulary": {f"{_BASE}vocab/{part}": True for part in _PARTS},
            "allOf": [{"$ref": f"meta/{part}"} for part in _PARTS],
        },
    ),
    _metaschema(
        {
            "$id": {"$ref": "#/$defs/uriReferenceString", "pattern": "^[^#]*#?$"},
            "$schema": {"$ref": "#/$defs/uriString"},
            **_each("$ref $dynamicRef", _URI_REFERENCE),
            **_each("$anchor $dynamicAnchor", _ANCHOR),
            "$vocabulary": {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/uriString"},
                "additionalProperties": {"type": "boolean"},
            },
            "$comment": {"type": "string"},
            "$defs": _SCHEMAS_BY_NAME,
        },
        "core",
        {
            "$defs": {
                "anchorString": {"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"},
                "uriString": {"type": "string", "format": "uri"},
                "uriReferenceString": {"type": "string", "format": "uri-reference"},
            }
        },
    ),
    _metaschema(
        {
            **_each("prefixItems allOf anyOf oneOf", _SCHEMAS),
            **_each("items contains additionalProperties propertyNames if then else not", _SCHEMA),
            **_each("properties dependentSchemas", _SCHEMAS_BY_NAME),
            "patternProperties": {**_SCHEMAS_BY_NAME, "propertyNames": {"format": "regex"}},
        },
        "applicator",
        {"$defs": {"schemaArray": {"type": "array", "minItems": 1, "items": _SCHEMA}}},
    ),
    _metaschema(_each("unevaluatedItems unevaluatedProperties", _SCHEMA), "unevaluated"),
    _metaschema(
        {
            **_ASSERTIONS,
            **_each(_SIZES + " maxContains minContains", {"$ref": "#/$defs/nonNegativeInteger"}),
            "type": _types("$defs"),
            "required": _STRINGS,
            "dependentRequired": {"type": "object", "additionalProperties": _STRINGS},
        },
        "validation",
        {"$defs": _DEFINITIONS},
    ),
    _metaschema(_ANNOTATIONS, "meta-data"),
    _metaschema({"format": {"type": "string"}}, "format-annotation"),
    _metaschema({"format": {"type": "string"}}, "format-assertion"),
    _metaschema({**_each("contentEncoding contentMediaType", {"type": "string"}), "contentSchema": _SCHEMA}, "content"),
]

_SELF: JSON = {"$ref": "#"}
_SELVES: JSON = {"$ref": "#/definitions/schemaArray"}
_SELVES_BY_NAME: dict[str, JSON] = {"type": "object", "additionalProperties": _SELF}
_NAMES: JSON = {"$ref": "#/definitions/stringArray"}

_DRAFT_07: dict[str, JSON] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "http://json-schema.org/draft-07/schema#",
    "definitions": {**_DEFINITIONS, "schemaArray": {"type": "array", "minItems": 1, "items": _SELF}},
    "type": ["object", "boolean"],
    "properties": {
        **_ASSERTIONS,
        **_ANNOTATIONS,
        **_each(_SIZES, {"$ref": "#/definitions/nonNegativeInteger"}),
        **_each("$id $ref", {"type": "string", "format": "uri-reference"}),
        **_each("$schema", {"type": "string", "format": "uri"}),
        **_each("$comment format contentMediaType contentEncoding", {"type": "string"}),
        **_each("additionalItems contains additionalProperties propertyNames if then else not", _SELF),
        **_each("allOf anyOf oneOf", _SELVES),
        **_each("definitions properties", _SELVES_BY_NAME),
        "items": {"anyOf": [_SELF, _SELVES]},
        "patternProperties": {**_SELVES_BY_NAME, "propertyNames": {"format": "regex"}},
        "dependencies": {"type": "object", "additionalProperties": {"anyOf": [_SELF, _NAMES]}},
        "required": _NAMES,
        "type": _types("definitions"),
    },
}

METASCHEMAS: dict[str, JSON] = {
    **{str(metaschema["$id"]): metaschema for metaschema in _2020_12},
    "http://json-schema.org/draft-07/schema": _DRAFT_07,
}
"""The metaschemas by URI, without the empty fragment."""
