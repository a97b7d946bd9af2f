"""A server with all features: each tool, resource and prompt shows one feature, in two to ten lines.

    python3 -m mcp_ref run examples/everything.py

MCP's official conformance suite expects most of these names and texts.
"""

import asyncio
import json
import sys
from base64 import b64decode
from collections.abc import Coroutine
from dataclasses import dataclass

from mcp_ref import (
    AudioContent,
    Context,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ProtocolError,
    Server,
    TextContent,
    TextResourceContents,
    ToolError,
)

server = Server("everything", "1.0", instructions="Call a tool to see the feature that it is named after.")

RED_PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
NO_SOUND = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")


# ---------------------------------------------------------------------------------------------------- results of tools


@server.tool()
def test_simple_text() -> TextContent:
    """Return one block of text."""
    return TextContent("This is a simple text response for testing.")


@server.tool()
def test_image_content() -> ImageContent:
    """Return an image."""
    return ImageContent.of(RED_PIXEL, "image/png")


@server.tool()
def test_audio_content() -> AudioContent:
    """Return a sound."""
    return AudioContent.of(NO_SOUND, "audio/wav")


@server.tool()
def test_embedded_resource() -> EmbeddedResource:
    """Return the contents of a resource as an embedded resource."""
    text = "This is an embedded resource content."
    return EmbeddedResource(TextResourceContents("test://embedded-resource", text, "text/plain"))


@server.tool()
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return several blocks of different types."""
    data = json.dumps({"test": "data", "value": 123})
    return [
        TextContent("Multiple content types test:"),
        ImageContent.of(RED_PIXEL, "image/png"),
        EmbeddedResource(TextResourceContents("test://mixed-content-resource", data, "application/json")),
    ]


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers. The server makes the schemas from the annotations, and sends the result as text and as data."""
    return a + b


@server.tool()
def echo(message: str) -> TextContent:
    """Return the message unchanged."""
    return TextContent(message)


@server.tool()
def test_error_handling() -> TextContent:
    """Fail with a text for the model. The server does not send the text of an unexpected exception."""
    raise ToolError("This tool intentionally returns an error for testing")


ADDRESS_BOOK_ENTRY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=ADDRESS_BOOK_ENTRY)
def json_schema_2020_12_tool(**entry: object) -> TextContent:
    """Accept arguments that match a hand-written schema."""
    return TextContent(f"JSON Schema 2020-12 tool called with: {json.dumps(entry)}")


# ---------------------------------------------------------------------------------------------------- while a tool runs


@server.tool()
async def test_tool_with_logging(context: Context) -> TextContent:
    """Send log messages. The client chooses the minimum level."""
    await context.log("info", "Tool execution started")
    await asyncio.sleep(0.05)
    await context.log("info", "Tool processing data")
    await asyncio.sleep(0.05)
    await context.log("info", "Tool execution completed")
    return TextContent("Tool with logging executed successfully")


@server.tool()
async def test_tool_with_progress(context: Context) -> TextContent:
    """Report progress. Only a client that sends a progress token receives the notifications."""
    for percent in (0, 50, 100):
        await context.report_progress(percent, 100, f"Completed step {percent} of 100")
        await asyncio.sleep(0.05)
    return TextContent("Tool with progress executed successfully")


@server.tool()
async def test_reconnection(context: Context) -> TextContent:
    """Close the HTTP connection before the result is ready. The client connects again for the result."""
    closed = context.close_stream()
    await asyncio.sleep(0.1)
    return TextContent("The answer waited for you." if closed else "There was no connection to let go of.")


@server.tool()
async def slow(seconds: float, context: Context) -> TextContent:
    """Wait. If the client cancels the call, the `await` raises CancelledError, which the tool must raise again."""
    try:
        await context.report_progress(0, seconds)
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("slow: cancelled", file=sys.stderr)
        raise
    return TextContent(f"slept {seconds} s")


# ---------------------------------------------------------------------------------------------------- asking the client


@server.tool()
async def test_sampling(prompt: str, context: Context) -> TextContent:
    """Ask the client's language model."""
    result = await context.sample(prompt, max_tokens=100)
    return TextContent(f"LLM response: {result.text}")


@server.tool()
async def list_roots(context: Context) -> TextContent:
    """Ask the client for its roots: the directories that this server is allowed to use."""
    return TextContent(json.dumps([root.uri for root in await context.list_roots()]))


@server.tool()
async def test_elicitation(message: str, context: Context) -> TextContent:
    """Ask the user. The user can accept, decline, or close the form."""
    response = {"type": "string", "description": "User's response"}
    form = {"type": "object", "properties": {"response": response}, "required": ["response"]}
    result = await context.elicit(message, form)
    return TextContent(f"User response: action={result.action}, content={json.dumps(result.content or {})}")


@server.tool()
async def test_elicitation_sep1034_defaults(context: Context) -> TextContent:
    """Ask the user with a form in which every field has a default."""
    form = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {
                "type": "string",
                "description": "User status",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "description": "Verification status", "default": True},
        },
        "required": [],
    }
    result = await context.elicit("Please review and update the form fields with defaults", form)
    return TextContent(f"Elicitation completed: action={result.action}, content={json.dumps(result.content or {})}")


