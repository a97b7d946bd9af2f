"""The waits of the package, with the reason why each of them ends. tests/test_waits.py compares them with the source.

A wait is an `await`, `async with` or `async for` of an asyncio object or of an object that the caller has given, such
as a handler, and a call that blocks its thread. These need no entry:

- A call of a coroutine function of the package, also in `asyncio.gather`, because its own waits have entries.
  `find_waits` decides by the function's name, so a name that other objects have too (`FOREIGN`) needs an entry, and so
  does a name that is also a plain function which returns an awaitable.
- A wait within a constant time limit, and a sleep, unless they are in a `while` loop.
- The `result` of a future, unless the module uses futures of threads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.sources import PACKAGE, modules, nodes_of, tree_of

FOREIGN = {"wait", "get", "run", "put", "anext", "acquire", "join"}
"""Names of coroutine functions that objects from elsewhere have too, so that a call of one is not followed."""
FOLLOWED = {"request", "connect", "open", "call", "_serve", "drain"}
"""Names of coroutine functions that plain functions have too, which only return the coroutine of such a function."""
TIME_LIMITS = {"timeout", "timeout_at", "time_limit"}
"""Names of functions whose context managers limit the waits within them, and do not wait themselves."""
CONSTANT = r"([A-Z_]+|[0-9.]+)"
LIMITED = re.compile(rf"timeout={CONSTANT}[,)]|asyncio\.wait_for\(.*, {CONSTANT}\)$")
"""A call that has a constant time limit."""
BLOCKING = {"acquire", "wait", "result", "communicate", "readline", "recv", "recvfrom", "sendall", "accept", "select"}
BLOCKING_WITHOUT_ARGUMENTS = {"join", "get"}
BLOCKING_FUNCTIONS = {"asyncio.run", "time.sleep", "subprocess.run", "input", "fcntl.flock", "os.waitpid", "os.read"}
MAY_BLOCK = BLOCKING | BLOCKING_WITHOUT_ARGUMENTS | {name.rpartition(".")[2] for name in BLOCKING_FUNCTIONS}
THREAD_FUTURES = re.compile("concurrent|run_coroutine_threadsafe")
"""The names by which a module gets futures of threads."""
SHOWN = 40
"""Number of characters of a wait's expression in `WAITS`."""

REASONS = {
    "DONE": "The future or task is done, so its result does not block.",
    "CONTEXT_OF_REQUEST": "See `HttpClient.request`, of which this is the context manager.",
    "STORE_WRITES": "The store: those of the package write memory or a small file, and others are the program's.",
    "STORE_READS": "The store: those of the package read memory or a small file, and others are the program's.",
    "HAS_LIMIT": "A time limit.",
    "SECONDS": "The time limit `seconds`.",
    "DRIVE_TIMEOUT": "The time limit `DriveOptions.timeout`.",
    "HTTP_HANDLER": "The handler, or the HTTP server cancels its task.",
    "TASK_RESPONSE":
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the connection.",
    "PROGRAMS_HANDLER": "The program's handler, or the end of the connection cancels its task.",
    "AUTHORS_HANDLER": "The author's handler, or the cancellation of the request.",
    "PIECES": "The pieces of the response, their time limit in `HttpResponse`, or the end of the connection.",
    "HANDSHAKE": "The response to `initialize` or the end of the session.",
}  # fmt: skip
"""Reasons that several waits have, by the name that `TABLE` uses."""

