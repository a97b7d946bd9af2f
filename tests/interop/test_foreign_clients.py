"""Other people's clients drive examples/everything.py, over every transport.

Each client (a script in peers/) runs once for each transport, tries every feature, and prints a report. Each test then
checks one feature in the reports. A comment names each feature that a client does not support.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.everything import ADDRESS_BOOK_ENTRY
from tests.check.foreign import faults_in
from tests.forked_python import forked
from tests.interop.recorded import Recorded, run_peer
from tests.server_programs import recording

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "peers"
SCENARIO = json.loads((SCRIPTS / "scenario.json").read_text(encoding="utf-8"))
SERVER = ["-m", "mcp_ref", "run", "tests/interop/peers/served.py"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

#: name → the program and its arguments, relative to the peers' folder and to SCRIPTS. Clients with `auto` in their name
#: ask for the server's era. FastMCP does this by default.
CLIENTS = {
    "python-sdk-1": ("python-sdk-1/bin/python", "python_sdk_1.py", []),
    "python-sdk-2": ("python-sdk-2/bin/python", "python_sdk_2.py", ["legacy"]),
    "python-sdk-2-auto": ("python-sdk-2/bin/python", "python_sdk_2.py", ["auto"]),
    "fastmcp": ("fastmcp/bin/python", "fastmcp_client.py", ["legacy"]),
    "fastmcp-auto": ("fastmcp/bin/python", "fastmcp_client.py", ["auto"]),
    "typescript-sdk-1": ("node_modules/.bin/node", "typescript_sdk_1.mjs", []),
    "typescript-sdk-2": ("node_modules/.bin/node", "typescript_sdk_2.mjs", ["legacy"]),
    "typescript-sdk-2-auto": ("node_modules/.bin/node", "typescript_sdk_2.mjs", ["auto"]),
}

#: transport → where the client finds the server; over stdio it starts it itself.
TRANSPORTS = {"stdio": "", "http": "/mcp", "http-json": "/mcp", "http+sse": "/sse"}

#: The same within another application (mounted.py) under uvicorn.
MOUNTED = {"asgi": "/apps/everything/mcp", "asgi+sse": "/apps/everything/sse"}

VISITS = [f"{client} {transport}" for client in CLIENTS for transport in TRANSPORTS]
VISITS += [f"{client} {transport}" for client in ("python-sdk-2", "typescript-sdk-2") for transport in MOUNTED]
VISITS += [f"{client} asgi" for client in ("python-sdk-2-auto", "typescript-sdk-2-auto")]
# In 2026-07-28 progress and logs need the stream of the response, so that a JSON response has neither.
VISITS = [visit for visit in VISITS if not visit.endswith("-auto http-json")]
# In the legacy era, FastMCP leaves all this to the Python SDK below it.
VISITS = [visit for visit in VISITS if not visit.startswith("fastmcp ") or visit == "fastmcp http"]


@dataclass
class Visit:
    """The report of one client, and the record of the server."""

    client: str
    transport: str
    report: dict[str, Any]
    server: Recorded
    faults: set[str]
    """The rules that the two sides broke, by the judge."""

    @property
    def modern(self) -> bool:
        """True if client and server use the modern era, which HTTP+SSE does not have."""
        return self.client.endswith("-auto") and not self.transport.endswith("sse")

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return self._answer("calls", name, arguments)

    def prompt(self, name: str, /, **arguments: str) -> dict[str, Any]:
        return self._answer("gets", name, arguments)

    def read(self, uri: str) -> dict[str, Any]:
        reads: dict[str, dict[str, Any]] = dict(self.report["reads"])
        return reads[uri]

    def _answer(self, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        [answer] = [answer for *call, answer in self.report[kind] if call == [name, arguments]]
        assert isinstance(answer, dict)
        return answer


@pytest.fixture(scope="module", params=VISITS)
def visit(request: pytest.FixtureRequest, peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    client, transport = request.param.split()
    program, script, arguments = CLIENTS[client]
    server = Recorded(tmp_path_factory.mktemp(client))
    talk = server.folder / "talk.jsonl"

    def report(target: Sequence[str]) -> dict[str, Any]:
        ran = run_peer(peers, peers / program, SCRIPTS / script, *arguments, *target)
        if ran.returncode != 0:
            pytest.fail(f"{request.param}\n{ran.stdout}\n{ran.stderr}\nThe server's stderr:\n{server.stderr}")
        reported: dict[str, Any] = json.loads(ran.stdout)
        return reported

    with served(peers, server, transport) as target, contextlib.ExitStack() as stack:
        if transport == "stdio":
            reported = report(forked("-m", "mcp_ref", "record", str(talk), "--", *target))
        else:
            reported = report([stack.enter_context(recording(talk, target[0]))])
    return Visit(client, transport, reported, server, faults_in(talk))


@contextlib.contextmanager
def served(peers: Path, server: Recorded, transport: str, *options: str) -> Iterator[list[str]]:
    """Serve, and yield the client's arguments for the server: its command, or a URL."""
    if transport == "stdio":
        yield server.command([sys.executable, *SERVER, *options])
    elif transport in TRANSPORTS:
        options += ("--json-responses",) if transport == "http-json" else ()
        command = forked(*SERVER, "--http", "--port", "0", *options)
        with server.listening(command, r"everything: (http://[^/\n]+)/mcp\n") as ready:
            yield [ready[1] + TRANSPORTS[transport]]
    else:
        command = [str(peers / "asgi/bin/python"), "-m", "uvicorn", "--port", "0", "--timeout-graceful-shutdown", "1"]
        command += ["--app-dir", str(SCRIPTS), "mounted:app"]
        with server.listening(command, r"running on (http://\S+)", {"PYTHONPATH": str(ROOT)}) as ready:
            yield [ready[1] + MOUNTED[transport]]


