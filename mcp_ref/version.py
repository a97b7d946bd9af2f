"""The version of mcp_ref, and the changes of each version.

CHANGES

0.2.0
- New commands: `record` stands between a host and a server, unnoticed, and writes their conversation down; `replay` is
  the recorded server, in any revision, or sends the requests again. With MCP_REF_TRACE=a.jsonl, a program records.
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
- `MemoryTaskStore(max_tasks_per_owner=...)` is now `max_tasks_per_caller=...`. Its limits in bytes are of memory, as
  `lib/shares.py` estimates it.
- `raise ResourceNotFound` replaces `features.resources.not_found`.
- `context.client_can` replaces `context.client_capabilities`. In `lib/http`, `serve` is now `start_server`.
- A JSON Schema validation has 1,000,000 steps instead of 2,000,000. Each keyword and each error text costs steps.
- A thread writes the file of `--store` (`SqliteEventStore`). The file has limits in bytes, and only its owner can read
  it. Your own store derives from `DurableEventStore`. Before, it had the methods of `EventStore`.
- Every transport works on uvloop's event loop.
- A plain `def` handler for elicitation or sampling, and an invalid result of a handler, are an `InvalidMessage` in both
  eras. Before, the modern era raised TypeError or ValueError, and a legacy server got "Internal error".
- From 2026-07-28 on, the server refuses a response to an input request without its `requestState`, unless the author
  chose the key.
- These mistakes are now a TypeError: an unknown option of a server over HTTP, one text for `allowed_hosts`,
  `allowed_origins` or `roots`, a resource function that returns None, a parameter `context` without a type, and an
  option of the wrong type of a tool, resource or prompt, such as a dict for `annotations`.
- A field or an option of the wrong type is a TypeError where an author gives it, such as `RouteResponse(200, b"ok")`,
  and a message with such a field is a TypeError when it is written. Before, some of them reached the other side.
- `Client(...)` refuses an empty command, and an invalid URL or header. Before, `connect` failed. The command line
  then ends with exit code 2 instead of 3.
- The dialogs of a host, the command line and the trace escape more hidden characters, such as variation selectors and
  Hangul fillers, all in the form `\\u{202e}`. The trace also hides numbers, objects and pairs that hold a secret.
- The URL of an elicitation must have a host that all programs read in the same way: without backslash, user name,
  letters outside ASCII, and short forms of IP addresses.
- A response with the id 1.0 belongs to the request 1. Before, the request waited until its time limit.
- A handler that fails gives its peer only texts of the author and of this package. If a tool calls another server, the
  texts of this server's errors stay in the log; raise `ToolError(...)` or `ProtocolError(...)` to pass one on.
- Each request over HTTP gets a response. Before, it could wait without end after large messages of other clients.
- A client that asks for many large results, and does not read them, delays the `ping` of others much less.
- A client that reads the output of a stdio server slowly gets all of it, also after the end of the input.
- `anext` of a subscription whose `async with` has ended raises RuntimeError. In the modern era it waited without end.
- A session in a store is not deleted if middleware refuses to restore it. A later request can restore it.
- `SyncClient` has the options of `Client`: `SyncClient(url, timeout=5)`. An option of `Client` or of a server over HTTP
  with an unknown name or of the wrong type is a TypeError, which suggests the right name. `Client.target` is now
  `Client.connector.target`.
- `repr()` of `Client`, `Server`, `Host` and sessions says the state, the revision and counts, without secrets. If a
  client lacks a capability, the error of its request says which option of `Client` declares it, and the server's log
  has a warning for the tool's author.
- Every spelling of a URI is one resource, as RFC 3986 says: `DOCS://%61dmin/keys` is `docs://admin/keys`. So capital
  letters in the host do not reach the function of a template: use `notes:///{name}` if they matter.
- A read needs the scopes of all resources and templates that its URI matches. Before, the first match decided.
- A subscriber gets updates only of resources for which it has the scopes, with URIs in its own spelling.
- A value of `{x}` or `{/x}` in a template has no colon, and a value of `{?x}` cannot be an absolute path, unless the
  resource has `absolute_paths=True`.
- A `ResponseCache` keeps the results of commands with other variables or another directory apart.
- A program without a folder, such as `npx`, is searched in the absolute folders of the PATH only, on Windows too. A
  file of another user, or below a folder that others can change, starts no server without `approve`.
- The file of `--store` (`SqliteEventStore`) is refused if it is a link, belongs to another user, can be read or changed
  by others, or is in a folder such as /tmp. A file of version 0.1.0 needs `chmod 600`.
- A yes to the start of a server is valid for the program's absolute path, its arguments, folder, variables and PATH,
  and for the URL and headers: the host asks again in another folder, but not for a new token. `Approval.text()` shows
  the program, the source of each variable and header, and the host that gets your variables, each value as JSON on one
  line. `Approval.settings` replaces `env_names`.
- A file that is not the user's own cannot set variables such as PATH or NODE_OPTIONS, unless `approve` allows each of
  them (kind "variable"). `${input:id}` cannot choose a program, folder or host. A relative `cwd` is below the folder.
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
  and refuses requests with 503 until then. Before, a failed start was a 500, and an application stayed at 503 if
  another one had entered the lifespan first.
- A handler over HTTP is told that its client has left although many pipelined requests wait (on Linux, within 1 s).
- A POST that waits when its session ends gets 404 or 503. Before, it got an empty event stream.
- The scopes of a resource or template are also needed for its URI with a fragment, or with more, fewer or reordered
  parts of the query, for other texts of a value (`1.0` for 1), and for values that do not fit the type of a parameter.
  `hide_forbidden` uses the same scopes. Contents that need a scope have `cacheScope` "private" in every case. A
  completion for a template also needs the scopes of the URI that its arguments make.
- The approval of a start shows each value that a file sets, also the default of an input, except secrets, and warns
  of values that name a file, an address or a command. A path or a URL is not a secret, also with the name of one.
  `Setting.value` is new. A typed input is for its file only.
- A model's read sends the URI in the spelling that the user has seen. A refusal quotes the name of a tool or a URI.
- A call of a `SyncClient` that another thread closes at that moment raises ConnectionClosed; it could wait forever.
- `Context.run` in a worker thread raises CancelledError when the event loop has ended; it could keep the process alive.
- The sessions of one caller have a limit in bytes: `EndpointLimits.session_bytes_per_caller`. Messages that wait for
  the client's next GET are only in the event store, with its limits: `waiting_events` and `waiting_bytes` are gone.
- The requests of one caller in flight have a limit in bytes of estimated memory: `EndpointLimits.request_bytes*`, and
  `Limits.max_bytes_in_flight` on other transports. So have the arguments of running tasks, and unfinished requests.
- A full event store drops the events of the callers with more than an equal share first. `add_session` and
  `restore_session` of a store also get the caller.
- `Host(trace=...)` shows the messages of all servers of a host.
- `trusted_proxies=` of a server over HTTP (`run --trust-proxy`): behind a proxy, each client has its own limits.
- `health=True` of a server over HTTP (`run --health`) serves `/livez`, `/readyz` and `/metrics`, and `server.stats()`
  returns the numbers. After SIGTERM, `run_http` lets the requests in flight finish for 10 seconds (`drain_seconds`,
  `run --drain`); it ended them after one second before. `server.drain()` does the same under a framework.
- Several processes: `Server(node=...)` names the process in the ids of sessions and tasks, for a load balancer, and
  `Server(broadcast=...)` announces changes to the other processes. `@server.on_change("tools")` loads a list again.
  A `DurableEventStore` with `lease_seconds` is shared by several processes: a session continues in another one.
  A session in a store keeps its log level and its subscriptions, and its lost requests get an error.
  `Server(task_store=AsyncTaskStore)` keeps tasks in a database: each process can serve requests about all of them.
  `examples/many_machines/` has all three, with nginx, HAProxy, Redis, PostgreSQL and Kubernetes.
- An option of `Server` of the wrong type is a TypeError, such as `page_size="5"` or an unknown `cache_scope`.
- `Client(eras=...)` remembers the era of a command for its folder and environment only. Earlier entries are not used.
- A transport of your own that does not derive from `Transport` needs the attribute `in_flight` (None is enough).
- Texts of servers wait while the command line waits for the user's reply, and their rows have a mark.
- The package is under the MIT license.

0.1.0
- First version: client and server, six revisions, stdio, Streamable HTTP, HTTP+SSE.
"""

__version__ = "0.2.0"
