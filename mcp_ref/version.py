"""The version of mcp_ref, and the changes of each version.

CHANGES

0.2.0
- New commands: `record` stands between a host and a server, unnoticed, and writes their conversation down; `replay`
  plays the recorded server in any revision, or the client. With MCP_REF_TRACE=a.jsonl, a program records itself.
- New command: `check` judges a recording of any client and any server by the specification: 180 rules, each with
  the sentence of the specification, the events that prove a finding, and the way to repair it. `check --rules` lists
  them, and the sentences that no observer can decide. Reports: text, JSON, JUnit and SARIF.
- Modules moved to folders, such as `server/server.py` and `client/client.py`. The names in `mcp_ref.__all__` are the
  same. Imports of inner modules must change.
- `Client.connection` is now `Client.session`.
- A server declares a capability when a handler is registered. Reading `server.prompts` no longer declares one.
- `READING_ORDER` lists the modules in reading order. `OPTIONAL_READING` lists those that a first reader can skip.
- New commands: `python3 -m mcp_ref toc` and `python3 -m mcp_ref limits`.
- The texts of error and log messages changed. The structure of JSON-RPC messages did not change.
- The option `older` of a server over HTTP is now `http_sse`.
- `Server.run_http` ends the program with a message if the address is not available. It raised OSError before.
- New for servers: `Server(lifespan=...)` and `context.state`, `@server.middleware`, `context.http`, `server.close()`,
  and `routes=` of a server over HTTP.
- New for both sides: authorization over HTTP, typed results (`call_tool(returns=...)`, `ElicitResult.data`), pydantic
  models and constraints in `Annotated`, and methods of your own. An unknown object in `Annotated` is now a TypeError.
- New for the command line: `call --save DIR` and `read --save DIR` write images, audio and blobs to files.
- `toc PAGE` and `toc --search WORD` list the lines of the package that cite the specification.
- New for hosts: `Host` and `SyncHost` connect several servers with one policy. The command line has `--config FILE`.
- New: `python3 -m mcp_ref bridge` lets clients of any revision use a server of any other revision (`bridge/`).
- A variable such as `{+path}` of a resource template does not match an absolute path, unless `absolute_paths=True`.
- On stdio, `initialize` can begin a new session. Before, a second `initialize` was refused.
- Large results over HTTP take turns, each client has a share of the worker threads, sessions and tasks, and all clients
  together have limits on unread responses and unfinished bodies: `HttpLimits`, `EndpointLimits`.
- A server over HTTP reads a body only after the checks of the head. So `authenticate` gets requests without their body,
  and a handler of `lib/http` must call `exchange.read_body()`.
- `MemoryTaskStore(max_tasks_per_owner=...)` is now `max_tasks_per_caller=...`. Its limits in bytes now limit memory,
  which `lib/shares.py` estimates.
- `raise ResourceNotFound` replaces `features.resources.not_found`.
- `context.client_can` replaces `context.client_capabilities`. In `lib/http`, `serve` is now `start_server`.
- `context.caller_may_see` replaces `context.shows`. `Connector.negotiated_session` replaces its `session`.
- `context.progress`, an attribute for internal use that was often None, is now private. Use `context.report_progress`.
- A line that was typed before a form appears at the terminal is dropped. Before, it became the form's first value.
- A JSON Schema validation has 1,000,000 steps instead of 2,000,000. Each keyword and each error text costs steps.
- A thread writes the file of `--store` (`SqliteEventStore`). The file has limits in bytes, and only its owner can read
  it. A store of your own now derives from `DurableEventStore` instead of having the methods of `EventStore`.
- Every transport works on uvloop's event loop.
- A handler for elicitation or sampling that is a plain `def`, or returns an invalid result, causes an `InvalidMessage`
  in both eras. Before, the modern era raised TypeError or ValueError, and a legacy server got "Internal error".
- From 2026-07-28 on, the server refuses a response to an input request without its `requestState`, unless the author
  gave the request a `key`.
- These mistakes are now a TypeError: an unknown option of a server over HTTP, a `str` instead of a list for
  `allowed_hosts`, `allowed_origins` or `roots`, a resource function that returns None, a parameter `context` without a
  type, and an option of the wrong type of a tool, resource or prompt, such as a dict for `annotations`.
- A field or an option of the wrong type is a TypeError where an author gives it, such as `RouteResponse(200, b"ok")`,
  and a message with such a field is a TypeError when it is written. Before, some of them reached the other side.
- A tool, prompt or resource whose name, URI or option has half of a surrogate pair is a ValueError at its registration.
  Before, each request for the list failed.
- The parameters of a completer must be annotated as `str` and `dict[str, str]`, or not at all.
- `Client(...)` refuses an empty command, and an invalid URL or header. Before, `connect` failed. The command line
  then ends with exit code 2 instead of 3.
- An `async def` for a callback that nobody awaits, such as `on_log`, `on_progress` or a host's `audit`, is a TypeError.
  Before, it was accepted and never ran.
- `record` and `replay` refuse `--host` and `--port` without `--http`, and `check` refuses options that do not apply to
  its target.
- The dialogs of a host, the command line and the trace escape more hidden characters, such as variation selectors and
  Hangul fillers, all in the form `\\u{202e}`. The trace also hides numbers, objects and pairs that hold a secret.
- The URL of an elicitation must have a host that all programs read in the same way: without backslash, user name,
  letters outside ASCII, and short forms of IP addresses.
- A response with the id 1.0 belongs to the request 1. Before, the request waited until its time limit.
- If a handler fails, its peer sees only texts that the author or this package wrote. If a tool calls another server,
  that server's error texts stay in the log; raise `ToolError(...)` or `ProtocolError(...)` to pass one on.
- Each request over HTTP gets a response. Before, large messages of other clients could make it wait forever.
- A client that asks for many large results, and does not read them, delays the `ping` of others much less.
- A client that reads the output of a stdio server slowly gets all of it, also after the end of the input.
- `anext` of a subscription whose `async with` has ended raises RuntimeError. In the modern era it waited forever.
- A session in a store is not deleted if middleware refuses to restore it. A later request can restore it.
- `SyncClient` has the options of `Client`: `SyncClient(url, timeout=5)`. An option of `Client` or of a server over HTTP
  with an unknown name or of the wrong type is a TypeError, which suggests the right name. `Client.target` is now
  `Client.connector.target`.
- `repr()` of `Client`, `Server`, `Host` and sessions says the state, the revision and counts, without secrets. If a
  client lacks a capability, the error of its request says which option of `Client` declares it, and the server's log
  has a warning for the tool's author.
- All spellings of a URI name one resource, as RFC 3986 says: `DOCS://%61dmin/keys` is `docs://admin/keys`. So capital
  letters in the host do not reach the function of a template: use `notes:///{name}` if they matter.
- A read needs the scopes of all resources and templates that its URI matches. Before, the first match decided.
- A subscriber gets updates only of resources for which it has the scopes, with URIs in its own spelling.
- A value of `{x}` or `{/x}` in a template has no colon, and a value of `{?x}` cannot be an absolute path, unless the
  resource has `absolute_paths=True`.
- A `ResponseCache` shares no results between starts of a command with different variables or directories.
- A program named without a folder, such as `npx`, is found only in absolute folders of the PATH, on Windows too. A
  file of another user, or below a folder that others can change, starts no server without `approve`.
- The file of `--store` (`SqliteEventStore`) is refused if it is a link, belongs to another user, can be read or changed
  by others, or is in a folder such as /tmp. A file of version 0.1.0 needs `chmod 600`.
- A user allows the start of a server for the program's absolute path, its arguments, folder, variables and PATH,
  and for the URL and headers: the host asks again in another folder, but not for a new token. `Approval.text()` shows
  the program, the source of each variable and header, and the host that gets your variables, each value as JSON on one
  line. `Approval.settings` replaces `env_names`.
- A configuration file that is not the user's own cannot set variables such as PATH or NODE_OPTIONS, unless `approve`
  allows each (kind "variable"). `${input:id}` cannot choose a program, folder or host. A relative `cwd` is
  relative to `${workspaceFolder}`.
- `Budget.result_characters` also limits embedded resources, links and structured content.
- `python3 -m mcp_ref` imports no modules of the current folder itself, such as a downloaded `argparse.py`. Python can
  still import a few of them before: in a folder that you do not trust, use `python3 -P -m mcp_ref`.
- A client refuses a message over 1 MiB before it parses it, unless a request waits for this response. A host also
  counts the bytes of messages that it did not request. Over HTTP too, a client stops reading when it has too many.
- The URIs to which one caller subscribes, and the results of its tasks, have limits in bytes.
  `python3 -m mcp_ref limits` shows the memory that one caller can fill.
- A request whose `MCP-Protocol-Version` header names an unsupported revision gets error -32022 with the supported ones,
  also if it has no `_meta`. Before, the error said that `_meta` is missing.
- A server that refuses two new tokens in a row causes no sign-in for 10 minutes. Before, each request caused one.
- `login` replaces an earlier sign-in only if the new one succeeds, and no longer revokes its tokens; `logout` does.
- A mounted ASGI application whose lifespan failed tries to enter it again at the next request, at most once a second,
  and refuses requests with 503 until then. Before, they got 500, or 503 until the program restarted.
- Even if many pipelined requests wait, a handler over HTTP is told when its client has left (on Linux, within 1 s).
- A POST that waits when its session ends gets 404 or 503. Before, it got an empty event stream.
- A URI needs the scopes of a resource or template even if it has a fragment, more, fewer or reordered query parameters,
  another text of a value (`1.0` for 1), or a value that does not fit the type of its parameter. `hide_forbidden` uses
  the same scopes. Contents that need a scope have `cacheScope` "private" in every case. A completion for a template
  also needs the scopes of the URI that its arguments make.
- The approval of a start shows each value that a file sets, and the defaults of inputs, but no secrets. It warns of
  values that name a file, an address or a command. A path or a URL is shown even under the name of a secret.
  `Setting.value` is new. A value that the user typed for one file is not used for another.
- The URI that a model reads is sent in the spelling that the user has seen. A refusal quotes the URI or a tool's name.
- A call of a `SyncClient` that another thread closes raises ConnectionClosed. Before, it could wait forever.
- `Context.run` in a worker thread raises CancelledError when the event loop has ended, so that the process can end.
- The sessions of one caller have a limit in bytes: `EndpointLimits.session_bytes_per_caller`. Messages that wait for
  the client's next GET count only for the event store's limits: `waiting_events` and `waiting_bytes` are gone.
- One caller's requests in flight, arguments of running tasks, params of a bridge's held calls, and unfinished requests
  have limits in bytes of estimated memory: `EndpointLimits.request_bytes*`, and `Limits.max_bytes_in_flight` on other
  transports.
- A full event store drops the events of the callers with more than an equal share first. `add_session` and
  `restore_session` of a store also get the caller.
- `Host(trace=...)` shows the messages of all servers of a host.
- A closed `Host` starts no server again: `restart` raises ServerUnavailable, and `reload` RuntimeError.
- `trusted_proxies=` of a server over HTTP (`run --trust-proxy`): behind a proxy, each client has its own limits.
- `health=True` of a server over HTTP (`run --health`) serves `/livez`, `/readyz` and `/metrics`, and `server.stats()`
  returns the numbers. After SIGTERM, `run_http` lets the requests in flight finish for 10 seconds (`drain_seconds`,
  `run --drain`) instead of one. `server.drain()` does the same under a framework.
- Several processes: `Server(node=...)` names the process in the ids of sessions and tasks, for a load balancer, and
  `Server(broadcast=...)` announces changes to the other processes, in which `@server.on_change("tools")` loads the list
  again. A `DurableEventStore` with `lease_seconds` is shared by several processes: a session continues in another one.
  A session in a store keeps its log level and its subscriptions, and its lost requests get an error.
  `Server(task_store=AsyncTaskStore)` keeps tasks in a database: each process can serve requests about all of them.
  `examples/many_machines/` has all three, with nginx, HAProxy, Redis, PostgreSQL and Kubernetes.
- `Bearer` refuses a token that no header can have, and `health=True` a `path` such as "/livez".
- If an HTTP+SSE server names an endpoint of another origin, `connect` raises InvalidMessage. Before, it reported the
  refusal of an earlier POST.
- An argument of the wrong type is a TypeError in `Server`, such as `page_size="5"` or an unknown `cache_scope`, and in
  `Host`, `Bridge`, `HttpClient`, `Protection`, the verifiers and the stores.
- A completer's Enum members, booleans and dates become the text that such an argument has; other objects are an error.
- `Client(eras=...)` remembers the era of a command for its folder and environment only. Earlier entries are not used.
- A transport of your own that does not derive from `Transport` needs the attributes `shares_and_caller` (None is
  enough) and `may_initialize_again`.
- The command line marks each row of a server's text, and shows no such text while it waits for the user's reply.
- `run` refuses a port, path, host or origin that no request could match, and then ends with exit code 2.
- `call` refuses a value that JSON cannot hold, such as `NaN`, and `--root` a path that is not a directory. `bridge`
  refuses `--timeout`, `--root`, `--log` and `--json`, which had no effect.
- A call that waits for its task survives a short outage, because the requests about the task are repeated. The response
  of a user that an outage has lost is sent again by the next `RunningTask.result()`.
- `RunningTask(ended=...)`, an `asyncio.Event`, replaces `is_open=`. `ConnectionClosed.is_unsent` is True if no
  connection was made for the request.
- `record --http --host` for other machines replaces `Host` only if it is an address, a name without a dot, or its own.
- A value of `call` with the same key twice in one object is not JSON, as in a message.
- A resource template is refused if the type of a parameter excludes each value of its variable, such as `str` for
  `{x*}`. Before, no URI with a value of it matched.
- Several processes share a store of tasks only if it derives from `AsyncTaskStore`, as one with an `async def` must.
- A `singledispatch` function cannot be a tool.
- A server refuses a compressed body with 415. A client ignores a request with the id of another unfinished one.
- `AuthorizationCode` uses an expired token without a refresh token until the server refuses it, and asks only then for
  another sign-in.
- A modern request in flight gets an error when its server stops. Before, its connection was cut.
- `BridgeStatus.connections` replaces `clients`, because `Bridge.clients` is the maximum number of something else.
- `ConnectionClosed.http_status` is the status of an HTTP response that was not a JSON-RPC response.
- After the cancellation of a request, `Context.run` raises CancelledError. So a plain `def` that reports its progress
  notices it.
- A request of a client on another event loop than its first raises RuntimeError. Before, it could wait forever.
- `Client.set_logging_level` refuses an unknown level with ValueError. Before, a modern server refused later requests.
- A result of 2024-10-07 with a text in its member `error` has `is_error`. Before, the client took it for a success.
- A `SqliteEventStore` refuses the database of another program. Before, it could add its tables there.
- `Revision.tasks_are_core` is now `Revision.built_in_tasks`.
- The package is under the MIT license.

0.1.0
- First version: client and server, six revisions, stdio, Streamable HTTP, HTTP+SSE.
"""

__version__ = "0.2.0"