def text(result: dict[str, Any]) -> str:
    """Return the text of a result that has no other content and is not an error."""
    assert not result.get("isError", False), result
    [block] = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_neither_side_breaks_a_rule(visit: Visit) -> None:
    assert visit.faults == set()


def test_client_and_server_agree_on_a_revision(visit: Visit) -> None:
    initialized = visit.report["initialize"]
    assert initialized["protocolVersion"] == ("2026-07-28" if visit.modern else "2025-11-25")
    assert initialized["serverInfo"]["name"] == "everything"
    assert initialized["serverInfo"]["version"]
    assert {"tools", "resources", "prompts", "logging", "completions"} <= initialized["capabilities"].keys()
    assert initialized["capabilities"]["resources"]["subscribe"] is True
    assert initialized["instructions"]


def test_ping_is_answered(visit: Visit) -> None:
    if visit.modern:
        assert visit.report["ping"] is None  # 2026-07-28 has no ping
    else:
        assert visit.report["ping"] in ({}, {"resultType": "complete"})  # Python SDK 2 fills in the newest field


def test_tools_are_listed_with_their_schemas(visit: Visit) -> None:
    tools = {tool["name"]: tool for tool in visit.report["tools"]}
    assert len(tools) == len(visit.report["tools"])
    assert tools.keys() >= {name for name, _ in SCENARIO["calls"] if name != "no_such_tool"}
    assert tools.keys() >= {"test_tool_with_logging", "test_tool_with_progress", "slow", "touch_watched"}
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools.values())
    schema = tools["add"]["inputSchema"]
    assert {name: field["type"] for name, field in schema["properties"].items()} == {"a": "integer", "b": "integer"}
    assert sorted(schema["required"]) == ["a", "b"]
    schema = tools["add"]["outputSchema"]
    # in 2026-07-28 a structured result is any value; before, an object
    assert (schema if visit.modern else schema["properties"]["result"])["type"] == "integer"


def test_hand_written_schema_arrives_unchanged(visit: Visit) -> None:
    [schema] = [t["inputSchema"] for t in visit.report["tools"] if t["name"] == "json_schema_2020_12_tool"]
    assert schema == ADDRESS_BOOK_ENTRY


