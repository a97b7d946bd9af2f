"""The real pydantic and annotated-types in the tools of a server of ours, which runs where both are installed."""

from __future__ import annotations

from pathlib import Path

from mcp_ref import Client
from tests.settings import HOME

SERVER = Path(__file__).parent / "peers" / "models_server.py"
STOP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "kind": {"type": "string", "enum": ["train", "bus"], "default": "train"},
        "arrivesOn": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
    },
    "required": ["city"],
    "additionalProperties": False,
}
NUMBER = {"type": "integer", "minimum": 0, "exclusiveMaximum": 100, "multipleOf": 5}


def client_of(peers: Path) -> Client:
    command = [str(peers / "fastmcp" / "bin" / "python"), str(SERVER)]
    return Client(command, env={"PYTHONPATH": str(HOME)})


async def test_tools_list_has_the_schemas_of_pydantic_and_annotated_types(peers: Path) -> None:
    async with client_of(peers) as client:
        plan, total = await client.list_tools()
    stops = {"type": "array", "items": STOP, "minItems": 1}
    trip = {"type": "object", "properties": {"stops": stops}, "required": ["stops"]}
    seats = {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many", "default": 1}
    assert plan.input_schema["properties"] == {"trip": trip, "seats": seats}
    assert total.input_schema["properties"] == {
        "numbers": {"type": "array", "items": NUMBER, "minItems": 1, "maxItems": 3},
        "more": {"type": ["integer", "null"], "exclusiveMinimum": 0},
        "most": {"type": "integer", "maximum": 3, "default": 1},
    }
    assert total.output_schema == {"type": "array", "items": {"type": "integer"}}


async def test_tools_call_validates_and_writes_pydantic_models(peers: Path) -> None:
    async with client_of(peers) as client:
        stops = [{"city": "Bern", "arrivesOn": "2025-01-31"}]
        planned = await client.call_tool("plan", {"trip": {"stops": stops}})
        assert planned.structured_content == {"stops": [{**stops[0], "kind": "train"}]}
        for wrong, words in (
            ({"city": "Atlantis"}, "trip.stops[0].city: Value error, no train goes to Atlantis"),
            ({"city": "Bern", "arrivesOn": "2025-02-30"}, "trip.stops[0].arrivesOn: Input should be a valid date"),
            ({"city": "B"}, "trip.stops[0].city: expected at least 2 characters"),
        ):
            refused = await client.call_tool("plan", {"trip": {"stops": [wrong]}})
            assert refused.is_error and words in refused.text
        assert (await client.call_tool("total", {"numbers": [5, 10]})).structured_content == [15]
        assert (await client.call_tool("total", {"numbers": [5, 7]})).is_error