@server.tool()
async def test_elicitation_sep1330_enums(context: Context) -> TextContent:
    """Ask the user with every kind of choice: one value or several values, with titles or without titles."""
    options = ["option1", "option2", "option3"]
    values = {"value1": "First", "value2": "Second", "value3": "Third"}
    titled = [{"const": value, "title": f"{nth} Option"} for value, nth in values.items()]
    choices = [{"const": value, "title": f"{nth} Choice"} for value, nth in values.items()]
    several = {"type": "array", "minItems": 1, "maxItems": 3}
    form = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "description": "Select one option", "enum": options},
            "titledSingle": {"type": "string", "description": "Select one option with titles", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "description": "Select one option (legacy)",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {**several, "description": "Select several", "items": {"type": "string", "enum": options}},
            "titledMulti": {**several, "description": "Select several with titles", "items": {"anyOf": choices}},
        },
        "required": [],
    }
    result = await context.elicit("Please select options from the enum fields", form)
    return TextContent(f"Elicitation completed: action={result.action}, content={json.dumps(result.content or {})}")


# ------------------------------------------------------------------------------------ asking, in several requests

# In 2026-07-28, a request ends when its tool asks for input. The client then sends the request again, with the input.


@dataclass
class Name:
    """A form with one field."""

    name: str


@dataclass
class About:
    """Another form with one field."""

    context: str


@dataclass
class Confirmation:
    """A form with one checkbox."""

    ok: bool


@server.tool()
async def test_input_required_result_elicitation(context: Context) -> TextContent:
    """Ask the user for a name."""
    result = await context.elicit("What is your name?", Name, key="user_name")
    return TextContent(f"Hello, {(result.content or {}).get('name', 'whoever you are')}!")


@server.tool()
async def test_input_required_result_sampling(context: Context) -> TextContent:
    """Ask the model a question."""
    result = await context.sample("What is the capital of France?", max_tokens=100)
    return TextContent(str(result.content))


@server.tool()
async def test_input_required_result_list_roots(context: Context) -> TextContent:
    """Ask the client for its roots."""
    return TextContent(" ".join(root.uri for root in await context.list_roots()))


@server.tool()
async def test_input_required_result_request_state(context: Context) -> TextContent:
    """Ask the user for a confirmation. The client returns the signed state with the reply."""
    result = await context.elicit("Please confirm", Confirmation)
    return TextContent(f"state-ok: {result.action}")


@server.tool()
async def test_input_required_result_tampered_state(context: Context) -> TextContent:
    """Ask the user for a confirmation. The server refuses a changed state before it calls this function."""
    result = await context.elicit("Please confirm", Confirmation)
    return TextContent(f"confirmed: {result.action}")


@server.tool()
async def test_input_required_result_multiple_inputs(context: Context) -> TextContent:
    """Ask for a name, a model's text and the roots in one result."""
    results = await context.gather_inputs(
        context.elicit("What is your name?", Name),
        context.sample("Generate a greeting", max_tokens=50),
        context.list_roots(),
    )
    return TextContent(f"{len(results)} answers")


@server.tool()
async def test_input_required_result_multi_round(context: Context) -> TextContent:
    """Ask the user twice, one question after the other."""
    first = await context.elicit("Step 1: What is your name?", Name)
    second = await context.elicit("Step 2: What is your favorite color?", Name)
    return TextContent(f"{first.content} {second.content}")


@server.tool()
async def test_input_required_result_capabilities(context: Context) -> TextContent:
    """Ask only for things that this client supports."""
    questions: list[Coroutine[object, object, object]] = []
    if context.client_can("sampling"):
        questions.append(context.sample("Say something", max_tokens=20))
    if context.client_can("elicitation"):
        questions.append(context.elicit("What is your name?", Name))
    return TextContent(f"{len(await context.gather_inputs(*questions))} answers")


@server.prompt()
async def test_input_required_result_prompt(context: Context) -> str:
    """A prompt that asks the user for its context."""
    result = await context.elicit("What context should the prompt use?", About)
    return f"In the context of {result.content}, go on."


@server.tool()
async def test_missing_capability(context: Context) -> TextContent:
    """Ask the model. A client without a model gets an error."""
    return TextContent(str((await context.sample("Hello", max_tokens=10)).content))


@server.tool()
async def test_streaming_elicitation(context: Context) -> TextContent:
    """Report progress, and then ask the user."""
    await context.report_progress(1, 2)
    result = await context.elicit("Go on?", Confirmation)
    return TextContent(f"went on: {result.action}")


@server.tool()
async def test_logging_tool(context: Context) -> TextContent:
    """Send a log message. Only a client that has requested log messages receives it."""
    await context.log("info", "A message of the logging tool")
    return TextContent("logged")


# ---------------------------------------------------------------------------------------------------- tasks

# With `task=`, the client gets a task id at once, and the function continues in the background.


@dataclass
class Consent:
    """A form with one checkbox."""

    confirm: bool