def test_arguments_are_held_against_a_hand_written_schema(visit: Visit) -> None:
    address = {"street": "Main", "city": "Bath"}
    called = visit.call("json_schema_2020_12_tool", name="Ada", address=address, email="ada@example.org")
    assert "Ada" in text(called)
    assert visit.call("json_schema_2020_12_tool", name="Ada", surprise=True)["isError"] is True


def test_tools_return_every_kind_of_content(visit: Visit) -> None:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert text(visit.call("test_simple_text")) == "This is a simple text response for testing."
    assert visit.call("test_image_content")["content"] == [image]
    assert visit.call("test_audio_content")["content"] == [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]
    [embedded] = visit.call("test_embedded_resource")["content"]
    assert embedded == {
        "type": "resource",
        "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        },
    }
    first, second, third = visit.call("test_multiple_content_types")["content"]
    assert first == {"type": "text", "text": "Multiple content types test:"}
    assert second == image
    assert third["resource"]["uri"] == "test://mixed-content-resource"
    assert json.loads(third["resource"]["text"]) == {"test": "data", "value": 123}


def test_any_text_comes_back_as_it_was_sent(visit: Visit) -> None:
    [message] = [arguments["message"] for name, arguments in SCENARIO["calls"] if name == "echo"]
    assert text(visit.call("echo", message=message)) == message


def test_typed_result_arrives_as_text_and_structured_content(visit: Visit) -> None:
    result = visit.call("add", a=2, b=3)
    assert result["structuredContent"] == (5 if visit.modern else {"result": 5})
    assert text(result) == "5"


def test_tool_that_fails_is_a_result_and_an_unknown_tool_is_a_protocol_error(visit: Visit) -> None:
    failed = visit.call("test_error_handling")
    assert failed["isError"] is True
    assert failed["content"][0]["text"] == "This tool intentionally returns an error for testing"

    wrong = visit.call("add", a="two", b=3)
    assert wrong["isError"] is True
    assert "a" in wrong["content"][0]["text"]
    assert "integer" in wrong["content"][0]["text"]

    unknown = visit.call("no_such_tool")["error"]
    assert unknown["code"] == -32602
    assert "no_such_tool" in unknown["message"]


def test_sampling_asks_the_client_and_gets_its_answer(visit: Visit) -> None:
    assert text(visit.call("test_sampling", prompt="Say something")) == "LLM response: sampled: Say something"
    asked = visit.report["sampling"][0]
    assert asked["messages"] == [{"role": "user", "content": {"type": "text", "text": "Say something"}}]
    assert asked["maxTokens"] == 100


def test_elicitation_asks_the_user_and_gets_the_three_answers(visit: Visit) -> None:
    def answer(message: str) -> tuple[str, Any]:
        action, content = text(visit.call("test_elicitation", message=message)).split(", content=")
        return action, json.loads(content)

    assert answer("Your name?") == ("User response: action=accept", {"response": "an answer"})
    assert answer("decline") == ("User response: action=decline", {})
    assert answer("cancel") == ("User response: action=cancel", {})
    asked = visit.report["elicitation"][0]
    assert asked["message"] == "Your name?"
    assert asked.get("mode", "form") == "form"
    assert asked["requestedSchema"]["type"] == "object"
    assert asked["requestedSchema"]["properties"]["response"]["type"] == "string"
    assert asked["requestedSchema"]["required"] == ["response"]


def test_form_has_defaults_of_every_type(visit: Visit) -> None:
    fields = visit.report["elicitation"][3]["requestedSchema"]["properties"]
    assert {name: (field["type"], field["default"]) for name, field in fields.items()} == {
        "name": ("string", "John Doe"), "age": ("integer", 30), "score": ("number", 95.5),
        "status": ("string", "active"), "verified": ("boolean", True),
    }  # fmt: skip
    assert fields["status"]["enum"] == ["active", "inactive", "pending"]
    action, content = text(visit.call("test_elicitation_sep1034_defaults")).split(", content=")
    assert action == "Elicitation completed: action=accept"
    assert json.loads(content) == {name: field["default"] for name, field in fields.items()}