TABLE = """\
basic/authorization/client.py
    AuthorizedRequests.request: sending => CONTEXT_OF_REQUEST
    Bearer.current: self._token() => The program's function, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.
    ServerGrant._run: work() => The authorizer; a flow without waiters is cancelled.
    ServerGrant._wait: asyncio.shield(flow.task) => The flow; the request that waits can be cancelled without the flow.
basic/authorization/client_registration.py
    Clients._registered: self.store.get(f'client|{issuer}') => STORE_READS
    Clients.begin: self.store.put(f'client|{metadata.issuer => STORE_WRITES
    Clients.begin: stack.enter_async_context(receive(self.r =>
        See `loopback.receive`; the sign-in has the time limit `timeout`.
    Clients.begin: stack.enter_async_context(receive(uri)) =>
        See `loopback.receive`; the sign-in has the time limit `timeout`.
basic/authorization/server.py
    Protection._access: self._verify(token) =>
        The author's verifier; the requests of those of the package have the time limit `FETCH_SECONDS`.
basic/authorization/sign_in.py
    AuthorizationCode._ask_user: (self.open_browser or print_url)(url) =>
        The program's function, or the time limit `timeout` of the sign-in.
    AuthorizationCode._ask_user: receiver.query => The browser's request, or the time limit `timeout` of the sign-in.
    AuthorizationCode._keep: self.store.put(grant_key(url), grant.to_ => STORE_WRITES
    AuthorizationCode._sign_in: contextlib.AsyncExitStack() =>
        Entering it does not wait; leaving it closes the receiver, see `loopback.receive`.
    AuthorizationCode._refresh: asyncio.shield(refresh) =>
        The response of the authorization server, or the time limit `POST_SECONDS`.
    AuthorizationCode.obtain: self._sign_ins => The sign-in before it, which has the time limit `timeout`.
    AuthorizationCode.stored: self.store.get(grant_key(url)) => STORE_READS
basic/authorization/store.py
    FileStore._file_lock: asyncio.sleep(_POLL_SECONDS) => The loop has the time limit `LOCK_SECONDS`.
    MemoryStore.lock: self._locks.setdefault(key, asyncio.Lock =>
        Its holder frees it: a sign-in or a request of the authorizer, which have time limits.
    _try_lock: fcntl.flock(handle, fcntl.LOCK_EX | fcnt => It does not block because of `LOCK_NB`.
basic/authorization/verifiers.py
    Introspection._introspect: endpoint.get() => See `_Fetched.get`.
    Introspection.for_server.verify_token: asyncio.shield(task) =>
        The request of the task has the time limit `FETCH_SECONDS`.
    JwtVerifier.for_server.verify_token: source.get() => See `_Fetched.get`.
    JwtVerifier.for_server.verify_token: source.get(renew=True) => See `_Fetched.get`.
    _Fetched._fetch: self._fetch_value() => Each of its requests has the time limit `FETCH_SECONDS`.
    _Fetched.get: asyncio.wait([self._fetching], timeout=H =>
        The task ends with `_fetch`, each of whose requests has the time limit `FETCH_SECONDS`.
basic/channel.py
    RequestContext.run_in_worker: self.channel.loop.run_in_executor(execut =>
        The author's function; a cancellation ends the wait, but not the thread.
bridge/back_client.py
    BackClient._call_outside: asyncio.shield(session.initialized) =>
        The server's request waits for the handshake of the client, and ends with the session.
    BackClient.send: asyncio.wait(self._early_requests) =>
        Each of them ends with the call, or at the time limit of a held call.
    BackClient._serve: asyncio.wait([asking], timeout=KEEP_ALIV =>
        A time limit. The loop ends with the client's response, or with its session or held call.
bridge/backs.py
    BackServer.close: asyncio.gather(*connecting, *self._closi =>
        Each is cancelled, or is a `Client.close`, which has time limits.
    BackServer.shared: asyncio.shield(self._connecting[key]) =>
        The connection has the time limit of the client; the request that waits can be cancelled without it.
bridge/bridge.py
    Bridge.close: asyncio.shield(asyncio.create_task(self. => The task `_close`, which ends held calls and clients.
bridge/calls.py
    complete_call: asyncio.TaskGroup() =>
        Each task is a request to the client, which ends with its session; a failure cancels the others.
bridge/changes.py
    Changes._close_watch: asyncio.wait([watch.task]) =>
        The task is cancelled, and its end unsubscribes with the time limit of the client.
    Changes._open_watch: asyncio.shield(watch.accepted) =>
        It connects and subscribes with the time limits of the client; the end of the session cancels it.
    Changes.listen: handler(params, context) => It is the subscription: it ends when the client or the server ends it.
    Watch._report_updates: updates => `Changes._close_watch` cancels it, and the end of the connection ends it.
    Watch._run: asyncio.sleep(pause) =>
        A pause, after at most seven of which the subscription is lost; `Changes._close_watch` cancels it.
bridge/front.py
    FrontCatalog._close_tasks: self._close_servers() => It is `Bridge.close`.
    FrontCatalog._initialize: handler(params, context) =>
        It is the handshake of `ServerSession`, which waits for nothing.
    FrontCatalog._discover: handler(params, context) => It is `Catalog.discover`, which waits for nothing.
bridge/held.py
    HeldCall._proceed: self._changed.wait() =>
        The end of the server's call, or its next input request; the client can cancel its request.
    HeldCall._response_to: request.response =>
        `HeldCall.expire`, after 15 minutes at the latest, and the end of the server's call ends it too.
bridge/relay.py
    Relay._call_legacy_server: call.run(send(call)) =>
        The end of the server's call, or its next input request; the client can cancel its request.
bridge/tasks.py
    BridgeTasks.create.run: work(cast(Context, task)) =>
        It is the call of the server, which ends with its connection; the end of the task cancels it.
    BridgeTasks._serve_own: handler(_decoded(params_type(method), pa =>
        It is a method of `Tasks`, such as `Tasks.result`, which waits until the task is over or has expired.
cli/accounts.py
    BufferedStore.get: self._store.get(key) => STORE_READS
    BufferedStore.write: self._store.put(key, value) => STORE_WRITES
    login: make_client(options, authorizer) =>
        See `Client.__aenter__` and `Client.close`, whose requests have the option `--timeout`.
    login: store.put(f'client|{grant.issuer}', clie => STORE_WRITES
    login: store.put(grant_key(url), grant.to_json( => STORE_WRITES
cli/authorization.py
    read_token: sys.stdin.readline(MAX_TOKEN + 2) => The user ends it with a line, the end of the input or Ctrl-C.
cli/bridge.py
    run_bridge: asyncio.run(_revision_of_server(bridge)) =>
        It waits for the handshake, which has the time limit of the client.
    run_bridge: asyncio.run(_stored_approvals()) => It reads a small file.
cli/check.py
    judge_file: file.readline() => It reads a file.
    read_messages: file.readline() => It reads a file.
cli/client_commands.py
    connect_and_run: client => See `Client.connect` and `Client.close`.
    run_and_report: asyncio.run(command) => The command, or Ctrl-C.
    run_command: COMMANDS[options.name](client, options) => The command, or Ctrl-C.
    watch: anext(updates, None) => See `Subscription.__anext__`, or Ctrl-C.
cli/drive.py
    run_drive: asyncio.run(drive(server, drive_options) => Each request has the time limit `DriveOptions.timeout`.
cli/host_commands.py
    Consent._confirm: self.prompt_lock =>
        The person's decision about the request before, or the host's time limit for decisions.
    Consent.ask: self.prompt_lock =>
        The person's decision about the request before, or the host's time limit for decisions.
    _run: host => Entering it has the time limit `startup_wait`, and leaving it the limits of `HostedServer.close`.
    check_tool: consent.changed_tool =>
        The host asks for each of these tools, and `Consent._approve_definition` sets it in each case.
    kept_approvals: store.get('approvals') => STORE_READS
    kept_approvals: store.put('approvals', {**meanwhile, **a => STORE_WRITES
cli/installation.py
    user_agrees: input('Write this? [y/N] ') => The user types a line, ends the input or presses Ctrl-C.
cli/person.py
    ask_line: ready.wait() => The user ends it with a line, the end of the input or Ctrl-C.
    ask_line: sys.stdin.readline() => The input is ready to be read.
    elicitation_handler.ask: lock =>
        The person's response to the elicitation before, or the cancellation of its request.
cli/recorder.py
    _record_until_signal: ended.wait() => Ctrl-C or SIGTERM; it is the idle state of a recorder.
    read_recording: file.readline() => The file is one that the user has named; its end ends it.
    record: asyncio.run(_record_until_signal(tape, o => Ctrl-C or SIGTERM.
cli/replay.py
    _replay_client: asyncio.run(rerun(messages, parse_server => Each request has the time limit `RESPONSE_SECONDS`.
    _serve_until_signal.serve: listening => See `HttpServer.close`.
    _serve_until_signal.serve: stop_event().wait() => Ctrl-C or SIGTERM; it is the idle state of a server.
    _serve_until_signal: asyncio.run(serve()) => Ctrl-C or SIGTERM.
    _play: asyncio.run(replay_stdio(player)) => The client closes the input, or Ctrl-C or SIGTERM.
    _play_through_bridge: asyncio.run(bridge.server.serve_stdio()) => The client closes the input, or Ctrl-C or SIGTERM.
client/client.py
    Client.close: asyncio.shield(self._closing) => The task `_close`, whose waits have their own entries.
client/handlers.py
    ClientHandlers._run_or_start_task: work() => PROGRAMS_HANDLER
    _call: returned => PROGRAMS_HANDLER
client/negotiation.py
    _negotiate_by_probe: asyncio.gather(*tasks, return_exceptions =>
        Both tasks are cancelled, and all their waits end when they are cancelled.
    _negotiate_by_probe: asyncio.wait([probe, handshake], return_ =>
        The responses, the time limit in `_negotiate_once` or the end of the session.
    _negotiate_by_probe: asyncio.wait([probe]) =>
        The time limit `probe_seconds`; without one, the request's own time limit or the end of the session.
    _negotiate_by_probe: handshake or _initialize(session, offer) =>
        The response, the time limit in `_negotiate_once` or the end of the session.
    _negotiate_by_probe: probe => The response, the time limit in `_negotiate_once` or the end of the session.
    negotiate: open_session() => See `ClientSession.open`, which it calls.
client/session.py
    ClientSession._handle_all: task => The program's handler, or the cancellation of the request.
client/subscriptions.py
    ListenRequest._wait_to_retry: self._client.connector.ended.wait() => SECONDS
    ListenRequest.close: asyncio.wait([self._task]) =>
        The task is cancelled, and all its waits end when they are cancelled.
    ListenRequest.open: asyncio.shield(self._acknowledged) =>
        `_listen` calls `_end_listening` in each case: after the acknowledgement, an error or the time limit.
    Subscription.__anext__: self._wakeup.wait() =>
        An update or the end of the subscription; a server without updates is silent for as long as the program
        waits.
client/sync.py
    Synchronous.__exit__: self._thread.join() =>
        The loop has been stopped, and closing and the other tasks have 10 seconds each.
    Synchronous._close_once: asyncio.shield(self._closing) => The end of `close`, or 10 seconds in `_run_loop`.
    Synchronous.run: future.result() =>
        The end of the call; the end of the loop cancels every call, also one that reaches the loop too late.
demo/authorization.py
    authorization: await start_server(serve_authorization) =>
        Entering it does not wait, and leaving it has the time limits of `HttpServer.close`.
    authorization: await start_server(serve_mcp) =>
        Entering it does not wait, and leaving it has the time limits of `HttpServer.close`.
    authorization.serve_mcp: rest => HTTP_HANDLER
demo/connections.py
    HttpConnections._url: asyncio.create_subprocess_exec(*server_c => The operating system, which starts a process.
    HttpConnections._url: process.stderr.readline() =>
        The demo's own server prints its URL, or ends, which ends its output.
    _stop_process: process.communicate() => The demo's own server: it ends within seconds of its SIGTERM.
demo/host.py
    cancel_call: asyncio.wait([call]) => The call is cancelled.
    cancel_call: begun.wait() => The demo's own server reports progress.
demo/legacy.py
    session: anext(updates) => The demo's own server reports the change of the note.
demo/plain_http.py
    PlainHttp.events: response => PIECES
demo/screen.py
    Screen.claim_error: request => It is a request of a `Client`, which has a time limit.
demo/tour.py
    changing_lists: changed.get() => The demo's own server reports three changed lists.
    main: asyncio.run(tour(sys.stdout, http)) => The tour, or Ctrl-C.
    resources: anext(updates) => The demo's own server reports the change of the note.
    tour: contextlib.AsyncExitStack() => Entering it does not wait; leaving it closes the demo's connections.
extensions/auth/headless.py
    EnterpriseManaged.form: self.id_token() => The program's function, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.
    Headless._first_issuer: self.store.get(f'issuer|{self.client_id} => STORE_READS
    Headless.obtain: self.store.put(key, {'issuer': server.is => STORE_WRITES
    WorkloadIdentity.form: self.assertion() => The program's function, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.
extensions/tasks/live_task.py
    LiveTask.request_input: response => The requestor's response, the time limit of the request, or the end of the task.
    LiveTask.run: work(self) => The author's handler, or `stop` cancels it.
    _ResultRequests.wait_latest: self._new_request.wait() =>
        The next `tasks/result` request, or the time limit of the request in `request_input`.
    _ResultRequests.wait_until_ended: asyncio.shield(self.ended) =>
        The end of the task, or the cancellation of the `tasks/result` request.
extensions/tasks/receiver.py
    Tasks.call_tool: work(context) => AUTHORS_HANDLER
    Tasks.result: asyncio.sleep(self.poll_interval / 1000) =>
        The end or the expiry of the task in the store ends the loop, or the cancellation of the request.
    Tasks.start: asyncio.wait(waits, return_when=asyncio. => AUTHORS_HANDLER
extensions/tasks/requestor.py
    RunningTask._pause: self._ended.wait() => The time limit `_interval(task)`.
    RunningTask._respond: self._handle_input(request) =>
        The program's handler, or the end of the task, which cancels it.
    RunningTask._send_and_repeat: self._send_request(method, params, resul => TASK_RESPONSE
    RunningTask._send_or_pause: self._send_request(method, params, resul => TASK_RESPONSE
    RunningTask._respond_and_wait: asyncio.wait([pause, *awaited], return_w => The time limit `_interval(task)`.
    RunningTask._respond_and_wait: self._responding.pop(key) => The task is done.
    RunningTask.cancel: self._send_request('tasks/cancel', param => TASK_RESPONSE
    RunningTask.status: self._send_request('tasks/get', TaskRequ => TASK_RESPONSE
extensions/tasks/shared_tasks.py
    SharedTasks._check_lease: self._database.get(task.task_id) => The caller's `_bounded` gives it a time limit.
    SharedTasks._find: self._database.get(id) => The caller's `_bounded` gives it a time limit.
    SharedTasks._put_final: self._database.put(final) => The caller's `_bounded` gives it a time limit.
    SharedTasks._save_failed: asyncio.sleep(RETRY_SECONDS) => HAS_LIMIT
    SharedTasks._save_one: self._database.put(stored) => `_save_all` gives it the time limit `CALL_SECONDS`.
    SharedTasks._watch: asyncio.sleep(RETRY_SECONDS) => HAS_LIMIT
    SharedTasks._watch: self._wake.wait() => The next renewal, a third of a lease later.
    SharedTasks.wait_change: asyncio.wait([changed], timeout=seconds) => HAS_LIMIT
features/invoke.py
    call: function(**arguments) => The author's function, or the cancellation of the request.
    call: value => The author's function, or the cancellation of the request.
features/roots.py
    called_roots: found => PROGRAMS_HANDLER
host/host.py
    Host.close: asyncio.shield(self._closing) => See `HostedServer.close`.
    Host.reload: hosted.attempted.wait() =>
        `Supervisor._run` sets it at its end, or `HostedServer.close` with the state STOPPED.
    Host.watch: asyncio.sleep(pause) =>
        A time limit. The end of the server (`ServerUnavailable`) or the program's `aclose` ends the loop.
    Host.watch: updates => A change, the end of the connection, or the program's `aclose`.
host/hosted.py
    HostedServer._cut_for_model: request =>
        A request of the client, which has the time limit of the server or of the caller.
    HostedServer._elicit: self._elicitation(self.config.name, requ =>
        The program's handler, or the cancellation of the request.
    HostedServer._sample: self._sampling(self.config.name, params) =>
        The program's handler, or the cancellation of the request.
    HostedServer.close: asyncio.sleep(0.02) => The time limit `patience`.
host/policy.py
    Policy._ask: self._locks[server] => The time limit of the approval.
    Policy.typed_values: self._typing => The person ends the input before it, or its function `ask` fails.
host/supervisor.py
    Supervisor._run: asyncio.sleep(pause) =>
        It sleeps at most 1.2 times `MAX_PAUSE`, and `_run_once` limits the number of starts.
    Supervisor._run_once: self._start_limit => Each start holds it for at most `startup_timeout_sec` seconds.
    Supervisor._serve: self._wake.wait() =>
        The end of the session, a changed list or lost calls; it is the idle state of a ready server.
    Supervisor.ready_client: self._changed.wait() => The time limit `wait`.
    Supervisor.ready_client: self.attempted.wait() =>
        `_run` sets it at its end, or `HostedServer.close` with the state STOPPED; a person can take long to
        consent.
    Supervisor.stop: asyncio.wait([self._task]) =>
        The task is cancelled, and then closes its client; see `Client.close`.
jsonrpc/bounded_waits.py
    run_handler: handler => PROGRAMS_HANDLER
jsonrpc/dispatcher.py
    Dispatcher._run: entry.got_slot =>
        The queue ends it with a slot or after `Limits.patience`, and `stop` cancels the task.
    Dispatcher._run: turn => `Turns._wait_in` schedules the passing-on of the turn.
    Dispatcher.close: asyncio.wait(others, timeout=grace) => The time limit `grace`.
    Dispatcher.finish: asyncio.wait(self._tasks, timeout=left) => The time limit `grace`.
jsonrpc/requester.py
    Requester.batch: asyncio.gather(*tasks, return_exceptions => Each task ends with its own request.
    Requester.request: pending.arrival => The response, the time limit or `fail_pending` at the end of the connection.
    Requester.request: round_trip => See `pending.arrival`. The outcome ends the round trip too (`Pending.end`).
lib/http/asgi.py
    AsgiExchange._watch: self._receive() =>
        The ASGI server ends it with the client's next piece, or when the client disconnects.
    AsgiExchange.finish: asyncio.wait([self._disconnect_watcher]) =>
        The task is cancelled while it waits for the ASGI server.
    AsgiExchange.read_body: self._receive() =>
        The ASGI server ends it with the client's next piece, or when the client disconnects.
    AsgiExchange.wait_responded: asyncio.wait([self._response.ended]) =>
        `end`: after the last piece, when the client has disconnected, or when it reads too slowly.
    AsgiExchange.wait_responded: self._late => The response, or the refusal that a POST gets when its session ends.
    AsgiStreamingResponse._send_all: self._wake_sender.wait() => `write`, `close` and `end` set it.
    AsgiStreamingResponse.drain: self._sent.wait() => The sender sets it after each piece, and `end` sets it.
    AsgiStreamingResponse.wait_sent: asyncio.wait([self._sender]) =>
        The task is cancelled while it waits for the ASGI server.
    AsgiStreamingResponse.wait_sent: self.ended =>
        The sender ends it after the last piece, or the watcher when the client has disconnected.
    _handle: rest => The author's handler, or the ASGI server cancels the application.
    _serve_lifespan: function() =>
        `HttpApp.start` and `HttpApp.close` are the steps, and their waits have their own entries.
    application.app: asyncio.create_task(_handle(handler, exc =>
        The author's handler, or the ASGI server cancels the application.
lib/http/client.py
    HttpClient._begin_tls: loop.start_tls(transport, connection, co =>
        The time limit `connect` in `HttpClient._connect`.
    _reach: loop.getaddrinfo(host, port, type=SOCK_S => The time limit `connect` in `HttpClient._connect`.
    _reach.connect: loop.create_connection(lambda: connectio => The time limit `connect` in `HttpClient._connect`.
    HttpClient._send: connection.send_request(request) => See `ClientConnection.read_head`.
    fetch: sending => CONTEXT_OF_REQUEST
lib/http/connection.py
    HttpConnection._serve: rest => The author's handler, or `abort` cancels the task.
    HttpConnection._wait_and_handle: rest => The author's handler, or `abort` cancels the task.
    HttpConnection.drain: asyncio.shield(self._slow_reader.drained =>
        `resume_writing`, at the latest after `HttpLimits.write_time` without any progress of the client.
    HttpConnection.read_body: self._body => The body was refused before, so the wait ends at once.
    HttpConnection.read_body: body => The end of the body, `HttpLimits.body_time` or the end of the connection.
lib/http/connections.py
    Connections.wait_closed: self._all_closed.wait() => HAS_LIMIT
lib/http/response.py
    ClientConnection.read_head: self.arrival() =>
        Bytes or the end of the connection, or the time limit `head_time` or `idle` of its caller.
    HttpResponse._read_piece: self.connection.arrival() => See `ClientConnection.read_head`.
lib/http/server.py
    HttpServer._accept_queued: listening.accept() => The socket does not block.
    HttpServer._accept: asyncio.sleep(0) => It is the loop of the server's own task, which `close` cancels.
    HttpServer._accept: asyncio.sleep(ACCEPT_RETRY_SECONDS) =>
        It is the loop of the server's own task, which `close` cancels.
    HttpServer._next_accepted: has_client =>
        It waits for the next client for as long as the server listens; `close` cancels the task.
    HttpServer._next_accepted: listening.accept() => The socket is not blocking.
    HttpServer._next_accepted: loop.sock_accept(listening) =>
        It waits for the next client for as long as the server listens; `close` cancels the task.
    HttpServer._check_times: asyncio.sleep(min(1.0, shortest / 4)) =>
        It is the loop of the server's own task, which `close` cancels.
    HttpServer._start: self._connections.loop.connect_accepted_ =>
        Without TLS it ends at once; a TLS handshake has the time limit `HttpLimits.head_time`.
    HttpServer.close: asyncio.shield(self._closing) => The task `_close`, whose waits have time limits.
    end_tasks: asyncio.wait(tasks) => All tasks are cancelled, and none of them suppresses the cancellation.
    _find_addresses: bind(port) => The system ends it when it has resolved the host.
    _find_addresses: bind(ports[0]) => The system ends it when it has resolved the host.
lib/slots.py
    Slots.take: turn => Each user of a slot gives it back when it ends, and its caller has a time limit.
lib/turns.py
    Turns._wait_in: turn =>
        The wait schedules the passing-on of the turn, which schedules itself again for as long as a message
        waits.
    turn_for: turns.wait() => See `Turns._wait_in`.
recorder/drive.py
    _drive_url: file.readline() => It is a file of this program.
    _expect_refusal: request => DRIVE_TIMEOUT
    _try: request => DRIVE_TIMEOUT
recorder/pipes.py
    _forward: os.read(flow.source, PIECE) => The poll before it has reported bytes or the end.
    _run_pump: thread.join() => The thread ends when the host or the server has closed its pipe.
    _put_pump_between: os.waitpid(child, 0) => The child only starts the pump, and ends at once.
recorder/proxy.py
    record_http: asyncio.get_running_loop().create_server => The system ends it when it has resolved the host.
recorder/replay.py
    Player.serve: ended.wait() => The bridge closes the transport; it is the idle state of a server.
    Player.answer: asyncio.Event().wait() =>
        The client's cancellation or the end of its connection cancels the task; the recorded server did not
        respond.
    _handle_post: answers => Each ends with its recorded messages, or when the client disconnects.
    replay_http: await start_server(handle, host, port) => See `HttpServer.close`.
    replay_stdio.read_lines: asyncio.run_coroutine_threadsafe(lines.p =>
        The loop takes the lines before it, or its end cancels the wait; it is the thread of the input.
    replay_stdio: lines.get() => The client sends a line or closes the input; it is the idle state of a server.
recorder/tape.py
    Tape._next_batch: self._queue.get() => The next bytes or `close`; it is the idle state of the thread.
    Tape._next_batch: time.sleep(BATCH_SECONDS) => HAS_LIMIT
recorder/wrong_headers.py
    _post: asyncio.open_connection(origin.host, ori => DRIVE_TIMEOUT
    _post: reader.readline() => DRIVE_TIMEOUT
server/broadcast.py
    Broadcaster._deliver: self._received.get() => A received change; `Broadcaster.stop` cancels its task.
    Broadcaster._publish: asyncio.sleep(COALESCE_SECONDS) => HAS_LIMIT
    Broadcaster._publish: self._filled.wait() => A change; `Broadcaster.stop` cancels its task.
    Broadcaster._reload: self._run_in_worker(function) => See `Service.run_in_worker`.
    Broadcaster._reload: value => The author's function, as in the next line.
    Broadcaster._reload: function() =>
        The author's function. Until then, received changes wait in a queue of limited size.
    Broadcaster.publish: _is_reloading.get() => It reads a context variable, and does not wait.
server/context.py
    Context._run_cancellable: coroutine => The context's own method, or the cancellation of the request.
server/http.py
    HttpApp._start_and_handle: rest => HTTP_HANDLER
    HttpApp.end_sessions: asyncio.gather(self._subscriptions.end() =>
        See `SessionTable.close` and the others, which have the time limit `CLOSE_SECONDS`.
server/http_options.py
    authorized_by.authorize: name => The author's `authenticate`, or the server's end, which cancels the request.
server/input_requests.py
    InputRequests.gather_inputs: asyncio.gather(*requests, return_excepti =>
        Each request has its own time limit, or ends with the connection.
    call_on_loop: concurrent.futures.wait([future], timeou =>
        A time limit of 1 second, and its loop ends with the event loop.
    call_on_loop: future.result() => DONE
server/lifespan.py
    Lifespan._run: ending.wait() => `leave` sets it; it is the idle state of a server that serves.
    Lifespan._run: self._end_serving() => See `Service.fail`.
    Lifespan.enter: asyncio.shield(self._entered) => The author's context manager, or `_run` cancels it at its end.
    Lifespan.enter: asyncio.wait([task]) => The author's context manager: `_task` is leaving it.
    Lifespan.leave: asyncio.wait([task]) => The author's context manager: `_task` is leaving it.
server/main.py
    run_program: asyncio.run(until_terminated()) => The end of `serve`, or SIGINT or SIGTERM.
    run_http_program.listen: stop.wait() => The end of the lifespan or a signal; it is the idle state of a server.
    run_http_program.listen: listening =>
        Entering it only opens the socket, and leaving it has the time limits of `HttpServer.close`.
server/middleware.py
    _wrap.serve: middleware(ServedRequest(method, params) =>
        The author's middleware or handler, or the cancellation of the request.
    _wrap.serve.proceed: handler(request.params, context) =>
        The author's middleware or handler, or the cancellation of the request.
server/routes.py
    call_route: asyncio.get_running_loop().run_in_execut =>
        The author's function; a cancellation ends the wait, but not the thread.
    call_route: handler(request) => The author's handler, or the HTTP server cancels its task.
    call_route: result => The author's handler, or the HTTP server cancels its task.
server/service.py
    Service.run_in_worker: asyncio.get_running_loop().run_in_execut =>
        The author's function; a cancellation ends the wait, but not the thread.
    Service.drain: asyncio.sleep(DRAIN_INTERVAL) => HAS_LIMIT
    Membership._begin: self._service.add(self._member, self._re => See `Service.add`, which is a coroutine function.
    Membership.begin: asyncio.shield(self._beginning) => The task `_begin`; see `Lifespan.enter`.
server/session.py
    ServerSession.request_input: asyncio.shield(self.initialized) =>
        The client's `initialized`, or the time limit of the request, or its cancellation.
    ServerSession.finish: self.ended => The end of the transport; it is the idle state of a session.
    begin: catalog.service.add(session) => See `Service.add`, which is a coroutine function.
server/stateless.py
    serve_request: route.handler(params, context) => AUTHORS_HANDLER
server/subscriptions.py
    OpenSubscription.drain_changes: self._drain() =>
        See `StreamingResponse.drain`: the client reads, or is disconnected after `write_time`.
    OpenSubscription.wait_ended: self._ended =>
        `close`, the time limit of the token or the cancellation of the request; it is the idle state of a
        subscription.
session.py
    Session._serve: route.handler(params, self.context(reque => AUTHORS_HANDLER
transports/base.py
    finish: asyncio.wait(pending, timeout=timeout) =>
        The time limit of its caller, or the end of tasks that it cancels, or `Connector._restart`, which ends after
        `max_restarts` restarts.
transports/http_sse/client.py
    SseClientTransport._post: posting => CONTEXT_OF_REQUEST
    SseClientTransport._read_stream: response => PIECES
    SseClientTransport._read_stream: self._readable.wait() =>
        `resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.
    SseClientTransport.start: asyncio.wait([self._endpoint]) => The time limit `ENDPOINT_SECONDS`.
transports/http_sse/server.py
    SseEndpoint._stream: asyncio.wait([task]) =>
        The session has ended, and its end has the time limits `FINISH_SECONDS` and `grace` of
        `Dispatcher.close`.
    SseEndpoint._stream: asyncio.wait(ended, timeout=left, return =>
        The end of the session, of its stream or of its last token; it is the idle state of a session.
transports/memory.py
    MemoryTransport.drain: self._outbox.has_room.wait() => The other side sets it when it reads, and when it closes.
transports/stdio/client.py
    StdioClientTransport._exits_within: self._exited.wait() => The time limit `grace` or `SILENT_GRACE_SECONDS`.
    StdioClientTransport.close: asyncio.shield(self._closing) => The task `_close`, whose waits have time limits.
    StdioClientTransport.start: loop.subprocess_exec(lambda: self, *comm =>
        The operating system, which starts a process.
transports/stdio/lines.py
    LineTransport.drain: self._writable.wait() =>
        `resume_writing` sets it when the peer reads, and the end of the connection does.
transports/stdio/server.py
    StdioServerTransport._open_socket: asyncio.get_running_loop().connect_accep =>
        The event loop registers the descriptor at once.
    StdioServerTransport.close: asyncio.sleep(0.005) => The loop ends when the client reads nothing for `FLUSH_SECONDS`.
    StdioServerTransport.start: loop.connect_read_pipe(lambda: self, sou =>
        The event loop registers the descriptor at once.
    StdioServerTransport.start: loop.connect_write_pipe(lambda: _OutputP =>
        The event loop registers the descriptor at once.
transports/streamable_http/checks.py
    _serve_later: rest => HTTP_HANDLER
    _finish: rest => HTTP_HANDLER
transports/streamable_http/client.py
    StreamableHttpClientTransport._close: deleting => The time limit `DELETE_SECONDS`.
    StreamableHttpClientTransport._deliver_frame: self._stateless.readable.wait() =>
        `resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.
    StreamableHttpClientTransport._read: self._stateless.readable.wait() => See `_deliver_frame`.
    StreamableHttpClientTransport._post: posting => CONTEXT_OF_REQUEST
    StreamableHttpClientTransport._post_initialize: posting => CONTEXT_OF_REQUEST
    StreamableHttpClientTransport._renew_session: asyncio.shield(self._renewal) =>
        The time limit `RENEWAL_SECONDS` in `_repeat_handshake`.
    StreamableHttpClientTransport.close: asyncio.shield(self._closing) =>
        The task `_close`, whose waits have time limits.
transports/streamable_http/durable_store.py
    DurableEventStore.find_session: asyncio.sleep(HANDOVER_PAUSE) =>
        The loop has the time limit `HANDOVER_SECONDS`, and each load has `LOAD_SECONDS`.
    DurableEventStore._renew_leases: self._thread.run(partial(self._renew_che =>
        The author's storage. Meanwhile the leases end, so the process serves none of these sessions.
    DurableEventStore._give_back_saved: self._thread.run(partial(self.release, s =>
        The author's store ends it in a thread, or `flush` cancels the task.
    DurableEventStore.flush: self._thread.run(partial(self.release, s => SECONDS
    DurableEventStore._save_changes: asyncio.sleep(RETRY_SECONDS) =>
        It is the loop of the store's own task, which `flush` cancels.
    DurableEventStore._save_changes: self._thread.run(partial(self.save, [*se =>
        The author's store ends it in a thread, or `flush` cancels the task.
    DurableEventStore.flush: asyncio.wait([task]) => The task is cancelled, and its waits end when they are cancelled.
    DurableEventStore.flush: asyncio.wait([task], timeout=seconds) => SECONDS
transports/streamable_http/leases.py
    Leases._renew_all: asyncio.sleep(self._seconds / 3) => It has a time limit; `end_all` cancels the task.
transports/streamable_http/posted_session.py
    SessionTransport.wait_until_reading: self._resumed.wait() =>
        `resume_reading` sets it when the dispatcher has room again, and `close` calls that.
transports/streamable_http/restoration.py
    _repeat_all: asyncio.shield(session.initialized) => HANDSHAKE
transports/streamable_http/resumption.py
    _read_events: response => PIECES
    listen: asyncio.sleep(retry_seconds(parser, with =>
        Each sleep has at most `MAX_RETRY` seconds, and `close` cancels the task.
    listen: get(resume_header(parser)) => CONTEXT_OF_REQUEST
    read_and_resume: asyncio.sleep(retry_seconds(parser, with =>
        The loop has at most `MAX_RECONNECTIONS` attempts without a message.
    read_and_resume: get(resume_header(parser)) => CONTEXT_OF_REQUEST
transports/streamable_http/server.py
    StreamableHttpEndpoint._initialize: asyncio.shield(session.initialized) => HANDSHAKE
    StreamableHttpEndpoint._wait_and_post: rest => HTTP_HANDLER
transports/streamable_http/session_table.py
    SessionTable._open: self._begin_serving(session) =>
        The author's lifespan; `SessionTable.close` cancels it after `CLOSE_SECONDS`.
    SessionTable.find: asyncio.wait([session.restoration]) => See `repeat_requests`.
    SessionTable.find: asyncio.shield(session.initialized) => HANDSHAKE
transports/streamable_http/stateless.py
    StatelessExchange.serve: turn => `Turns._wait_in` schedules the passing-on of the turn.
transports/streamable_http/stateless_client.py
    StatelessRequests._post: posting => CONTEXT_OF_REQUEST
    StatelessRequests._read_events: response => PIECES
    StatelessRequests._read_events: self.readable.wait() =>
        `resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.
transports/streamable_http/storage_thread.py
    StorageThread.run: future =>
        The thread ends it after the function; `LOAD_SECONDS` or the cancellation in `flush` ends the wait for a
        function that hangs.
transports/system.py
    ThreadWriter._run: self._queue.get() =>
        `write` or `abort`; the thread is a daemon, so it does not delay the end of the process.
    Windows.end_processes: asyncio.create_subprocess_exec(*command, => The operating system, which starts a process.
    Windows.end_processes: killer.wait() => The time limit `TASKKILL_SECONDS`.
    read_in_thread.feed_later: asyncio.sleep(0.01) =>
        The loop ends when the dispatcher has room again; the thread that waits for it is a daemon.
    read_in_thread.read: asyncio.run_coroutine_threadsafe(feed_la =>
        `feed_later`; the thread is a daemon, so it does not delay the end of the process.
    read_in_thread.read: os.read(source, PIECE) =>
        The client ends it with data or the end of the input; the thread is a daemon.
"""
"""The module, and for each of its waits: the function, the expression, and the event that ends it."""


