"""The blocking client: an ordinary program's view, with real servers within it and as processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from mcp_ref import Client, Context, Server, SyncClient
from mcp_ref.basic.content import TextContent
from mcp_ref.basic.lifecycle import CapabilityError
from mcp_ref.client.connector import ConnectionState
from mcp_ref.client.sync import Synchronous
from mcp_ref.features.completion import PromptReference
from mcp_ref.features.logging import LoggingMessageNotificationParams
from mcp_ref.features.sampling import CreateMessageRequestParams, CreateMessageResult
from mcp_ref.jsonrpc.errors import ConnectionClosed, ProtocolError, RemoteError, RequestTimeout
from mcp_ref.revisions import REVISIONS
from tests.settings import PATIENCE, ROOT


def chatty_server() -> Server:
    server = Server("chatty")

    @server.tool()
    async def greet(name: str, context: Context) -> str:
        await context.log("info", "greeting")
        return f"Hello, {name}!"

    return server


def ends(call: Callable[[], object]) -> bool:
    """Return True if a call comes to an end by itself."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_sync_client_before_or_after_its_connection_raises_runtime_error_with_advice() -> None:
    client = SyncClient(Client(chatty_server()))
    errors: list[BaseException] = []

    def call() -> None:
        try:
            client.list_tools()
        except RuntimeError as error:
            errors.append(error)

    assert ends(call)
    with client:
        client.ping()
    assert client.client.connector.state is ConnectionState.CLOSED
    assert ends(call)
    assert [str(error) for error in errors] == ["not connected: use `with SyncClient(...) as client`"] * 2


def test_sync_client_refuses_a_call_from_its_own_callback() -> None:
    errors: list[str] = []
    client: SyncClient

    def on_log(params: LoggingMessageNotificationParams) -> None:
        try:
            client.ping()
        except RuntimeError as error:
            errors.append(str(error))

    client = SyncClient(Client(chatty_server(), on_log=on_log))

    def session() -> None:
        with client:
            client.call_tool("greet", {"name": "Ada"})

    assert ends(session)
    assert len(errors) == 1
    assert "callback" in errors[0]


def featured_server() -> Server:
    server = Server("featured")

    @server.tool()
    async def work(context: Context, steps: int) -> int:
        for step in range(steps):
            await context.report_progress(step + 1, steps, "working")
        return threading.get_ident()

    @server.tool()
    async def ask(context: Context) -> str:
        return (await context.sample("?", max_tokens=5)).text

    @server.tool()
    async def never() -> None:
        await asyncio.Event().wait()

    @server.tool()
    async def refuse() -> None:
        raise ProtocolError(-5, "no", {"why": "because"})

    @server.resource("test://a")
    async def resource() -> str:
        return "x"

    @server.resource("test://of/{name}")
    async def template(name: str) -> str:
        return name

    @server.prompt()
    async def greeting(name: str) -> str:
        return f"Greet {name}"

    @server.completion("greeting", "name")
    async def complete(value: str) -> list[str]:
        return ["Ada"]

    return server


async def model(params: CreateMessageRequestParams) -> CreateMessageResult:
    """Return a message, after work in a worker thread."""
    words = await asyncio.to_thread(lambda: "in a thread")
    return CreateMessageResult("assistant", TextContent(words), "m")


def test_sync_client_methods_return_their_results() -> None:
    with SyncClient(Client(featured_server(), sampling=model)) as client:
        assert (client.revision, client.server_info.name) == (REVISIONS[-1], "featured")
        client.ping()
        assert [tool.name for tool in client.list_tools()] == ["work", "ask", "never", "refuse"]
        assert [resource.uri for resource in client.list_resources()] == ["test://a"]
        assert [template.uri_template for template in client.list_resource_templates()] == ["test://of/{name}"]
        (contents,) = client.read_resource("test://of/b").contents
        assert (contents.uri, contents.text) == ("test://of/b", "b")  # type: ignore[union-attr]
        assert [prompt.name for prompt in client.list_prompts()] == ["greeting"]
        (message,) = client.get_prompt("greeting", {"name": "Ada"}).messages
        assert message.content == TextContent("Greet Ada")
        assert client.complete(PromptReference("greeting"), "name", "A").values == ["Ada"]
        client.set_logging_level("error")
        assert client.call_tool("ask").text == "in a thread"


def test_sync_client_run_reaches_methods_of_the_asynchronous_client() -> None:
    with SyncClient(Client(featured_server(), revision="2025-03-26")) as client:
        assert client.run(client.client.batch(client.client.ping(), client.client.ping())) == [None, None]