def test_form_has_every_kind_of_choice(visit: Visit) -> None:
    fields = visit.report["elicitation"][4]["requestedSchema"]["properties"]
    assert fields["untitledSingle"]["enum"] == ["option1", "option2", "option3"]
    assert fields["titledSingle"]["oneOf"][1] == {"const": "value2", "title": "Second Option"}
    assert fields["legacyEnum"]["enumNames"] == ["Option One", "Option Two", "Option Three"]
    assert fields["untitledMulti"]["items"]["enum"] == ["option1", "option2", "option3"]
    assert fields["titledMulti"]["items"]["anyOf"][2] == {"const": "value3", "title": "Third Choice"}
    action, content = text(visit.call("test_elicitation_sep1330_enums")).split(", content=")
    assert action == "Elicitation completed: action=accept"
    assert json.loads(content) == {
        "untitledSingle": "option1", "titledSingle": "value1", "legacyEnum": "opt1", "untitledMulti": ["option1"],
        "titledMulti": ["value1"],
    }  # fmt: skip


def test_client_resumes_a_stream_that_the_server_closes_and_gets_the_response(visit: Visit) -> None:
    # Streamable HTTP, not by JSON alone, and not 2026-07-28: there, a response that is cut off is no more
    has_stream = visit.transport in ("http", "asgi") and not visit.modern
    assert text(visit.call("test_reconnection")) == (
        "The answer waited for you." if has_stream else "There was no connection to let go of."
    )


def test_tool_requests_input_concurrently_and_in_several_rounds(visit: Visit) -> None:
    greeting = "sampled: What is the capital of France?"
    assert greeting in text(visit.call("test_input_required_result_sampling"))
    assert text(visit.call("test_input_required_result_elicitation")) == "Hello, an answer!"
    assert text(visit.call("test_input_required_result_multiple_inputs")) == "3 answers"
    two = "{'name': 'an answer'} {'name': 'an answer'}"
    assert text(visit.call("test_input_required_result_multi_round")) == two
    assert text(visit.call("test_streaming_elicitation")) == "went on: accept"
    asked = [form["message"] for form in visit.report["elicitation"][5:]]
    assert asked == [
        *("What is your name?", "What is your name?", "Step 1: What is your name?"),
        *("Step 2: What is your favorite color?", "Go on?", "What context should the prompt use?"),
    ]


def test_prompt_requests_input(visit: Visit) -> None:
    [message] = visit.prompt("test_input_required_result_prompt")["messages"]
    assert message["content"]["text"] == "In the context of {'context': 'an answer'}, go on."


def test_arguments_stand_in_headers_also_for_a_tool_that_was_not_listed_yet(visit: Visit) -> None:
    called = visit.call("query_by_region", region=" Zürich", priority=3, query="rain")
    assert text(called) == "rain in  Zürich, priority 3"
    if visit.client == "fastmcp-auto" and visit.transport == "http":
        assert visit.report["unlisted"]["error"]["code"] == -32020  # it does not list the tools and try again
    else:
        assert text(visit.report["unlisted"]) == "snow in north, priority 0"


def test_client_reuses_a_result_for_as_long_as_the_server_allows(visit: Visit) -> None:
    keeps = visit.modern and visit.client != "fastmcp-auto"
    assert visit.report["kept"] == ([1, 1] if keeps else [1, 2])
    assert visit.report["passing"] == [1, 2]


def test_roots_come_from_the_client(visit: Visit) -> None:
    assert json.loads(text(visit.call("list_roots"))) == [root["uri"] for root in SCENARIO["roots"]]