def _read_table(table: str) -> dict[tuple[str, str, str], str]:
    """Return the reason of each wait, by module, function and expression."""
    waits: dict[tuple[str, str, str], str] = {}
    module = ""
    for line in table.replace("\n        ", " ").splitlines():  # a long reason is on a line of its own
        if not line.startswith(" "):
            module = line
            continue
        function, _, rest = line.strip().partition(": ")
        expression, _, reason = rest.partition(" => ")
        waits[module, function, expression] = REASONS.get(reason, reason)
    return waits


WAITS = _read_table(TABLE)


@dataclass(frozen=True)
class Scope:
    """The code around a wait."""

    followed: set[str]
    """The names of functions of the package, whose own waits have reasons."""
    has_thread_futures: bool
    """True in a module that uses futures of threads, whose `result` blocks."""
    in_loop: bool = False
    """True inside a `while` loop."""
    is_limited: bool = False
    """True within a constant time limit."""


def find_waits() -> set[tuple[str, str, str]]:
    """Return module, function and expression of each wait of the package that needs a reason."""
    nodes = [node for path in modules() for node in nodes_of(path)]
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    coroutine_functions = {
        node.name for node in functions if isinstance(node, ast.AsyncFunctionDef) or _is_context_manager(node)
    }
    ambiguous = FOREIGN | {node.name for node in functions if _returns_awaitable(node)} - FOLLOWED
    context_managers = {
        node.name for node in nodes if isinstance(node, ast.ClassDef)
        if any(isinstance(part, ast.AsyncFunctionDef) and part.name == "__aenter__" for part in node.body)
    }  # fmt: skip
    followed = (coroutine_functions - ambiguous) | context_managers
    return {
        (path.relative_to(PACKAGE).as_posix(), function, expression[:SHOWN].rstrip())
        for path in modules()
        for function, expression in _waits_in(
            tree_of(path), (), Scope(followed, bool(THREAD_FUTURES.search(path.read_text("utf-8"))))
        )
    }


