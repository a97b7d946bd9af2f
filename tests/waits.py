"""The waits of the package, with the reason why each of them ends. tests/test_waits.py compares them with the source.

A wait is an `await`, `async with` or `async for` of an asyncio object or of an object that the caller has given, such
as a handler, and a call that blocks its thread. A call of a coroutine function of the package needs no entry, because
its own waits have entries. `find_waits` decides by the function's name, so a name that other objects have too
(`FOREIGN`) needs an entry, and so does a name that is also a plain function which returns an awaitable. A sleep, and an
`asyncio.wait` whose time limit is a constant, need an entry in a `while` loop only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import mcp_ref

PACKAGE = Path(mcp_ref.__file__).parent
FOREIGN = {"wait", "get", "run", "put", "anext", "acquire", "join"}
"""Names of coroutine functions that objects from elsewhere have too, so that a call of one is not followed."""
FOLLOWED = {"request", "connect", "open", "call", "_serve", "drain"}
"""Names of coroutine functions that plain functions have too, which only return the coroutine of such a function."""
TIME_LIMITS = {"timeout", "timeout_at", "time_limit"}
"""Names of functions whose context managers limit the waits within them, and do not wait themselves."""
LIMITED = re.compile(r"timeout=([A-Z_]+|[0-9.]+)[,)]")
"""The time limit of a call that has a constant one."""
BLOCKING = {"acquire", "wait", "result", "communicate", "readline", "recv", "recvfrom", "sendall", "accept", "select",
            "run_until_complete"}  # fmt: skip
BLOCKING_WITHOUT_ARGUMENTS = {"join", "get"}
BLOCKING_FUNCTIONS = {"asyncio.run", "time.sleep", "subprocess.run", "input", "fcntl.flock", "os.waitpid", "os.read"}

# Reasons that several waits have.
DONE = "The future or task is done, so its result does not block."
CONTEXT_OF_REQUEST = "See `HttpClient.request`, of which this is the context manager."
STORE_WRITES = "The store ends it: those of the package write memory or a small file, and others are the program's."
STORE_READS = "The store ends it: those of the package read memory or a small file, and others are the program's."
HAS_LIMIT = "It has a time limit."
HAS_LIMIT_OF_10_S = "It has a time limit of 10 seconds."
SECONDS = "It has the time limit `seconds`."
DRIVE_TIMEOUT = "It has the time limit `DriveOptions.timeout`."
HTTP_HANDLER = "The handler ends it, or the HTTP server cancels its task."
TASK_RESPONSE = (
    "The response, the time limit in `RunningTask.result` or of the request, or the end of the connection ends it."
)
PROGRAMS_HANDLER = "The program's handler ends it, or the end of the connection cancels its task."
AUTHORS_HANDLER = "The author's handler ends it, or the cancellation of the request."
PIECES = "The pieces of the response, their time limit in `HttpResponse`, or the end of the connection end it."
HANDSHAKE = "The response to `initialize` or the end of the session ends it."

WAITS: dict[tuple[str, str, str], str] = {
    ("basic/authorization/client.py", "AuthorizedRequests.request", "sending"): CONTEXT_OF_REQUEST,
    ("basic/authorization/client.py", "Bearer.current", "self._token()"):
        "The program's function ends it, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.",
    ("basic/authorization/client.py", "ServerGrant._run", "work()"):
        "The authorizer ends it; a flow without waiters is cancelled.",
    ("basic/authorization/client.py", "ServerGrant._wait", "asyncio.shield(flow.task)"):
        "The flow ends it; the request that waits can be cancelled without the flow.",
    ("basic/authorization/client_registration.py", "Clients._registered", "self.store.get(f'client|{issuer}')"):
        STORE_READS,
    ("basic/authorization/client_registration.py", "Clients.begin",
     "self.store.put(f'client|{metadata.issuer}', client.to_json())"): STORE_WRITES,
    ("basic/authorization/client_registration.py", "Clients.begin",
     "stack.enter_async_context(receive(self.redirect_uri))"):
        "See `loopback.receive`; the sign-in has the time limit `timeout`.",
    ("basic/authorization/client_registration.py", "Clients.begin", "stack.enter_async_context(receive(uri))"):
        "See `loopback.receive`; the sign-in has the time limit `timeout`.",
    ("basic/authorization/server.py", "Protection._access", "self._verify(token)"):
        "The author's verifier ends it; the requests of those of the package have the time limit `FETCH_SECONDS`.",
    ("basic/authorization/sign_in.py", "AuthorizationCode._ask_user", "(self.open_browser or print_url)(url)"):
        "The program's function ends it, or the time limit `timeout` of the sign-in.",
    ("basic/authorization/sign_in.py", "AuthorizationCode._ask_user", "receiver.query"):
        "The browser's request ends it, or the time limit `timeout` of the sign-in.",
    ("basic/authorization/sign_in.py", "AuthorizationCode._keep", "self.store.put(grant_key(url), grant.to_json())"):
        STORE_WRITES,
    ("basic/authorization/sign_in.py", "AuthorizationCode._sign_in", "contextlib.AsyncExitStack()"):
        "Entering it does not wait; leaving it closes the receiver, see `loopback.receive`.",
    ("basic/authorization/sign_in.py", "AuthorizationCode._refresh", "asyncio.shield(refresh)"):
        "The response of the authorization server ends it, or the time limit `POST_SECONDS`.",
    ("basic/authorization/sign_in.py", "AuthorizationCode.obtain", "self._sign_ins"):
        "The sign-in before it ends it, which has the time limit `timeout`.",
    ("basic/authorization/sign_in.py", "AuthorizationCode.stored", "self.store.get(grant_key(url))"): STORE_READS,
    ("basic/authorization/store.py", "FileStore._file_lock", "asyncio.sleep(_POLL_SECONDS)"):
        "The loop has the time limit `LOCK_SECONDS`.",
    ("basic/authorization/store.py", "MemoryStore.lock", "self._locks.setdefault(key, asyncio.Lock())"):
        "Its holder frees it: a sign-in or a request of the authorizer, which have time limits.",
    ("basic/authorization/store.py", "_try_lock", "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)"):
        "It does not block because of `LOCK_NB`.",
    ("basic/authorization/verifiers.py", "Introspection._introspect", "endpoint.get()"):
        "See `_Fetched.get`.",
    ("basic/authorization/verifiers.py", "Introspection.for_server.verify_token", "asyncio.shield(task)"):
        "The request of the task has the time limit `FETCH_SECONDS`.",
    ("basic/authorization/verifiers.py", "JwtVerifier.for_server.verify_token", "source.get()"):
        "See `_Fetched.get`.",
    ("basic/authorization/verifiers.py", "JwtVerifier.for_server.verify_token", "source.get(renew=True)"):
        "See `_Fetched.get`.",
    ("basic/authorization/verifiers.py", "_Fetched._fetch", "self._fetch_value()"):
        "Each of its requests has the time limit `FETCH_SECONDS`.",
    ("basic/authorization/verifiers.py", "_Fetched.get",
     "asyncio.wait([self._fetching], timeout=HURRY_SECONDS if can_use_old else None)"):
        "The task ends with `_fetch`, each of whose requests has the time limit `FETCH_SECONDS`.",
    ("basic/channel.py", "RequestContext.run_in_worker",
     "self.channel.loop.run_in_executor(executor, variables.run, _result_and_error, function)"):
        "The author's function ends it; a cancellation ends the wait, but not the thread.",
    ("bridge/back_client.py", "BackClient._call_outside", "self._call_began.wait()"):
        "It has the time limit `ROOTS_SECONDS`.",
    ("bridge/back_client.py", "BackClient._call_outside", "asyncio.shield(session.initialized)"):
        "The server's request waits for the handshake of the client, and ends with the session.",
    ("bridge/back_client.py", "BackClient.send", "asyncio.wait(self._early_requests)"):
        "Each of them ends with the call, or at the time limit of a held call.",
    ("bridge/back_client.py", "BackClient._serve", "asking.result()"):
        "It is done, because `asyncio.wait` has returned it.",
    ("bridge/back_client.py", "BackClient._serve", "asyncio.wait([asking], timeout=KEEP_ALIVE_SECONDS)"):
        "It has a time limit. The loop ends with the client's response, or with its session or held call.",
    ("bridge/backs.py", "BackServer._take_place", "places.acquire()"):
        "It has the time limit `POOL_SECONDS`.",
    ("bridge/backs.py", "BackServer.close", "asyncio.gather(*connecting, *self._closing, return_exceptions=True)"):
        "Each is cancelled, or is a `Client.close`, which has time limits.",
    ("bridge/backs.py", "BackServer.shared", "asyncio.shield(self._connecting[key])"):
        "The connection has the time limit of the client; the request that waits can be cancelled without it.",
    ("bridge/bridge.py", "Bridge.close", "asyncio.gather(*(back.close() for back in self.backs.values()))"):
        "See `BackServer.close`.",
    ("bridge/calls.py", "complete_call", "asyncio.TaskGroup()"):
        "Each task is a request to the client, which ends with its session; a failure cancels the others.",
    ("bridge/calls.py", "complete_call", "task.result()"):
        "The task group has ended, so the tasks are done.",
    ("bridge/changes.py", "Changes._close_watch", "asyncio.wait([watch.task])"):
        "The task is cancelled, and its end unsubscribes with the time limit of the client.",
    ("bridge/changes.py", "Changes._open_watch", "asyncio.shield(watch.accepted)"):
        "It connects and subscribes with the time limits of the client; the end of the session cancels it.",
    ("bridge/changes.py", "Changes.close", "asyncio.gather(*(self._close_watch(key) for key in tuple(self._watches)))"):
        "See `Changes._close_watch`.",
    ("bridge/changes.py", "Changes.listen", "asyncio.gather(*(self._close_watch((owner, uri)) for uri in accepted))"):
        "See `Changes._close_watch`.",
    ("bridge/changes.py", "Changes.listen", "handler(params, context)"):
        "It is the subscription: it ends when the client or the server ends it.",
    ("bridge/changes.py", "Watch._report_updates", "updates"):
        "`Changes._close_watch` cancels it, and the end of the connection ends it.",
    ("bridge/changes.py", "Watch._run", "asyncio.sleep(pause)"):
        "A pause, after at most seven of which the subscription is lost; `Changes._close_watch` cancels it.",
    ("bridge/front.py", "FrontCatalog._close_tasks", "self._close_servers()"):
        "It is `Bridge.close`.",
    ("bridge/front.py", "FrontCatalog._initialize", "handler(params, context)"):
        "It is the handshake of `ServerSession`, which waits for nothing.",
    ("bridge/front.py", "FrontCatalog._discover", "handler(params, context)"):
        "It is `Catalog.discover`, which waits for nothing.",
    ("bridge/held.py", "HeldCall._proceed", "self._changed.wait()"):
        "The end of the server's call, or its next input request; the client can cancel its request.",
    ("bridge/held.py", "HeldCall._proceed", "self._task.result()"):
        "It is done.",
    ("bridge/held.py", "HeldCall._response_to", "request.response"):
        "`HeldCall.expire` ends it, after 15 minutes at the latest, and the end of the server's call ends it too.",
    ("bridge/held.py", "HeldCalls.close", "asyncio.gather(*(call.wait_ended() for call in calls))"):
        "See `HeldCall.wait_ended`.",
    ("bridge/relay.py", "Relay._call_legacy_server", "call.run(send(call))"):
        "The end of the server's call, or its next input request; the client can cancel its request.",
    ("bridge/relay.py", "Relay.connect",
     "asyncio.gather(*(server.shared(caller) for server in self.servers.values()), return_exceptions=True)"):
        "See `BackServer.shared`.",
    ("cli/accounts.py", "NewSignIn.get", "self._store.get(key)"): STORE_READS,
    ("cli/accounts.py", "NewSignIn.write", "self._store.put(key, value)"): STORE_WRITES,
    ("cli/accounts.py", "login", "make_client(options, authorizer)"):
        "See `Client.__aenter__` and `Client.close`, whose requests have the option `--timeout`.",
    ("cli/accounts.py", "login", "store.put(f'client|{grant.issuer}', client.to_json())"): STORE_WRITES,
    ("cli/accounts.py", "login", "store.put(grant_key(url), grant.to_json())"): STORE_WRITES,
    ("cli/authorization.py", "read_token", "sys.stdin.readline(MAX_TOKEN + 2)"):
        "The user ends it with a line, the end of the input or Ctrl-C.",
    ("bridge/tasks.py", "BridgeTasks.create.run", "work(cast(Context, task))"):
        "It is the call of the server, which ends with its connection; the end of the task cancels it.",
    ("bridge/tasks.py", "BridgeTasks._serve_own",
     "handler(_decoded(params_type(method), params, context.revision), context)"):
        "It is a method of `Tasks`, such as `Tasks.result`, which waits until the task is over or has expired.",
    ("cli/bridge.py", "run_bridge", "asyncio.run(_revision_of_server(bridge))"):
        "It waits for the handshake, which has the time limit of the client.",
    ("cli/bridge.py", "run_bridge", "asyncio.run(_stored_approvals())"):
        "It reads a small file.",
    ("cli/client_commands.py", "connect_and_run", "client"):
        "See `Client.connect` and `Client.close`.",
    ("cli/client_commands.py", "run_and_report", "asyncio.run(command)"):
        "The command ends it, or Ctrl-C.",
    ("cli/client_commands.py", "run_command", "COMMANDS[options.name](client, options)"):
        "The command ends it, or Ctrl-C.",
    ("cli/client_commands.py", "watch", "anext(updates, None)"):
        "See `Subscription.__anext__`, or Ctrl-C ends it.",
    ("cli/host_commands.py", "Consent._confirm", "self.terminal"):
        "The person's decision about the request before ends it, or the host's time limit for decisions.",
    ("cli/host_commands.py", "Consent.ask", "self.terminal"):
        "The person's decision about the request before ends it, or the host's time limit for decisions.",
    ("cli/host_commands.py", "_run", "host"):
        "Entering it has the time limit `startup_wait`, and leaving it the limits of `HostedServer.close`.",
    ("cli/host_commands.py", "check_tool", "consent.changed_tool"):
        "The host asks for each of these tools, and `Consent._approve_definition` sets it in each case.",
    ("cli/host_commands.py", "kept_approvals", "store.get('approvals')"): STORE_READS,
    ("cli/host_commands.py", "kept_approvals", "store.put('approvals', {**meanwhile, **approvals})"): STORE_WRITES,
    ("cli/person.py", "ask_line", "ready.wait()"):
        "The user ends it with a line, the end of the input or Ctrl-C.",
    ("cli/person.py", "ask_line", "sys.stdin.readline()"):
        "The input is ready to be read.",
    ("cli/person.py", "elicitation_handler.ask", "lock"):
        "The person's response to the elicitation before ends it, or the cancellation of its request.",
    ("client/client.py", "Client.close", "asyncio.shield(self._closing)"):
        "The task `_close` ends it, whose waits have their own entries.",
    ("client/connector.py", "Connector.close", "task.result()"): DONE,
    ("client/connector.py", "Connector.connect", "self._server_task.result()"): DONE,
    ("client/connector.py", "Connector.ready", "asyncio.wait([self._restart_task])"):
        "The task ends after `max_restarts` restarts, or `stop_reconnecting` cancels it.",
    ("client/handlers.py", "ClientHandlers._run_or_start_task", "work()"): PROGRAMS_HANDLER,
    ("client/handlers.py", "_call", "returned"): PROGRAMS_HANDLER,
    ("client/negotiation.py", "_negotiate_by_probe", "asyncio.gather(*tasks, return_exceptions=True)"):
        "Both tasks are cancelled, and all their waits end when they are cancelled.",
    ("client/negotiation.py", "_negotiate_by_probe",
     "asyncio.wait([probe, handshake], return_when=asyncio.FIRST_COMPLETED)"):
        "The responses, the time limit in `_negotiate_once` or the end of the session ends it.",
    ("client/negotiation.py", "_negotiate_by_probe", "asyncio.wait([probe])"):
        "It has the time limit `probe_seconds`; without one, the request's own time limit or the end of the "
        "session ends it.",
    ("client/negotiation.py", "_negotiate_by_probe", "handshake or _initialize(session, offer)"):
        "The response, the time limit in `_negotiate_once` or the end of the session ends it.",
    ("client/negotiation.py", "_negotiate_by_probe", "probe"):
        "The response, the time limit in `_negotiate_once` or the end of the session ends it.",
    ("client/negotiation.py", "negotiate", "open_session()"):
        "See `ClientSession.open`, which it calls.",
    ("client/session.py", "ClientSession._handle_all", "task"):
        "The program's handler ends it, or the cancellation of the request.",
    ("client/session.py", "ClientSession._handle_all", "task.result()"): DONE,
    ("client/subscriptions.py", "ListenRequest._wait_to_retry", "self._client.connector.ended.wait()"): SECONDS,
    ("client/subscriptions.py", "ListenRequest.close", "asyncio.wait([self._task])"):
        "The task is cancelled, and all its waits end when they are cancelled.",
    ("client/subscriptions.py", "ListenRequest.open", "asyncio.shield(self._acknowledged)"):
        "`_listen` calls `_end_listening` in each case: after the acknowledgement, an error or the time limit.",
    ("client/subscriptions.py", "Subscription.__anext__", "self._wakeup.wait()"):
        "An update or the end of the subscription ends it; a server without updates is silent for as long as "
        "the program waits.",
    ("client/sync.py", "Synchronous.__exit__", "self._thread.join()"):
        "The loop has been stopped, and closing and the other tasks have 10 seconds each.",
    ("client/sync.py", "Synchronous._close_once", "asyncio.shield(self._closing)"):
        "The end of `close` ends it, or 10 seconds in `_run_loop`.",
    ("client/sync.py", "Synchronous._run_loop", "asyncio.wait([closing], timeout=10.0)"): HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous._run_loop", "loop.run_until_complete(asyncio.wait([closing], timeout=10.0))"):
        HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous._run_loop", "asyncio.wait({*ending, closing}, timeout=10.0)"): HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous._run_loop",
     "loop.run_until_complete(asyncio.wait({*ending, closing}, timeout=10.0))"): HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous._run_loop", "asyncio.wait([generators], timeout=10.0)"): HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous._run_loop", "loop.run_until_complete(asyncio.wait([generators], timeout=10.0))"):
        HAS_LIMIT_OF_10_S,
    ("client/sync.py", "Synchronous.run", "future.result()"):
        "The end of the call ends it; the end of the loop cancels every call, also one that reaches the loop "
        "too late.",
    ("demo/authorization.py", "authorization", "await start_server(serve_issuer)"):
        "Entering it does not wait, and leaving it has the time limits of `HttpServer.close`.",
    ("demo/authorization.py", "authorization", "await start_server(serve_mcp)"):
        "Entering it does not wait, and leaving it has the time limits of `HttpServer.close`.",
    ("demo/authorization.py", "authorization.serve_mcp", "rest"): HTTP_HANDLER,
    ("demo/connections.py", "HttpConnections._url",
     "asyncio.create_subprocess_exec(*server_command('--http', '--port', '0', *options), "
     "env={**os.environ, **ENVIRONMENT}, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)"):
        "The operating system ends it: it starts a process.",
    ("demo/connections.py", "HttpConnections._url", "process.stderr.readline()"):
        "The demo's own server prints its URL, or ends, which ends its output.",
    ("demo/connections.py", "_stop_process", "process.communicate()"):
        "The demo's own server ends it: it ends within seconds of its SIGTERM.",
    ("demo/host.py", "cancel_call", "asyncio.wait([call])"):
        "The call is cancelled.",
    ("demo/host.py", "cancel_call", "begun.wait()"):
        "The demo's own server reports progress.",
    ("demo/legacy.py", "session", "anext(updates)"):
        "The demo's own server reports the change of the note.",
    ("demo/plain_http.py", "PlainHttp.events", "response"): PIECES,
    ("demo/screen.py", "Screen.claim_error", "request"):
        "It is a request of a `Client`, which has a time limit.",
    ("demo/tour.py", "changing_lists", "changed.get()"):
        "The demo's own server reports three changed lists.",
    ("demo/tour.py", "main", "asyncio.run(tour(sys.stdout, http))"):
        "The tour ends it, or Ctrl-C.",
    ("demo/tour.py", "resources", "anext(updates)"):
        "The demo's own server reports the change of the note.",
    ("demo/tour.py", "tour", "contextlib.AsyncExitStack()"):
        "Entering it does not wait; leaving it closes the demo's connections.",
    ("extensions/auth/headless.py", "EnterpriseManaged.form", "self.id_token()"):
        "The program's function ends it, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.",
    ("extensions/auth/headless.py", "Headless._first_issuer", "self.store.get(f'issuer|{self.client_id}')"):
        STORE_READS,
    ("extensions/auth/headless.py", "Headless.obtain", "self.store.put(key, {'issuer': server.issuer})"): STORE_WRITES,
    ("extensions/auth/headless.py", "WorkloadIdentity.form", "self.assertion()"):
        "The program's function ends it, or `RENEWAL_SECONDS` in `ServerGrant.prepare`.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._bounded", "call"):
        "It has the time limit `CALL_SECONDS`.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._check_lease", "self._database.get(task.task_id)"):
        "The caller's `_bounded` gives it a time limit.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._find", "self._database.get(id)"):
        "The caller's `_bounded` gives it a time limit.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._put_final", "self._database.put(final)"):
        "The caller's `_bounded` gives it a time limit.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._save_failed", "asyncio.sleep(RETRY_SECONDS)"): HAS_LIMIT,
    ("extensions/tasks/shared_tasks.py", "SharedTasks._save_one", "self._database.put(stored)"):
        "`_save_all` gives it the time limit `CALL_SECONDS`.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks._watch", "asyncio.sleep(RETRY_SECONDS)"): HAS_LIMIT,
    ("extensions/tasks/shared_tasks.py", "SharedTasks._watch", "self._wake.wait()"):
        "The next renewal ends it, a third of a lease later.",
    ("extensions/tasks/shared_tasks.py", "SharedTasks.wait_change", "asyncio.wait([changed], timeout=seconds)"):
        HAS_LIMIT,
    ("extensions/tasks/live_task.py", "LiveTask.request_input", "response"):
        "The requestor's response, the time limit of the request, or the end of the task ends it.",
    ("extensions/tasks/live_task.py", "LiveTask.run", "work(self)"):
        "The author's handler ends it, or `stop` cancels it.",
    ("extensions/tasks/live_task.py", "_ResultRequests.wait_latest", "self._new_request.wait()"):
        "The next `tasks/result` request ends it, or the time limit of the request in `request_input`.",
    ("extensions/tasks/live_task.py", "_ResultRequests.wait_until_ended", "asyncio.shield(self.ended)"):
        "The end of the task ends it, or the cancellation of the `tasks/result` request.",
    ("extensions/tasks/receiver.py", "Tasks.call_tool", "work(context)"): AUTHORS_HANDLER,
    ("extensions/tasks/receiver.py", "Tasks.result", "asyncio.sleep(self.poll_interval / 1000)"):
        "The end or the expiry of the task in the store ends the loop, or the cancellation of the request.",
    ("extensions/tasks/receiver.py", "Tasks.start", "asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)"):
        AUTHORS_HANDLER,
    ("extensions/tasks/receiver.py", "Tasks.start", "live.begun.result()"): DONE,
    ("extensions/tasks/receiver.py", "Tasks.start", "running.result()"): DONE,
    ("extensions/tasks/requestor.py", "RunningTask._pause", "self._ended.wait()"):
        "It has the time limit `_interval(task)`.",
    ("extensions/tasks/requestor.py", "RunningTask._respond", "self._handle_input(request)"):
        "The program's handler ends it, or the end of the task, which cancels it.",
    ("extensions/tasks/requestor.py", "RunningTask._send_and_repeat",
     "self._send_request(method, params, result)"):
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the "
        "connection ends it.",
    ("extensions/tasks/requestor.py", "RunningTask._send_or_pause",
     "self._send_request(method, params, result)"):
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the "
        "connection ends it.",
    ("extensions/tasks/requestor.py", "RunningTask._respond_and_wait",
     "asyncio.wait([pause, *unfinished], return_when=asyncio.FIRST_COMPLETED)"):
        "It has the time limit `_interval(task)`.",
    ("extensions/tasks/requestor.py", "RunningTask._respond_and_wait", "self._responding.pop(key)"):
        "The task is done.",
    ("extensions/tasks/requestor.py", "RunningTask.cancel",
     "self._send_request('tasks/cancel', params, EmptyResult)"):
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the "
        "connection ends it.",
    ("extensions/tasks/requestor.py", "RunningTask.cancel", "self._send_request('tasks/cancel', params, Task)"):
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the "
        "connection ends it.",
    ("extensions/tasks/requestor.py", "RunningTask.status",
     "self._send_request('tasks/get', TaskRequestParams(self.task.task_id), Task)"):
        "The response, the time limit in `RunningTask.result` or of the request, or the end of the "
        "connection ends it.",
    ("features/invoke.py", "call", "function(**arguments)"):
        "The author's function ends it, or the cancellation of the request.",
    ("features/invoke.py", "call", "value"):
        "The author's function ends it, or the cancellation of the request.",
    ("features/roots.py", "called_roots", "found"): PROGRAMS_HANDLER,
    ("host/host.py", "Host._list_all", "asyncio.gather(*(items_of(*each) for each in self._hosted.items()))"):
        "Each request has the time limit of its client, and a lost connection ends it.",
    ("host/host.py", "Host.close", "asyncio.gather(*(hosted.close() for hosted in self._hosted.values()))"):
        "See `HostedServer.close`, whose steps have time limits.",
    ("host/host.py", "Host.reload", "asyncio.gather(*(hosted.close(CLOSE_SECONDS) for hosted in removed))"):
        "See `HostedServer.close`: the calls in flight get `CLOSE_SECONDS`.",
    ("host/host.py", "Host.reload", "hosted.attempted.wait()"):
        "`Supervisor._run` sets it at its end, or `HostedServer.close` with the state STOPPED.",
    ("host/host.py", "Host.watch", "asyncio.sleep(pause)"):
        "It has a time limit. The end of the server (`ServerUnavailable`) or the program's `aclose` ends the loop.",
    ("host/host.py", "Host.watch", "updates"):
        "A change, the end of the connection, or the program's `aclose` ends it.",
    ("host/hosted.py", "HostedServer._cut_for_model", "request"):
        "A request of the client, which has the time limit of the server or of the caller.",
    ("host/hosted.py", "HostedServer._elicit", "self._elicitation(self.config.name, request)"):
        "The program's handler ends it, or the cancellation of the request.",
    ("host/hosted.py", "HostedServer._sample", "self._sampling(self.config.name, params)"):
        "The program's handler ends it, or the cancellation of the request.",
    ("host/hosted.py", "HostedServer.close", "asyncio.sleep(0.02)"):
        "It has the time limit `patience`.",
    ("host/policy.py", "Policy._ask", "self._locks[server]"):
        "It has the time limit of the approval.",
    ("host/policy.py", "Policy.typed_values", "self._typing"):
        "The person ends the input before it, or its function `ask` fails.",
    ("host/supervisor.py", "Supervisor._run", "asyncio.sleep(pause)"):
        "It sleeps at most 1.2 times `MAX_PAUSE`, and `_run_once` limits the number of starts.",
    ("host/supervisor.py", "Supervisor._run_once", "self._start_limit"):
        "Each start holds it for at most `startup_timeout_sec` seconds.",
    ("host/supervisor.py", "Supervisor._serve", "ended.result()"): DONE,
    ("host/supervisor.py", "Supervisor._serve", "self._wake.wait()"):
        "The end of the session, a changed list or lost calls end it; it is the idle state of a ready server.",
    ("host/supervisor.py", "Supervisor._session_ended", "ended.result()"): DONE,
    ("host/supervisor.py", "Supervisor.ready_client", "self._changed.wait()"):
        "It has the time limit `wait`.",
    ("host/supervisor.py", "Supervisor.ready_client", "self.attempted.wait()"):
        "`_run` sets it at its end, or `HostedServer.close` with the state STOPPED; a person can take long "
        "to consent.",
    ("host/supervisor.py", "Supervisor.stop", "asyncio.wait([self._task])"):
        "The task is cancelled, and then closes its client; see `Client.close`.",
    ("cli/drive.py", "run_drive", "asyncio.run(drive(server, drive_options))"):
        "Each request has the time limit `DriveOptions.timeout`.",
    ("cli/installation.py", "user_agrees", "input('Write this? [y/N] ')"):
        "The user types a line, ends the input or presses Ctrl-C.",
    ("cli/recorder.py", "_record_until_signal", "ended.wait()"):
        "Ctrl-C or SIGTERM ends it; it is the idle state of a recorder.",
    ("cli/replay.py", "_replay_client", "asyncio.run(rerun(messages, parse_server(options.command)))"):
        "Each request has the time limit `RESPONSE_SECONDS`.",
    ("cli/replay.py", "_serve_until_signal.serve", "listening"):
        "See `HttpServer.close`.",
    ("cli/replay.py", "_serve_until_signal.serve", "stop_event().wait()"):
        "Ctrl-C or SIGTERM ends it; it is the idle state of a server.",
    ("cli/check.py", "judge_file", "file.readline()"): "It reads a file.",
    ("cli/check.py", "read_messages", "file.readline()"): "It reads a file.",
    ("cli/recorder.py", "read_recording", "file.readline()"):
        "The file is one that the user has named; its end ends it.",
    ("cli/recorder.py", "record",
     "asyncio.run(_record_until_signal(tape, options.http, options.host, options.port))"):
        "Ctrl-C or SIGTERM ends it.",
    ("cli/replay.py", "_serve_until_signal", "asyncio.run(serve())"):
        "Ctrl-C or SIGTERM ends it.",
    ("cli/replay.py", "_play", "asyncio.run(replay_stdio(player))"):
        "The client closes the input, or Ctrl-C or SIGTERM ends it.",
    ("cli/replay.py", "_play_through_bridge", "asyncio.run(bridge.server.serve_stdio())"):
        "The client closes the input, or Ctrl-C or SIGTERM ends it.",
    ("recorder/drive.py", "_drive_url", "file.readline()"):
        "It is a file of this program.",
    ("recorder/drive.py", "_expect_refusal", "request"): DRIVE_TIMEOUT,
    ("recorder/wrong_headers.py", "_post", "asyncio.open_connection(origin.host, origin.port)"): DRIVE_TIMEOUT,
    ("recorder/wrong_headers.py", "_post", "reader.readline()"): DRIVE_TIMEOUT,
    ("recorder/drive.py", "_try", "request"): DRIVE_TIMEOUT,
    ("recorder/pipes.py", "_forward", "os.read(flow.source, PIECE)"):
        "The poll before it has reported bytes or the end.",
    ("recorder/pipes.py", "_run_pump", "thread.join()"):
        "The thread ends when the host or the server has closed its pipe.",
    ("recorder/pipes.py", "_put_pump_between", "os.waitpid(child, 0)"):
        "The child only starts the pump, and ends at once.",
    ("recorder/proxy.py", "_Proxy._connect",
     "loop.create_connection(lambda: client.other, origin.host, origin.port, ssl=context)"):
        "It has the time limit `CONNECT_SECONDS`.",
    ("recorder/proxy.py", "record_http", "asyncio.get_running_loop().create_server(proxy.accept, host, port)"):
        "The system ends it when it has resolved the host.",
    ("recorder/regression.py", "_compare", "run.outcomes[id]"):
        "It has the time limit `RESPONSE_SECONDS`.",
    ("recorder/replay.py", "Player._request_and_wait", "answered.wait()"):
        "It has the time limit `CLIENT_SECONDS`.",
    ("recorder/replay.py", "Player.serve", "ended.wait()"):
        "The bridge closes the transport; it is the idle state of a server.",
    ("recorder/replay.py", "Player.answer", "asyncio.Event().wait()"):
        "The client's cancellation or the end of its connection cancels the task; the recorded server did not respond.",
    ("recorder/replay.py", "_handle_post", "answers"):
        "Each ends with its recorded messages, or when the client disconnects.",
    ("recorder/replay.py", "replay_http", "await start_server(handle, host, port)"):
        "See `HttpServer.close`.",
    ("recorder/replay.py", "replay_stdio.read_lines",
     "asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()"):
        "The loop takes the lines before it, or its end cancels the wait; it is the thread of the input.",
    ("recorder/replay.py", "replay_stdio", "lines.get()"):
        "The client sends a line or closes the input; it is the idle state of a server.",
    ("recorder/tape.py", "Tape._next_batch", "self._queue.get()"):
        "The next bytes or `close` end it; it is the idle state of the thread.",
    ("recorder/tape.py", "Tape._next_batch", "time.sleep(BATCH_SECONDS)"): HAS_LIMIT,
    ("jsonrpc/bounded_waits.py", "run_handler", "handler"): PROGRAMS_HANDLER,
    ("jsonrpc/dispatcher.py", "Dispatcher._run", "entry.got_slot"):
        "The queue ends it with a slot or after `Limits.patience`, and `stop` cancels the task.",
    ("jsonrpc/dispatcher.py", "Dispatcher._run", "turn"):
        "`Turns._wait_in` schedules the passing-on of the turn.",
    ("jsonrpc/dispatcher.py", "Dispatcher.close", "asyncio.wait(others, timeout=grace)"):
        "It has the time limit `grace`.",
    ("jsonrpc/dispatcher.py", "Dispatcher.finish", "asyncio.wait(self._tasks, timeout=left)"):
        "It has the time limit `grace`.",
    ("jsonrpc/requester.py", "Requester.batch", "asyncio.gather(*tasks, return_exceptions=True)"):
        "Each task ends with its own request.",
    ("jsonrpc/requester.py", "Requester.request", "pending.arrival"):
        "The response, the time limit or `fail_pending` at the end of the connection ends it.",
    ("jsonrpc/requester.py", "Requester.request", "round_trip"):
        "See `pending.arrival`. The outcome ends the round trip too (`Pending.end`).",
    ("lib/http/asgi.py", "AsgiExchange._watch", "self._receive()"):
        "The ASGI server ends it with the client's next piece, or when the client disconnects.",
    ("lib/http/asgi.py", "AsgiExchange.finish", "asyncio.wait([self._disconnect_watcher])"):
        "The task is cancelled while it waits for the ASGI server.",
    ("lib/http/asgi.py", "AsgiExchange.read_body", "self._receive()"):
        "The ASGI server ends it with the client's next piece, or when the client disconnects.",
    ("lib/http/asgi.py", "AsgiExchange.wait_responded", "asyncio.wait([self._response.ended])"):
        "`end` ends it: after the last piece, when the client has disconnected, or when it reads too slowly.",
    ("lib/http/asgi.py", "AsgiExchange.wait_responded", "self._late"):
        "The response ends it, or the refusal that a POST gets when its session ends.",
    ("lib/http/asgi.py", "AsgiStreamingResponse._send_all", "self._wake_sender.wait()"):
        "`write`, `close` and `end` set it.",
    ("lib/http/asgi.py", "AsgiStreamingResponse.drain", "self._sent.wait()"):
        "The sender sets it after each piece, and `end` sets it.",
    ("lib/http/asgi.py", "AsgiStreamingResponse.wait_sent", "asyncio.wait([self._sender])"):
        "The task is cancelled while it waits for the ASGI server.",
    ("lib/http/asgi.py", "AsgiStreamingResponse.wait_sent", "self.ended"):
        "The sender ends it after the last piece, or the watcher when the client has disconnected.",
    ("lib/http/asgi.py", "_handle", "rest"):
        "The author's handler ends it, or the ASGI server cancels the application.",
    ("lib/http/asgi.py", "_serve_lifespan", "function()"):
        "`HttpApp.start` and `HttpApp.close` are the steps, and their waits have their own entries.",
    ("lib/http/asgi.py", "application.app", "asyncio.create_task(_handle(handler, exchange))"):
        "The author's handler ends it, or the ASGI server cancels the application.",
    ("lib/http/client.py", "HttpClient._begin_tls",
     "loop.start_tls(transport, connection, context, server_hostname=name)"):
        "It has the time limit `connect` in `HttpClient._connect`.",
    ("lib/http/client.py", "_reach", "loop.getaddrinfo(host, port, type=SOCK_STREAM)"):
        "It has the time limit `connect` in `HttpClient._connect`.",
    ("lib/http/client.py", "_reach.connect",
     "loop.create_connection(lambda: connection, address, port, ssl=tls, server_hostname=host if tls else None, "
     "ssl_shutdown_timeout=1.0 if tls else None)"):
        "It has the time limit `connect` in `HttpClient._connect`.",
    ("lib/http/client.py", "HttpClient._send", "connection.send_request(request)"):
        "See `ClientConnection.read_head`.",
    ("lib/http/client.py", "HttpClient.close",
     "asyncio.gather(*(self._discard(connection) for connection in tuple(self._all)))"):
        "Each connection has 1 second to close, see `ClientConnection.close`.",
    ("lib/http/client.py", "fetch", "sending"): CONTEXT_OF_REQUEST,
    ("lib/http/connection.py", "HttpConnection._serve", "rest"):
        "The author's handler ends it, or `abort` cancels the task.",
    ("lib/http/connection.py", "HttpConnection._wait_and_handle", "rest"):
        "The author's handler ends it, or `abort` cancels the task.",
    ("lib/http/connection.py", "HttpConnection.drain", "asyncio.shield(self._slow_reader.drained)"):
        "`resume_writing` ends it, at the latest after `HttpLimits.write_time` without any progress of the client.",
    ("lib/http/connection.py", "HttpConnection.read_body", "self._body"):
        "The body was refused before, so the wait ends at once.",
    ("lib/http/connection.py", "HttpConnection.read_body", "body"):
        "The end of the body, `HttpLimits.body_time` or the end of the connection ends it.",
    ("lib/http/connections.py", "Connections.wait_closed", "self._all_closed.wait()"): HAS_LIMIT,
    ("lib/http/response.py", "ClientConnection.read_head", "self.arrival()"):
        "Bytes or the end of the connection end it, or the time limit `head_time` or `idle` of its caller.",
    ("lib/http/response.py", "HttpResponse._read_piece", "self.connection.arrival()"):
        "See `ClientConnection.read_head`.",
    ("lib/http/server.py", "HttpServer._accept_queued", "listening.accept()"):
        "The socket does not block.",
    ("lib/http/server.py", "HttpServer._accept", "asyncio.sleep(0)"):
        "It is the loop of the server's own task, which `close` cancels.",
    ("lib/http/server.py", "HttpServer._accept", "asyncio.sleep(ACCEPT_RETRY_SECONDS)"):
        "It is the loop of the server's own task, which `close` cancels.",
    ("lib/http/server.py", "HttpServer._next_accepted", "has_client"):
        "It waits for the next client for as long as the server listens; `close` cancels the task.",
    ("lib/http/server.py", "HttpServer._next_accepted", "listening.accept()"):
        "The socket is not blocking.",
    ("lib/http/server.py", "HttpServer._next_accepted", "loop.sock_accept(listening)"):
        "It waits for the next client for as long as the server listens; `close` cancels the task.",
    ("lib/http/server.py", "HttpServer._check_times", "asyncio.sleep(min(1.0, shortest / 4))"):
        "It is the loop of the server's own task, which `close` cancels.",
    ("lib/http/server.py", "HttpServer._start",
     "self._connections.loop.connect_accepted_socket(lambda: HttpConnection(self._connections), accepted, "
     "ssl=self._tls, ssl_handshake_timeout=self._connections.limits.head_time if self._tls else None, "
     "ssl_shutdown_timeout=LINGER_SECONDS if self._tls else None)"):
        "Without TLS it ends at once; a TLS handshake has the time limit `HttpLimits.head_time`.",
    ("lib/http/server.py", "end_tasks", "asyncio.wait(tasks)"):
        "All tasks are cancelled, and none of them suppresses the cancellation.",
    ("lib/http/server.py", "start_server",
     "asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)"):
        "The system ends it when it has resolved the host.",
    ("lib/slots.py", "Slots.take", "slot"):
        "Each user of a slot gives it back when it ends, and its caller has a time limit.",
    ("lib/turns.py", "Turns._wait_in", "turn"):
        "The wait schedules the passing-on of the turn, which schedules itself again for as long as a message waits.",
    ("lib/turns.py", "turn_for", "turns.wait()"):
        "See `Turns._wait_in`.",
    ("server/context.py", "Context._until_cancelled", "coroutine"):
        "The context's own method ends it, or the cancellation of the request.",
    ("server/broadcast.py", "Broadcaster._deliver", "self._received.get()"):
        "A received change ends it; `Broadcaster.stop` cancels its task.",
    ("server/broadcast.py", "Broadcaster._publish", "asyncio.sleep(COALESCE_SECONDS)"): HAS_LIMIT,
    ("server/broadcast.py", "Broadcaster._publish", "self._filled.wait()"):
        "A change ends it; `Broadcaster.stop` cancels its task.",
    ("server/broadcast.py", "Broadcaster._reload", "self._run_in_worker(function)"):
        "See `Service.run_in_worker`.",
    ("server/broadcast.py", "Broadcaster._reload", "function()"):
        "The author's function ends it. Until then, received changes wait in a queue of limited size.",
    ("server/broadcast.py", "Broadcaster.publish", "_is_reloading.get()"):
        "It reads a context variable, and does not wait.",
    ("server/broadcast.py", "Broadcaster.stop", "self._published.wait()"):
        "It has the time limit `STOP_SECONDS`.",
    ("server/http.py", "HttpApp._start_and_handle", "rest"): HTTP_HANDLER,
    ("server/http.py", "HttpApp.finish_requests",
     "asyncio.gather(self._endpoint.wait_served(seconds), asyncio.sleep(notice))"):
        "Both have the time limit `seconds`.",
    ("server/http.py", "HttpApp.end_sessions", "asyncio.gather(*endings)"):
        "See `SessionTable.close` and the others, which have the time limit `CLOSE_SECONDS`.",
    ("server/http_options.py", "authorized_by.authorize", "name"):
        "The author's `authenticate` ends it, or the server's end, which cancels the request.",
    ("server/input_requests.py", "InputRequests.gather_inputs", "asyncio.gather(*requests, return_exceptions=True)"):
        "Each request has its own time limit, or ends with the connection.",
    ("server/input_requests.py", "call_on_loop", "concurrent.futures.wait([future], timeout=1.0)"):
        "It has a time limit of 1 second, and its loop ends with the event loop.",
    ("server/input_requests.py", "call_on_loop", "future.result()"): DONE,
    ("server/lifespan.py", "Lifespan._run", "ending.wait()"):
        "`leave` sets it; it is the idle state of a server that serves.",
    ("server/lifespan.py", "Lifespan._run", "self._end_serving()"):
        "See `Service.fail`.",
    ("server/lifespan.py", "Lifespan.enter", "asyncio.shield(self._entered)"):
        "The author's context manager ends it, or `_run` cancels it at its end.",
    ("server/lifespan.py", "Lifespan.enter", "asyncio.wait([task])"):
        "The author's context manager ends it: `_task` is leaving it.",
    ("server/lifespan.py", "Lifespan.leave", "asyncio.wait([task])"):
        "The author's context manager ends it: `_task` is leaving it.",
    ("server/main.py", "run_program", "asyncio.run(until_terminated())"):
        "The end of `serve` ends it, or SIGINT or SIGTERM.",
    ("server/middleware.py", "_wrap.serve", "middleware(ServedRequest(method, params), context, proceed)"):
        "The author's middleware or handler ends it, or the cancellation of the request.",
    ("server/middleware.py", "_wrap.serve.proceed", "handler(request.params, context)"):
        "The author's middleware or handler ends it, or the cancellation of the request.",
    ("server/routes.py", "call_route", "asyncio.get_running_loop().run_in_executor(executor, run, handler, request)"):
        "The author's function ends it; a cancellation ends the wait, but not the thread.",
    ("server/routes.py", "call_route", "handler(request)"):
        "The author's handler ends it, or the HTTP server cancels its task.",
    ("server/routes.py", "call_route", "result"):
        "The author's handler ends it, or the HTTP server cancels its task.",
    ("server/main.py", "run_http_program.listen", "stop.wait()"):
        "The end of the lifespan or a signal ends it; it is the idle state of a server.",
    ("server/main.py", "run_http_program.listen", "listening"):
        "Entering it only opens the socket, and leaving it has the time limits of `HttpServer.close`.",
    ("server/service.py", "Service.run_in_worker",
     "asyncio.get_running_loop().run_in_executor(self.executor, run, function)"):
        "The author's function ends it; a cancellation ends the wait, but not the thread.",
    ("server/service.py", "Service.drain", "asyncio.sleep(DRAIN_INTERVAL)"): HAS_LIMIT,
    ("server/service.py", "Service.drain",
     "asyncio.gather(*(member.finish_requests(left) for member in tuple(self.members)))"):
        "Each member has the time limit `seconds`.",
    ("server/service.py", "Membership._begin", "self._service.add(self._member, self._reopen)"):
        "See `Service.add`, which is a coroutine function.",
    ("server/service.py", "Membership.begin", "asyncio.shield(self._beginning)"):
        "The task `_begin` ends it; see `Lifespan.enter`.",
    ("server/session.py", "ServerSession.request_input", "asyncio.shield(self.initialized)"):
        "The client's `initialized` ends it, or the time limit of the request, or its cancellation.",
    ("server/session.py", "ServerSession.finish", "self.ended"):
        "The end of the transport ends it; it is the idle state of a session.",
    ("server/session.py", "begin", "catalog.service.add(session)"):
        "See `Service.add`, which is a coroutine function.",
    ("server/stateless.py", "serve_request", "route.handler(params, context)"): AUTHORS_HANDLER,
    ("server/subscriptions.py", "OpenSubscription.drain_changes", "self._drain()"):
        "See `StreamingResponse.drain`: the client reads, or is disconnected after `write_time`.",
    ("server/subscriptions.py", "OpenSubscription.wait_ended", "self._ended"):
        "`close`, the time limit of the token or the cancellation of the request ends it; it is the idle "
        "state of a subscription.",
    ("session.py", "Session._serve", "route.handler(params, self.context(request, params))"): AUTHORS_HANDLER,
    ("transports/base.py", "finish", "asyncio.wait(pending, timeout=timeout)"):
        "It has the time limit of its caller.",
    ("transports/http_sse/client.py", "SseClientTransport._post", "posting"): CONTEXT_OF_REQUEST,
    ("transports/http_sse/client.py", "SseClientTransport._post", "self._endpoint.result()"): DONE,
    ("transports/http_sse/client.py", "SseClientTransport._read_stream", "response"): PIECES,
    ("transports/http_sse/client.py", "SseClientTransport._read_stream", "self._readable.wait()"):
        "`resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.",
    ("transports/http_sse/client.py", "SseClientTransport.start", "asyncio.wait([self._endpoint])"):
        "It has the time limit `ENDPOINT_SECONDS`.",
    ("transports/http_sse/client.py", "SseClientTransport.start", "self._endpoint.result()"):
        "It has the time limit `ENDPOINT_SECONDS`.",
    ("transports/http_sse/server.py", "SseEndpoint._stream", "asyncio.wait([task])"):
        "The session has ended, and its end has the time limits `FINISH_SECONDS` and `grace` of `Dispatcher.close`.",
    ("transports/http_sse/server.py", "SseEndpoint._stream",
     "asyncio.wait(ended, timeout=left, return_when=asyncio.FIRST_COMPLETED)"):
        "The end of the session, of its stream or of its last token ends it; it is the idle state of a session.",
    ("transports/memory.py", "MemoryTransport.drain", "self._outbox.has_room.wait()"):
        "The other side sets it when it reads, and when it closes.",
    ("transports/stdio/client.py", "StdioClientTransport._exits_within", "self._exited.wait()"):
        "It has the time limit `grace` or `SILENT_GRACE_SECONDS`.",
    ("transports/stdio/client.py", "StdioClientTransport.close", "asyncio.shield(self._closing)"):
        "The task `_close` ends it, whose waits have time limits.",
    ("transports/stdio/client.py", "StdioClientTransport.start",
     "loop.subprocess_exec(lambda: self, *command, env=environment, cwd=self._cwd, "
     "creationflags=system.SYSTEM.creation_flags, start_new_session=system.SYSTEM.has_process_groups)"):
        "The operating system ends it: it starts a process.",
    ("transports/stdio/lines.py", "LineTransport.drain", "self._writable.wait()"):
        "`resume_writing` sets it when the peer reads, and the end of the connection does.",
    ("transports/stdio/server.py", "StdioServerTransport._open_socket",
     "asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)"):
        "The event loop registers the descriptor at once.",
    ("transports/stdio/server.py", "StdioServerTransport.close", "asyncio.sleep(0.005)"):
        "The loop ends when the client reads nothing for `FLUSH_SECONDS`.",
    ("transports/stdio/server.py", "StdioServerTransport.start", "loop.connect_read_pipe(lambda: self, source)"):
        "The event loop registers the descriptor at once.",
    ("transports/stdio/server.py", "StdioServerTransport.start",
     "loop.connect_write_pipe(lambda: _OutputProtocol(self), sink)"):
        "The event loop registers the descriptor at once.",
    ("transports/streamable_http/checks.py", "_begin_later", "rest"): HTTP_HANDLER,
    ("transports/streamable_http/checks.py", "_finish", "rest"): HTTP_HANDLER,
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport._close", "deleting"):
        "It has the time limit `DELETE_SECONDS`.",
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport._deliver_frame",
     "self._stateless.readable.wait()"):
        "`resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.",
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport._read", "self._stateless.readable.wait()"):
        "See `_deliver_frame`.",
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport._post", "posting"): CONTEXT_OF_REQUEST,
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport._renew_session",
     "asyncio.shield(self._renewal)"):
        "It has the time limit `RENEWAL_SECONDS` in `_repeat_handshake`.",
    ("transports/streamable_http/client.py", "StreamableHttpClientTransport.close", "asyncio.shield(self._closing)"):
        "The task `_close` ends it, whose waits have time limits.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore.find_session", "asyncio.sleep(HANDOVER_PAUSE)"):
        "The loop has the time limit `HANDOVER_SECONDS`, and each load has `LOAD_SECONDS`.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore._renew_leases",
     "self._thread.run(partial(self._renew_checked, sessions), is_urgent=True)"):
        "The author's storage ends it. Meanwhile the leases end, so the process serves none of these sessions.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore.wait_stored", "may_begin.wait()"):
        "It has the time limit `BEGIN_SECONDS`.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore._give_back_saved",
     "self._thread.run(partial(self.release, saved))"):
        "The author's store ends it in a thread, or `flush` cancels the task.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore.flush",
     "self._thread.run(partial(self.release, self.leases.end_all()), is_urgent=True)"): SECONDS,
    ("transports/streamable_http/durable_store.py", "DurableEventStore._save_changes",
     "asyncio.sleep(RETRY_SECONDS)"):
        "It is the loop of the store's own task, which `flush` cancels.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore._save_changes",
     "self._thread.run(partial(self.save, [*self._saving.values()]), is_urgent=True)"):
        "The author's store ends it in a thread, or `flush` cancels the task.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore._load_session",
     "self._thread.run(partial(self._load_checked, session, principal))"):
        "It has the time limit `LOAD_SECONDS`.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore.flush", "asyncio.wait([task])"):
        "The task is cancelled, and its waits end when they are cancelled.",
    ("transports/streamable_http/durable_store.py", "DurableEventStore.flush",
     "asyncio.wait([task], timeout=seconds)"): SECONDS,
    ("transports/streamable_http/durable_store.py", "_DaemonThread.run", "future"):
        "The thread ends it after the function; `LOAD_SECONDS` or the cancellation in `flush` ends the wait "
        "for a function that hangs.",
    ("transports/streamable_http/posted_session.py", "SessionTransport.wait_until_reading", "self._resumed.wait()"):
        "`resume_reading` sets it when the dispatcher has room again, and `close` calls that.",
    ("transports/streamable_http/resumption.py", "_read_events", "response"): PIECES,
    ("transports/streamable_http/resumption.py", "listen",
     "asyncio.sleep(retry_seconds(parser, since_event, since_message))"):
        "Each sleep has at most `MAX_RETRY` seconds, and `close` cancels the task.",
    ("transports/streamable_http/resumption.py", "listen", "get(resume_header(parser))"): CONTEXT_OF_REQUEST,
    ("transports/streamable_http/resumption.py", "read_and_resume",
     "asyncio.sleep(retry_seconds(parser, since_event, since_message))"):
        "The loop has at most `MAX_RECONNECTIONS` attempts without a message.",
    ("transports/streamable_http/resumption.py", "read_and_resume", "get(resume_header(parser))"): CONTEXT_OF_REQUEST,
    ("transports/streamable_http/leases.py", "Leases._renew_all", "asyncio.sleep(self._seconds / 3)"):
        "It has a time limit; `end_all` cancels the task.",
    ("transports/streamable_http/server.py", "StreamableHttpEndpoint._initialize",
     "asyncio.shield(session.initialized)"): HANDSHAKE,
    ("transports/streamable_http/server.py", "StreamableHttpEndpoint._initialize", "session.initialized.result()"):
        HANDSHAKE,
    ("transports/streamable_http/server.py", "StreamableHttpEndpoint._wait_and_post", "rest"): HTTP_HANDLER,
    ("transports/streamable_http/session.py", "HttpSession.admit", "self.initialized.result()"): DONE,
    ("transports/streamable_http/session.py", "HttpSession._put_during_initialize", "self.initialized.result()"): DONE,
    ("transports/streamable_http/session_table.py", "SessionTable._remove", "session.initialized.result()"): DONE,
    ("transports/streamable_http/session_table.py", "SessionTable._end_soon", "session.initialized.result()"): DONE,
    ("transports/streamable_http/session_table.py", "SessionTable._open", "self._begin_serving(session)"):
        "The author's lifespan ends it; `SessionTable.close` cancels it after `CLOSE_SECONDS`.",
    ("transports/streamable_http/handover.py", "Handover.refuse", "given_back.wait()"):
        "It has the time limit `REFUSE_SECONDS`.",
    ("transports/streamable_http/session_table.py", "SessionTable.find", "asyncio.wait([session.restoration])"):
        "See `repeat_requests`.",
    ("transports/streamable_http/restoration.py", "_repeat_all", "asyncio.shield(session.initialized)"): HANDSHAKE,
    ("transports/streamable_http/session_table.py", "SessionTable.find", "asyncio.shield(session.initialized)"):
        HANDSHAKE,
    ("transports/streamable_http/stateless.py", "StatelessExchange.serve", "turn"):
        "`Turns._wait_in` schedules the passing-on of the turn.",
    ("transports/streamable_http/stateless_client.py", "StatelessRequests._post", "posting"): CONTEXT_OF_REQUEST,
    ("transports/streamable_http/stateless_client.py", "StatelessRequests._read_events", "response"): PIECES,
    ("transports/streamable_http/stateless_client.py", "StatelessRequests._read_events", "self.readable.wait()"):
        "`resume_reading` sets it when the dispatcher has room again, and `close` cancels the task.",
    ("transports/system.py", "ThreadWriter._run", "self._queue.get()"):
        "`write` or `abort` ends it; the thread is a daemon, so it does not delay the end of the process.",
    ("transports/system.py", "Windows.end_processes",
     "asyncio.create_subprocess_exec(*command, stdin=null, stdout=null, stderr=null, "
     "creationflags=self.creation_flags)"):
        "The operating system ends it: it starts a process.",
    ("transports/system.py", "Windows.end_processes", "asyncio.wait_for(killer.wait(), TASKKILL_SECONDS)"):
        "It has the time limit `TASKKILL_SECONDS`.",
    ("transports/system.py", "Windows.end_processes", "killer.wait()"):
        "It has the time limit `TASKKILL_SECONDS`.",
    ("transports/system.py", "read_in_thread.feed_later", "asyncio.sleep(0.01)"):
        "The loop ends when the dispatcher has room again; the thread that waits for it is a daemon.",
    ("transports/system.py", "read_in_thread.read",
     "asyncio.run_coroutine_threadsafe(feed_later(data), loop).result()"):
        "`feed_later` ends it; the thread is a daemon, so it does not delay the end of the process.",
    ("transports/system.py", "read_in_thread.read", "os.read(source, PIECE)"):
        "The client ends it with data or the end of the input; the thread is a daemon.",
}  # fmt: skip


def find_waits() -> set[tuple[str, str, str]]:
    """Return module, function and expression of each wait of the package that needs a reason."""
    trees = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
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
    return {(name, *found) for name, tree in trees.items() for found in _waits_in(tree, (), followed, False)}


def _returns_awaitable(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a plain function whose result can be awaited."""
    if isinstance(function, ast.AsyncFunctionDef) or _is_context_manager(function):
        return False
    returned = "Any" if function.returns is None else ast.unparse(function.returns)
    return any(name in returned for name in ("Any", "Awaitable", "Coroutine", "Future", "Task[", "Async"))