def test_progress_arrives_in_order_before_the_result(visit: Visit) -> None:
    assert visit.report["progress"]["steps"] == [
        {"progress": step, "total": 100, "message": f"Completed step {step} of 100"} for step in (0, 50, 100)
    ]
    assert "error" not in visit.report["progress"]["result"]


def test_logs_arrive_from_the_level_that_the_client_asked_for(visit: Visit) -> None:
    logs = visit.report["logs"]
    assert text(logs["result"]) == "Tool with logging executed successfully"
    assert [(log["level"], log["data"]) for log in logs["at info"]] == [
        ("info", "Tool execution started"),
        ("info", "Tool processing data"),
        ("info", "Tool execution completed"),
    ]
    assert logs["at error"] == []


def test_subscription_receives_updates_until_it_ends(visit: Visit) -> None:
    assert visit.report["updates"] == {"while subscribed": ["test://watched-resource"], "afterwards": []}


def test_cancelled_call_stops_at_the_server_and_the_next_call_works(visit: Visit) -> None:
    assert visit.report["cancellation"]["cancelled"] is True
    assert text(visit.report["cancellation"]["next call"]) == "slept 0.1 s"
    assert visit.server.stderr.count("slow: cancelled") == 1


def test_resources_and_templates_are_listed(visit: Visit) -> None:
    resources = {resource["uri"]: resource for resource in visit.report["resources"]}
    assert resources.keys() >= {"test://static-text", "test://static-binary", "test://watched-resource"}
    assert resources["test://static-text"]["mimeType"] == "text/plain"
    assert resources["test://static-binary"]["mimeType"] == "image/png"
    [template] = [t for t in visit.report["resourceTemplates"] if t["uriTemplate"] == "test://template/{id}/data"]
    assert template["mimeType"] == "application/json"
    assert all(thing["name"] for thing in [*resources.values(), template])


def test_resources_are_read_as_text_as_bytes_and_by_template(visit: Visit) -> None:
    assert visit.read("test://static-text")["contents"] == [
        {
            "uri": "test://static-text",
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }
    ]
    assert visit.read("test://static-binary")["contents"] == [
        {"uri": "test://static-binary", "mimeType": "image/png", "blob": PNG}
    ]
    [content] = visit.read("test://template/42/data")["contents"]
    assert (content["uri"], content["mimeType"]) == ("test://template/42/data", "application/json")
    assert json.loads(content["text"]) == {"id": "42", "templateTest": True, "data": "Data for ID: 42"}


def test_missing_resource_is_the_error_of_the_revision(visit: Visit) -> None:
    error = visit.read("test://no-such-resource")["error"]
    # The TypeScript SDK from version 2 on shows its user the modern code, whichever came.
    assert error["code"] == (-32602 if visit.modern or visit.client.startswith("typescript-sdk-2") else -32002)


def test_prompts_are_listed_with_their_arguments(visit: Visit) -> None:
    prompts = {prompt["name"]: prompt for prompt in visit.report["prompts"]}
    assert prompts.keys() >= {name for name, _ in SCENARIO["prompts"] if name != "no_such_prompt"}
    assert not prompts["test_simple_prompt"].get("arguments")
    assert [(a["name"], a["required"]) for a in prompts["test_prompt_with_arguments"]["arguments"]] == [
        ("arg1", True),
        ("arg2", True),
    ]


def test_prompts_are_filled_in(visit: Visit) -> None:
    def contents(result: dict[str, Any]) -> list[Any]:
        assert all(message["role"] == "user" for message in result["messages"])
        return [message["content"] for message in result["messages"]]

    def words(value: str) -> dict[str, str]:
        return {"type": "text", "text": value}

    assert contents(visit.prompt("test_simple_prompt")) == [words("This is a simple prompt for testing.")]
    assert contents(visit.prompt("test_prompt_with_arguments", arg1="one", arg2="two")) == [
        words("Prompt with arguments: arg1='one', arg2='two'")
    ]
    assert contents(visit.prompt("test_prompt_with_embedded_resource", resourceUri="test://embedded")) == [
        {
            "type": "resource",
            "resource": {
                "uri": "test://embedded", "mimeType": "text/plain", "text": "Embedded resource content for testing.",
            },
        },
        words("Please process the embedded resource above."),
    ]  # fmt: skip
    assert contents(visit.prompt("test_prompt_with_image")) == [
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        words("Please analyze the image above."),
    ]


