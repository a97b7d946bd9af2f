"""The waits of the package, with the reason why each of them ends. tests/test_waits.py compares them with the source.

So far, the list covers the modules in `MODULES`. A wait is an `await` of an asyncio object, or of an object that the
caller has given, such as a handler. An `await` of a coroutine function of the package
does not count, because its own waits do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mcp_ref

PACKAGE = Path(mcp_ref.__file__).parent
MODULES = (
    "jsonrpc/dispatcher.py", "jsonrpc/requester.py", "lib/turns.py", "lib/http/connection.py",
    "lib/http/connections.py", "lib/http/exchange.py", "lib/http/server.py",
)  # fmt: skip

WAITS: dict[tuple[str, str, str], str] = {
    ("jsonrpc/dispatcher.py", "Dispatcher._run", "entry.slot"):
        "The queue ends it with a slot or after `Limits.patience`, and `stop` cancels the task.",
    ("jsonrpc/dispatcher.py", "Dispatcher._run", "self._transport.drain(request.id)"):
        "The transport ends it when the peer reads or leaves, and `close` cancels the task.",
    ("jsonrpc/dispatcher.py", "Dispatcher.finish", "asyncio.wait(self._tasks, timeout=left)"):
        "It has the time limit `grace`.",
    ("jsonrpc/dispatcher.py", "Dispatcher.close", "asyncio.wait(others, timeout=grace)"):
        "It has the time limit `grace`.",
    ("jsonrpc/dispatcher.py", "respond", "result"):
        "The author's handler ends it, or the peer cancels the request, or `close` cancels the task.",
    ("jsonrpc/dispatcher.py", "respond", "turn"):
        "`Turns._wait_in` schedules the passing-on of the turn.",
    ("jsonrpc/requester.py", "Requester.request", "self._transport.drain(related)"):
        "It has the time limit of the request; without one, the transport ends it when the peer reads or leaves.",
    ("jsonrpc/requester.py", "Requester.request", "pending.response"):
        "The response, the time limit or `fail_pending` at the end of the connection ends it.",
    ("jsonrpc/requester.py", "Requester.batch", "asyncio.gather(*tasks, return_exceptions=True)"):
        "Each task ends with its own request.",
    ("lib/turns.py", "Turns._wait_in", "turn"):
        "The wait schedules the passing-on of the turn, which schedules itself again for as long as a message waits.",
    ("lib/http/connection.py", "HttpConnection.read_body", "body"):
        "The end of the body, `HttpLimits.body_time` or the end of the connection ends it.",
    ("lib/http/connection.py", "HttpConnection._wait_and_handle", "rest"):
        "The author's handler ends it, or `abort` cancels the task.",
    ("lib/http/connection.py", "HttpConnection._serve", "rest"):
        "The author's handler ends it, or `abort` cancels the task.",
    ("lib/http/connection.py", "HttpConnection.drain", "asyncio.shield(self._slow_reader.drained)"):
        "`resume_writing` ends it, at the latest after `HttpLimits.write_time` without any progress of the client.",
    ("lib/http/connections.py", "Connections.wait_closed", "self._all_closed.wait()"):
        "It has a time limit.",
    ("lib/http/exchange.py", "HttpStreamingResponse.drain", "self._connection.drain()"):
        "See `HttpConnection.drain`.",
    ("lib/http/server.py", "HttpServer.close", "asyncio.wait(tasks, timeout=CANCEL_SECONDS)"):
        "It has the time limit `CANCEL_SECONDS`.",
    ("lib/http/server.py", "HttpServer._accept", "loop.sock_accept(listening)"):
        "It waits for the next client for as long as the server listens; `close` cancels the task.",
    ("lib/http/server.py", "HttpServer._start",
     "self._connections.loop.connect_accepted_socket(lambda: HttpConnection(self._connections), accepted, "
     "ssl=self._tls, ssl_handshake_timeout=self._connections.limits.head_time if self._tls else None, "
     "ssl_shutdown_timeout=LINGER_SECONDS if self._tls else None)"):
        "Without TLS it ends at once; a TLS handshake has the time limit `HttpLimits.head_time`.",
    ("lib/http/server.py", "start_server",
     "asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)"):
        "The system ends it when it has resolved the host.",
    ("lib/http/server.py", "end_tasks", "asyncio.wait(tasks)"):
        "All tasks are cancelled, and none of them suppresses the cancellation.",
}  # fmt: skip


def find_waits() -> set[tuple[str, str, str]]:
    """Return module, function and expression of each wait in `MODULES`."""
    trees = {name: ast.parse((PACKAGE / name).read_text("utf-8")) for name in MODULES}
    own = {
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef)
    } - {"wait", "drain"}
    return {(name, *found) for name, tree in trees.items() for found in _waits_in(tree, (), own)}


def _waits_in(node: ast.AST, path: tuple[str, ...], own: set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        path = (*path, node.name)
    if isinstance(node, ast.Await) and not _calls(node.value, own):
        yield ".".join(path), ast.unparse(node.value)
    for child in ast.iter_child_nodes(node):
        yield from _waits_in(child, path, own)


def _calls(value: ast.expr, own: set[str]) -> bool:
    """Return True if an expression calls a coroutine function of the package, or `asyncio.sleep`."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    return name == "asyncio.sleep" or name.rpartition(".")[2] in own