def _is_context_manager(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for an asynchronous context manager, which is a wait of its own when it is entered."""
    return any("asynccontextmanager" in ast.unparse(decorator) for decorator in function.decorator_list)


def _waits_in(node: ast.AST, path: tuple[str, ...], followed: set[str], in_loop: bool) -> Iterator[tuple[str, str]]:
    """Yield function and expression of each wait in a node that needs a reason.

    `path` has the names of the classes and functions around the node. `followed` are the names of functions of the
    package, whose own waits have reasons. `in_loop` is True inside a `while` loop.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        path, in_loop = (*path, node.name), False
    if isinstance(node, ast.While):
        in_loop = True
    for waited in _waited_by(node):
        if waited is node or not _needs_no_reason(waited, followed, in_loop):  # `node` itself is a call that blocks
            yield ".".join(path), ast.unparse(waited)
    awaited = node.value if isinstance(node, ast.Await) else None
    if isinstance(awaited, ast.Call):  # its arguments can wait too, but it has been counted itself
        for child in ast.iter_child_nodes(awaited):
            yield from _waits_in(child, path, followed, in_loop)
        return
    for child in ast.iter_child_nodes(node):
        yield from _waits_in(child, path, followed, in_loop)


def _waited_by(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a node waits for."""
    if isinstance(node, ast.Await):
        return [node.value]
    if isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
        return [node.iter]
    if isinstance(node, ast.AsyncWith):
        return [item.context_expr for item in node.items]
    return [node] if isinstance(node, ast.Call) and _blocks(node) else []


def _blocks(call: ast.Call) -> bool:
    """Return True for a call that can block its thread: of a future, a thread, a queue, a lock, a process or a file."""
    name = ast.unparse(call.func)
    if name in BLOCKING_FUNCTIONS:
        return True
    attribute = name.rpartition(".")[2] if isinstance(call.func, ast.Attribute) else ""
    if attribute in BLOCKING_WITHOUT_ARGUMENTS:
        return not call.args and not name.startswith("current_")
    return attribute in BLOCKING


def _needs_no_reason(value: ast.expr, followed: set[str], in_loop: bool) -> bool:
    """Return True if the wait is a call of the package itself, a time limit, or a single sleep or limited wait."""
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func)
    if name == "asyncio.sleep" or (name == "asyncio.wait" and LIMITED.search(ast.unparse(value))):
        return not in_loop
    if name.rpartition(".")[2] in TIME_LIMITS:
        return True
    return not name.startswith("asyncio.") and name.rpartition(".")[2] in followed