def test_progress_comes_in_the_clients_own_thread_and_a_callback_that_raises_ends_nothing() -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    threads: set[str] = set()

    def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        threads.add(threading.current_thread().name)
        raise OSError("the display is gone")

    with SyncClient(Client(featured_server())) as client:
        result = client.call_tool("work", {"steps": 2}, on_progress=on_progress)
        assert result.text != str(threading.get_ident())
    assert heard == [(1, 2, "working"), (2, 2, "working")]
    assert threads == {"mcp-client"}


def test_errors_are_raised_where_the_call_was_made_and_the_next_call_works() -> None:
    with SyncClient(Client(featured_server())) as client:
        with pytest.raises(RemoteError) as refused:
            client.call_tool("refuse")
        assert (refused.value.code, refused.value.message, refused.value.data) == (-5, "no", {"why": "because"})
        with pytest.raises(RequestTimeout, match="tools/call"):
            client.call_tool("never", timeout=0.01)
        with pytest.raises(TypeError):
            client.call_tool("work", {"steps": object()})
        assert client.call_tool("work", {"steps": 0}).is_error is False
    with SyncClient(Client(Server("plain"))) as client, pytest.raises(CapabilityError, match="tools"):
        client.list_tools()


def test_sync_client_of_a_server_that_cannot_start_leaves_no_thread() -> None:
    client = SyncClient(["no-such-command-anywhere"])
    with pytest.raises(ConnectionClosed, match="no-such-command-anywhere"), client:
        pytest.fail("it was entered")
    assert "mcp-client" not in {thread.name for thread in threading.enumerate()}


def test_sync_client_is_closed_by_an_exception_in_its_with_block() -> None:
    client = SyncClient(Client(featured_server()))
    with pytest.raises(ZeroDivisionError), client:
        _ = 1 / 0
    assert "mcp-client" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="not connected"):
        client.ping()


def test_sync_client_that_fails_to_close_raises_the_error_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    client = SyncClient(chatty_server())

    async def close() -> None:
        await client.client.close()
        raise OSError("no space left")

    client._close = close
    with pytest.raises(OSError, match="no space left"), client:
        client.ping()
    gc.collect()  # asyncio logs an error that nobody has retrieved when its task is collected
    assert caplog.text == ""


def test_many_threads_share_one_client_and_each_gets_its_own_answer() -> None:
    with SyncClient(Client(chatty_server())) as client, ThreadPoolExecutor(8) as pool:
        names = [f"n{number}" for number in range(64)]
        answers = pool.map(lambda name: client.call_tool("greet", {"name": name}).text, names)
        assert list(answers) == [f"Hello, {name}!" for name in names]


def test_sync_client_can_be_entered_only_once() -> None:
    client = SyncClient(Client(chatty_server()))
    with client:
        with pytest.raises(RuntimeError, match="once"), client:
            pytest.fail("it was entered within itself")
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
    with pytest.raises(RuntimeError, match="once"), client:
        pytest.fail("it was entered again")


@pytest.mark.parametrize("what", ["a request", "anything else"])
@pytest.mark.usefixtures("short_finish")
def test_sync_client_that_another_thread_closes_raises_connection_closed_in_a_waiting_call(what: str) -> None:
    client = SyncClient(Client(featured_server(), timeout=None))
    ended: Future[BaseException | None] = Future()
    begun = threading.Event()
    tasks: list[asyncio.Task[object]] = []

    async def wait() -> None:
        tasks.extend(asyncio.all_tasks())
        begun.set()
        if what == "a request":
            await client.client.call_tool("never")
        else:
            await asyncio.gather(asyncio.Event().wait())

    def call() -> None:
        try:
            client.run(wait())
        except BaseException as error:
            ended.set_result(error)

    thread = threading.Thread(target=call, daemon=True)
    with client:
        thread.start()
        assert begun.wait(PATIENCE)
    assert isinstance(ended.result(PATIENCE), ConnectionClosed) and all(task.done() for task in tasks)
    thread.join(PATIENCE)