def _returns_awaitable(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a plain function whose result can be awaited."""
    if isinstance(function, ast.AsyncFunctionDef) or _is_context_manager(function):
        return False
    returned = "Any" if function.returns is None else ast.unparse(function.returns)
    return any(name in returned for name in ("Any", "Awaitable", "Coroutine", "Future", "Task[", "Async"))


def _is_context_manager(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for an asynchronous context manager, which is a wait of its own when it is entered."""
    return any("asynccontextmanager" in ast.unparse(decorator) for decorator in function.decorator_list)


def _waits_in(node: ast.AST, path: tuple[str, ...], scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield function and expression of each wait in a node that needs a reason.

    `path` has the names of the classes and functions around the node.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        path, scope = (*path, node.name), replace(scope, in_loop=False, is_limited=False)
    if isinstance(node, ast.While):
        scope = replace(scope, in_loop=True)
    waited = _waited_by(node)
    if not scope.is_limited:
        yield from ((".".join(path), ast.unparse(each)) for each in waited if not _needs_no_reason(each, scope))
    if isinstance(node, ast.Call) and not waited and _blocks(node, scope):  # a time limit of asyncio does not end it
        yield ".".join(path), ast.unparse(node)
    if isinstance(node, ast.AsyncWith) and not scope.in_loop and any(_has_constant_limit(each) for each in waited):
        scope = replace(scope, is_limited=True)
    # the arguments of a call that is awaited can wait too, but the call has been counted itself
    awaited = waited[0] if isinstance(node, (ast.Await, ast.Call)) and waited else node
    for child in ast.iter_child_nodes(awaited if isinstance(awaited, ast.Call) else node):
        yield from _waits_in(child, path, scope)


def _waited_by(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a node waits for."""
    if isinstance(node, ast.Await):
        return [node.value]
    if isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
        return [node.iter]
    if isinstance(node, ast.AsyncWith):
        return [item.context_expr for item in node.items]
    if isinstance(node, ast.Call) and _called(node) == "run_until_complete":
        return [node.args[0]]
    return []


def _has_constant_limit(entered: ast.expr) -> bool:
    """Return True for a context manager that limits the waits within it to a constant time."""
    if not isinstance(entered, ast.Call) or _called(entered) not in TIME_LIMITS:
        return False
    return re.fullmatch(CONSTANT, ast.unparse(entered.args[0])) is not None


def _blocks(call: ast.Call, scope: Scope) -> bool:
    """Return True for a call that can block its thread: of a future, a thread, a queue, a lock, a process or a file."""
    name = _called(call)
    if name not in MAY_BLOCK:
        return False
    full_name = ast.unparse(call.func)
    if full_name in BLOCKING_FUNCTIONS:
        return True
    if name == full_name or (name == "result" and not scope.has_thread_futures):
        return False
    return name in BLOCKING or (
        name in BLOCKING_WITHOUT_ARGUMENTS and not call.args and not full_name.startswith("current_")
    )


def _called(call: ast.Call) -> str:
    """Return the name of the called function or method, without the object."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _needs_no_reason(value: ast.expr, scope: Scope) -> bool:
    """Return True if the wait is a call of the package itself, a time limit, or a single sleep or limited wait."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    if name == "asyncio.sleep" or (name.startswith("asyncio.wait") and LIMITED.search(ast.unparse(value))):
        return not scope.in_loop
    if name == "asyncio.gather":
        return all(_needs_no_reason(_gathered(each), scope) for each in value.args)
    if _called(value) in TIME_LIMITS:
        return True
    return not name.startswith("asyncio.") and _called(value) in scope.followed


def _gathered(argument: ast.expr) -> ast.expr:
    """Return what an argument of `asyncio.gather` waits for: of a starred generator, its element."""
    if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.GeneratorExp):
        return argument.value.elt
    return argument