def test_unknown_prompt_and_missing_argument_are_invalid_params(visit: Visit) -> None:
    assert visit.prompt("no_such_prompt")["error"]["code"] == -32602
    missing = visit.prompt("test_prompt_with_arguments", arg1="one")["error"]
    assert missing["code"] == -32602
    assert "arg2" in missing["message"]


def test_completion_offers_what_begins_like_the_argument(visit: Visit) -> None:
    completion = visit.report["completion"]["completion"]
    assert completion["values"] == ["paris", "park", "party"]
    assert not completion.get("hasMore", False)


def test_server_leaves_no_process_and_no_error_in_its_log(visit: Visit) -> None:
    # TypeScript SDK 2 first asks for the era in a process of its own, which it then kills; its status is no matter.
    probes = 1 if visit.client == "typescript-sdk-2-auto" and visit.transport == "stdio" else 0
    assert len(visit.server.pids) == probes + 1
    assert visit.server.alive() == []
    assert visit.server.statuses[-1:] == [128 + signal.SIGTERM if visit.transport in MOUNTED else 0]  # as uvicorn ends
    assert len(visit.server.statuses) <= probes + 1
    assert "Traceback" not in visit.server.stderr
    assert "ERROR" not in visit.server.stderr


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(
    ("program", "script"), [("python-sdk-2/bin/python", "eras.py"), ("node_modules/.bin/node", "eras.mjs")]
)
def test_modern_only_server_refuses_a_handshake(
    peers: Path, recorded: Recorded, program: str, script: str, transport: str
) -> None:
    with served(peers, recorded, transport, "--revision", "2026-07-28") as target:
        ran = run_peer(peers, peers / program, SCRIPTS / script, *target)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == ["2026-07-28", "2026-07-28", -32022]
    assert recorded.alive() == []
    assert "Traceback" not in recorded.stderr


@pytest.mark.parametrize(
    ("program", "script"), [("python-sdk-2/bin/python", "listen.py"), ("node_modules/.bin/node", "listen.mjs")]
)
def test_server_that_stops_completes_the_subscriptions_of_its_clients(
    peers: Path, recorded: Recorded, program: str, script: str
) -> None:
    with contextlib.ExitStack() as stack:
        with served(peers, recorded, "http") as [url]:
            client = stack.enter_context(
                subprocess.Popen(
                    [peers / program, SCRIPTS / script, url], env={**os.environ, "MCP_REF_PEERS": str(peers)},
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            stack.callback(client.kill)
            assert client.stdout is not None and select.select([client.stdout], [], [], 20)[0]
            assert client.stdout.readline() == "listening\n"
        said, _ = client.communicate(timeout=20)
        assert (said, client.returncode) == ("graceful\n", 0)
    assert "Traceback" not in recorded.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_inspector_lists_and_calls_tools(peers: Path, recorded: Recorded, transport: str) -> None:
    """Use the command line of the official inspector, a host that closes connections at other times."""
    programs = peers / "node_modules/.bin"

    def inspect(target: list[str], *arguments: str) -> Any:
        ran = run_peer(peers, programs / "node", programs / "mcp-inspector", "--cli", *target, *arguments)
        assert ran.returncode == 0, ran.stderr + recorded.stderr
        return json.loads(ran.stdout[ran.stdout.index("{") :])

    with served(peers, recorded, transport) as target:
        assert "add" in [tool["name"] for tool in inspect(target, "--method", "tools/list")["tools"]]
        called = inspect(target, "--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
        assert called["structuredContent"] == {"result": 5}
    assert recorded.alive() == []
    assert "Traceback" not in recorded.stderr