@server.tool()
def greet(name: str) -> TextContent:
    """Respond at once, without a task."""
    return TextContent(f"Hello, {name}!")


@server.tool(task="optional")
async def slow_compute(context: Context, seconds: float = 1, label: str = "work") -> TextContent:
    """Work for `seconds`, and report the status."""
    await context.set_status(f"{label}: {seconds} seconds to go")
    await asyncio.sleep(seconds)
    return TextContent(f"{label}: done")


@server.tool(task="required")
async def failing_job() -> TextContent:
    """Fail with a ToolError. The status of the task is `completed`, and its result is an error for the model."""
    await asyncio.sleep(0.5)
    raise ToolError("This job intentionally fails")


@server.tool(task="optional")
async def protocol_error_job() -> TextContent:
    """Fail with a ProtocolError. The status of the task is `failed`."""
    raise ProtocolError(-32603, "This job intentionally cannot be served")


@server.tool(task="optional")
async def confirm_delete(filename: str, context: Context) -> TextContent:
    """Ask the user before a file is deleted. The task waits for the reply."""
    result = await context.elicit(f"Delete {filename}?", Consent)
    done = result.action == "accept" and result.content == {"confirm": True}
    return TextContent(f"{filename} {'deleted' if done else 'kept'}")


@server.tool(task="optional")
async def multi_input(context: Context) -> TextContent:
    """Ask the user twice at the same time. The replies can come in any order."""
    results = await context.gather_inputs(context.elicit("Name?", Name), context.elicit("Sure?", Consent))
    return TextContent(f"{len(results)} answers")


@server.tool(task="required", asks_first=True)
async def test_tool_with_task(context: Context) -> TextContent:
    """Ask the user before the task begins."""
    result = await context.elicit("What is your name?", Name, key="user_name")
    await context.begin_task()
    return TextContent(f"Hello, {(result.content or {}).get('name')}!")


# ------------------------------------------------------------------------------------------- lists that change, headers


@server.tool()
def test_trigger_tool_change() -> TextContent:
    """Change the list of tools, and change it back."""
    server.tools.add(lambda: "", "there_for_a_moment")
    server.tools.remove("there_for_a_moment")
    return TextContent("changed")


@server.tool()
def test_trigger_prompt_change() -> TextContent:
    """Change the list of prompts, and change it back."""
    server.prompts.add(lambda: "", "there_for_a_moment")
    server.prompts.remove("there_for_a_moment")
    return TextContent("changed")


BY_REGION = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "query": {"type": "string"},
    },
    "required": ["region", "query"],
}


@server.tool(input_schema=BY_REGION)
def query_by_region(region: str, query: str, priority: int = 0) -> TextContent:
    """Send a query to a region. Over HTTP, proxies can read the region in the header Mcp-Param-Region."""
    return TextContent(f"{query} in {region}, priority {priority}")


# ---------------------------------------------------------------------------------------------------- resources


@server.resource("test://static-text", title="Static Text Resource", mime_type="text/plain")
def static_text() -> str:
    """A resource that is text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", title="Static Binary Resource", mime_type="image/png")
def static_binary() -> bytes:
    """A resource that is not text."""
    return RED_PIXEL


@server.resource("test://template/{id}/data", title="Resource Template", mime_type="application/json")
def template(id: str) -> dict[str, object]:
    """A resource for every id. The server sends a result that is neither text nor bytes as JSON."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.completion("test://template/{id}/data", "id")
def complete_id(value: str) -> list[str]:
    """Suggest ids that begin with the typed value."""
    return [id for id in ("1", "12", "123", "42") if id.startswith(value)]


@server.resource("test://watched-resource", title="Watched Resource", mime_type="text/plain")
def watched_resource() -> str:
    """A resource for subscribers. The tool `touch_watched` announces a change."""
    return "Watched resource content"


@server.tool()
def touch_watched() -> TextContent:
    """Notify the subscribers of the watched resource, as if it had changed."""
    server.resource_updated("test://watched-resource")
    return TextContent("touched")


# ---------------------------------------------------------------------------------------------------- prompts


@server.prompt(title="Simple Test Prompt")
def test_simple_prompt() -> str:
    """A prompt without arguments. The text becomes a user message."""
    return "This is a simple prompt for testing."


@server.prompt(title="Prompt With Arguments")
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt whose parameters are its arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(value: str) -> list[str]:
    """Suggest cities that begin with the typed value."""
    return [city for city in ("paris", "park", "party", "london") if city.startswith(value)]


@server.prompt(title="Prompt With Embedded Resource")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:
    """A prompt that shows the model a resource."""
    contents = TextResourceContents(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [
        PromptMessage("user", EmbeddedResource(contents)),
        PromptMessage("user", TextContent("Please process the embedded resource above.")),
    ]


@server.prompt(title="Prompt With Image")
def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt that shows the model an image."""
    return [
        PromptMessage("user", ImageContent.of(RED_PIXEL, "image/png")),
        PromptMessage("user", TextContent("Please analyze the image above.")),
    ]


if __name__ == "__main__":
    server.run()