@pytest.mark.parametrize("is_closed", [False, True])
def test_sync_client_call_that_reaches_the_loop_at_its_end_is_connection_closed(
    is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    about_to_submit, may_submit, submitted = threading.Event(), threading.Event(), threading.Event()
    submit = asyncio.run_coroutine_threadsafe

    def submit_late(call: Coroutine[object, object, object], loop: asyncio.AbstractEventLoop) -> Future[object]:
        if threading.current_thread() is threading.main_thread():  # opens and closes the client
            return submit(call, loop)
        about_to_submit.set()
        may_submit.wait(PATIENCE)
        try:
            return submit(call, loop)
        finally:
            submitted.set()

    with SyncClient(chatty_server()) as client, ThreadPoolExecutor(1) as pool:
        loop = client._loop
        assert loop is not None
        close = loop.close

        def close_late() -> None:
            if is_closed:
                close()
            may_submit.set()
            submitted.wait(PATIENCE)
            close()

        monkeypatch.setattr(loop, "close", close_late)
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit_late)
        pinging = pool.submit(client.ping)
        about_to_submit.wait(PATIENCE)
        client.__exit__()
        with pytest.raises(ConnectionClosed, match="was closed"):
            pinging.result(PATIENCE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_sync_client_is_closed_by_a_callback_that_exits() -> None:
    def on_log(params: LoggingMessageNotificationParams) -> None:
        raise SystemExit(3)

    with SyncClient(Client(chatty_server(), on_log=on_log, timeout=None)) as client:
        with pytest.raises(ConnectionClosed):
            client.call_tool("greet", {"name": "Ada"})
        with pytest.raises(RuntimeError, match="not connected"):
            client.ping()


@pytest.mark.skipif(os.name == "nt", reason="it sends a signal")
def test_sync_client_that_is_interrupted_while_it_connects_leaves_no_server_process() -> None:
    program = """
import os, sys
from mcp_ref import Client, SyncClient
silent = "import sys, time; print('x', file=sys.stderr, flush=True); time.sleep(600)"
client = SyncClient(Client([sys.executable, "-c", silent], on_stderr=lambda data: print("started", flush=True)))
try:
    with client:
        pass
except KeyboardInterrupt:
    pid = client.client.connector._latest_session.transport.pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        print("nothing is left")
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"  # and now it waits for the handshake, in vain
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    assert output == b"nothing is left\n"


@pytest.mark.parametrize("has_begun", [True, False])
def test_sync_client_that_is_interrupted_while_its_thread_starts_leaves_no_thread(
    has_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, begun = threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        if has_begun:
            start(thread)
            begun.append(thread)
        raise KeyboardInterrupt

    client = SyncClient(chatty_server())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.__enter__()
    for thread in begun:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if client._loop is not None:  # its thread has not begun, and so has not closed it
        client._loop.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_sync_client_in_a_forked_process_raises_runtime_error_and_leaves_the_connection_to_its_parent() -> None:
    program = """
import os, signal
from mcp_ref import Server, SyncClient
with SyncClient(Server("forked")) as client:
    child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            client.ping()
        except RuntimeError as error:
            print(error)
    else:
        os.waitpid(child, 0)
        print("ponged", client.ping())
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, timeout=20)
    advice = b"the SyncClient cannot be used, because another process opened it: open a new one after the fork\n"
    assert done.stdout == advice + b"ponged None\n" and not done.stderr


def test_sync_client_that_a_destructor_closes_does_not_stop_the_end_of_python() -> None:
    program = """
from mcp_ref import Server, SyncClient
class Owner:
    def __init__(self):
        self.client = SyncClient(Server("forgotten"))
        self.client.__enter__()
    def __del__(self):
        try:
            self.client.ping()
        except RuntimeError as error:
            print(error)
        self.client.__exit__()
owner = Owner()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=20)
    assert b"because Python is exiting: use it before, in a `with` block or `atexit`" in done.stdout and not done.stderr


def test_sync_client_whose_closing_is_interrupted_is_closed_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    steps: list[str] = []
    submit = asyncio.run_coroutine_threadsafe

    async def open() -> None:
        pass

    async def close() -> None:
        steps.append("begins")
        begun.set()
        async with asyncio.timeout(PATIENCE):
            while sync._loop is not None:  # until the interrupted thread has stopped the event loop
                await asyncio.sleep(0)
        steps.append("ends")

    def submit_and_interrupt(
        call: Coroutine[object, object, object], loop: asyncio.AbstractEventLoop
    ) -> Future[object]:
        def interrupt() -> None:
            raise KeyboardInterrupt

        future = submit(call, loop)
        assert begun.wait(PATIENCE)
        monkeypatch.setattr(future, "result", interrupt)
        return future

    sync = Synchronous(None, open, close)
    sync.__enter__()
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        sync.__exit__()
    assert steps == ["begins", "ends"]
