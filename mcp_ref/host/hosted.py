"""One server of a host: the user's consent, the client, the calls, and the requests of the server.

    prepare      replace the configuration's variables; request the approvals `start` and `roots`; create a `Client`
    approved     the tools that the configuration and the user allow (definitions.py)
    call_tool    budget -> approval, with the exact arguments -> the client -> audit line
    sample       budget -> approval of the request -> the program's model -> approval of the message -> the server
    elicit       budget -> approval, with the server's name and the host of a URL -> the program's form -> the server

Spec:  2026-07-28 server/tools#security-considerations, client/roots, client/sampling#user-interaction-model,
       client/elicitation#safe-url-handling, server/utilities/logging, basic/patterns/progress
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from ..client.client import Client
from ..client.options import ClientOptions
from ..features.elicitation import ElicitRequestURLParams, ElicitResult
from ..features.roots import path_of
from ..features.sampling import USER_REJECTED, CreateMessageRequestParams, CreateMessageResult
from ..features.tools import CallToolResult, Tool
from ..jsonrpc.errors import ConnectionClosed, ProtocolError, RemoteError, RequestTimeout
from ..jsonrpc.messages import JSON
from ..lib.jsonschema import compile_schema
from ..lib.uri import canonical_uri
from ..transports.system import chosen_trace
from .approval import Approval, Kind, Origin, Refused, quoted
from .configuration import ServerConfig
from .dangers import command_warnings, is_own_file, value_warnings
from .definitions import Definitions
from .launch import Launch, launch_of
from .names import UnknownName, full_name
from .policy import Account, BudgetExceeded, ElicitRequest, Policy, definition_hash, digest_of
from .results import cut_error, cut_result
from .supervisor import MAX_PAGES, ServerState, Supervisor
from .throttle import Throttle

if TYPE_CHECKING:
    from typing import Unpack

    from ..client.tools import CallOptions
    from ..features.logging import LoggingMessageNotificationParams

T = TypeVar("T")
C = TypeVar("C", bound=Client)

MAX_ITEMS = 10_000
"""Maximum number of items of one list of a server."""

MAX_LOG_RATE = 100
"""Maximum number of log messages of one server in one second. Further ones are counted and dropped."""


class HostedServer(Supervisor):
    """One server of a host."""

    def __init__(
        self, config: ServerConfig, policy: Policy, host_account: Account, start_limit: asyncio.Semaphore
    ) -> None:  # fmt: skip
        name, options = config.name, policy.options
        super().__init__(config, start_limit, options.lazy, options.on_event)
        self._policy, self._options, self._account = policy, options, Account(policy, name, host_account)
        self._digest = ""  # of the configuration for which the user's decisions are valid
        self._sampling, self._elicitation = _option_for(options.sampling, name), _option_for(options.elicitation, name)
        self._definitions = Definitions(name, policy, partial(self.approval, "definition"), self.list_changed)
        self._log_second, self._logs_in_second = 0, 0

    async def close(self, patience: float = 0.0) -> None:
        """End the server, after giving the calls in flight `patience` seconds."""
        self.is_closed = True
        deadline = time.monotonic() + patience
        while self.calls and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        await self._definitions.close()
        await self.stop()
        self._change(ServerState.STOPPED)

    def approval(
        self, kind: Kind, name: str = "", origin: Origin = "server", arguments: Mapping[str, object] | None = None
    ) -> Approval:
        """Return a request for consent. The caller adds the details of its kind."""
        # If one call is in flight, a request of the server most likely belongs to this call.
        only_call = self.calls[0] if len(self.calls) == 1 else ""
        return Approval(
            kind, self.config.name, origin, name or only_call, self.config.file, arguments=arguments,
            trusted=self.config.name in self._options.trusted, after=frozenset(self._policy.seen_servers),
        )  # fmt: skip

    async def prepare(self) -> Client:
        """Replace the configuration's variables, ask for the user's consent, and return the server's client."""
        launch, options = await self.approved_launch(), self._options
        roots = await self._approved_roots() if options.approve is not None else None
        return self.new_client(
            launch, Client, roots=roots, sampling=self._sample if self._sampling else None,
            sampling_tools=options.sampling_tools, elicitation=self._elicit if self._elicitation else None,
            elicitation_url=options.elicitation_url and self._elicitation is not None,
            on_log=self._log if options.on_log else None, on_tools_changed=self.list_changed, info=options.info,
        )  # fmt: skip

    async def approved_launch(self) -> Launch:
        """Replace the configuration's variables, and ask for consent to the start. Raise Refused without it."""
        options, config = self._options, self.config
        environment = dict(os.environ if options.environment is None else options.environment)
        launch = launch_of(config, environment, dict.fromkeys(config.inputs, ""))  # the user has typed nothing yet
        self._digest = launch.digest  # does not depend on typed values
        if config.file is not None:  # otherwise the program itself has configured the server
            await self._ask_start(launch, config.file)
            input_values = await self._policy.typed_values(config)
            # The user may take minutes, in which files can change, so use the `envFile` that was approved.
            launch = launch_of(config, environment, input_values, launch.env_file)
            if launch.digest != self._digest:
                raise Refused(f"the start of {config.name} has changed while it waited for consent; start it again")
        launch.check(config)
        self.mask = launch.mask
        if self.status.restarts > 0:
            with contextlib.suppress(Refused):  # the user has already allowed the start
                self._policy.record("restart", config.name, reason=self.status.last_error)
        return launch

    async def _ask_start(self, launch: Launch, file: str) -> None:
        """Ask for consent to a start, and to each dangerous variable from a file that is not the user's own."""
        folder, warnings = self.config.folder, [danger.text for danger in launch.dangers]
        warnings += value_warnings(launch.settings)
        warnings += command_warnings(launch.shown_command, os.path.dirname(file), launch.program)
        start = replace(
            self.approval("start", origin="program"), program=launch.program, argv=launch.shown_command,
            paths=launch.paths, cwd=launch.cwd, settings=launch.settings, url=launch.shown_url,
            warnings=tuple(warnings),
        )  # fmt: skip
        await self._policy.check(start, f"{self._digest} start", allowed_by_default=is_own_file(file, folder))
        for danger in launch.dangers:
            if danger.file is not None and not is_own_file(danger.file, folder):
                variable = self.approval("variable", danger.name, "program")
                variable = replace(variable, file=danger.file, warnings=(danger.text,))
                await self._policy.check(variable, f"{self._digest} variable {danger.name}")

    async def _approved_roots(self) -> list[str] | None:
        """Return the existing directories that the server gets, or None if it gets none."""
        configured = self._options.roots.get(self.config.name, self.config.entry.get("roots", []))
        # [2025-11-25 client/roots#security-considerations] only existing directories, and no path traversal
        paths = [os.path.realpath(path_of(path)) for path in configured]
        existing = [path for path in paths if os.path.isdir(path)]
        try:
            if existing:
                request = replace(self.approval("roots"), content=existing)
                await self._policy.check(request, f"{self._digest} roots {existing}")
        except Refused:
            return None
        return existing or None

    def new_client(self, launch: Launch, client_class: Callable[..., C], **client_options: Unpack[ClientOptions]) -> C:
        """Return the client for an approved launch. `client_options` are those that the launch does not set."""
        options, name, in_process = self._options, self.config.name, self.config.server
        throttle = None if in_process else Throttle(chosen_trace(options.trace, "client"))
        authorizer = None
        if options.authorization and launch.url and "authorization" not in map(str.lower, launch.headers):
            authorizer = options.authorization(launch.url)
        on_stderr = None if options.on_stderr is None else partial(options.on_stderr, name)
        client = client_class(
            in_process or launch.target, timeout=self.config.call_seconds(options.timeout), env=launch.env or None,
            cwd=launch.cwd, on_stderr=on_stderr,
            headers=launch.headers or None, authorization=authorizer, trace=throttle or options.trace,
            **client_options,
        )  # fmt: skip
        client.connector.max_restarts = 0  # the supervisor restarts the server
        client.max_pages, client.max_items = MAX_PAGES, MAX_ITEMS
        if throttle is not None:
            throttle.client = client  # the client whose transport stops reading
        return client

    @contextlib.contextmanager
    def masking(self) -> Iterator[None]:
        """Replace the secrets in the text of a ConnectionClosed, which quotes the server's standard error."""
        try:
            yield
        except ConnectionClosed as error:
            masked = type(error)(self.mask(str(error)))
            masked.is_unsent, masked.http_status = error.is_unsent, error.http_status
            raise masked from None

    def approved(self, tools: list[Tool]) -> list[Tool]:
        allowed = [tool for tool in tools if self.config.allows_tool(tool.name)]
        approved = self._definitions.approved(allowed, self._digest)
        self.status.unapproved_tools = self._definitions.unapproved
        return approved

    async def call_tool(
        self, name: str, arguments: Mapping[str, object] | None, origin: Origin, wait: float, options: CallOptions
    ) -> CallToolResult:
        """Call a tool if the policy allows it, with the arguments and exceptions of `Host.call_tool`."""
        await self.ready_client(wait)
        tool, digest, full = self.tools.get(name), self._digest, full_name(self.config.name, name)
        if tool is None:
            raise UnknownName("tool", full, (full_name(self.config.name, known) for known in self.tools))
        self._account.count_call(is_only_call=not self.calls)  # the limits per call begin again with an only call
        # Without `approve`, a call of the program is allowed, so there is nothing to check unless it is logged.
        if self._options.approve is not None or self._options.audit is not None or origin == "model":
            arguments = await self._approved_arguments(tool, arguments, origin)
        client = self.check_ready()
        if self._digest != digest or self.tools.get(name) != tool:
            raise Refused(f"{quoted(full)} has changed while it waited for consent; call it again")
        return await self._cut_for_model(self._call(client, name, arguments, options), origin, cut_result)

    def admit_relayed(self, name: str, arguments: object) -> None:
        """Count a tool call that a bridge passes on, and write it to the audit log. Raise Refused if either fails.

        The bridge asks nobody, because the user of its client has already decided about the call.
        """
        self._account.count_call(is_only_call=not self.calls)
        if self._options.audit is not None:
            shown = {"arguments": arguments} if self._options.audit_arguments else {}
            self._policy.record(
                "call", self.config.name, full_name(self.config.name, name), decision="allow", source="bridge",
                configuration=self._digest, arguments_sha256=digest_of(arguments), **shown)  # fmt: skip

    async def _cut_for_model(self, request: Awaitable[T], origin: Origin, cut: Callable[[T, int], T]) -> T:
        """Return the result of a request. For a model, cut the result, or the error, to `result_characters`."""
        limit = self._account.budget.result_characters
        try:
            result = await request
        except RemoteError as error:
            if origin == "model":
                raise cut_error(error, limit) from None
            raise
        finally:
            self._policy.seen_servers.add(self.config.name)  # also after an error, whose text the model sees
        return cut(result, limit) if origin == "model" else result

    async def _approved_arguments(
        self, tool: Tool, arguments: Mapping[str, object] | None, origin: Origin
    ) -> Mapping[str, object] | None:
        """Return the arguments to send, which the user may have edited."""
        request = replace(self.approval("call", full_name(self.config.name, tool.name), origin, arguments), tool=tool)
        key = f"{self._digest} call {tool.name} {definition_hash(tool)}"
        edited = await self._policy.check(request, key, allowed_by_default=origin == "program")
        if edited is None:
            return arguments
        faults = "; ".join(str(error) for error in compile_schema(tool.input_schema).errors(cast("JSON", edited)))
        if faults or not isinstance(edited, Mapping):
            raise Refused(f"the edited arguments of {quoted(request.name)} are invalid: {faults or 'not a mapping'}")
        return edited

    async def _call(
        self, client: Client, name: str, arguments: Mapping[str, object] | None, options: CallOptions
    ) -> CallToolResult:
        """Send an allowed call, within the budget of seconds, and write its outcome to the audit log."""
        full, start = full_name(self.config.name, name), time.monotonic()
        self.calls.append(full)
        result, outcome = None, "failed"
        reserved = 0.0  # the seconds that are taken from the budget in advance
        try:
            self._account.use("seconds", 0)  # raises if another call has reserved the rest in the meantime
            reserved = self._reserve_seconds(client, options)
            with self.masking():
                result = await client.call_tool(name, arguments, **options)
            outcome = "error" if result.is_error else "result"
        except (ConnectionClosed, RequestTimeout) as error:
            outcome = "lost"
            if not (isinstance(error, ConnectionClosed) and error.is_unsent):
                error.args = (f"{error}; it is not known if the tool ran",)
            raise
        finally:
            self.calls.remove(full)
            self.call_ended(outcome == "lost")
            seconds = time.monotonic() - start
            self._account.add("seconds", seconds - reserved)  # now the budget has the true seconds
            if self._options.audit is not None:
                with contextlib.suppress(Refused):  # too late to refuse anything, because the tool has run
                    self._record_outcome(full, arguments, result, outcome, seconds)
        return result

    def _reserve_seconds(self, client: Client, options: CallOptions) -> float:
        """Return the seconds that a call may take, which no other call can use until it ends.

        The time limits in `options` are lowered to the rest of the budget. A `max_timeout` is the one that counts,
        because progress restarts the `timeout`.
        """
        left = self._account.left("seconds")
        if left == math.inf:
            return 0.0
        seconds = min(left, options.get("timeout") or client.timeout or left)
        options["timeout"] = seconds
        max_timeout = options.get("max_timeout")
        if max_timeout is not None:
            seconds = min(left, max_timeout)
            options["max_timeout"] = seconds
        self._account.add("seconds", seconds)
        return seconds

    def _record_outcome(
        self, name: str, arguments: object, result: CallToolResult | None, outcome: str, seconds: float
    ) -> None:
        text = "" if result is None else json.dumps(asdict(result), default=str)
        shown = {"arguments": arguments} if self._options.audit_arguments else {}
        self._policy.record(
            "result", self.config.name, name, configuration=self._digest, outcome=outcome, seconds=round(seconds, 4),
            arguments_sha256=digest_of(arguments), result_sha256=digest_of(text), result_characters=len(text), **shown,
        )  # fmt: skip

    async def fetch(
        self, kind: Kind, name: str, arguments: Mapping[str, object] | None, origin: Origin, wait: float,
        request: Callable[[Client, str, Mapping[str, object] | None], Awaitable[T]], cut: Callable[[T, int], T],
    ) -> T:  # fmt: skip
        """Fetch a resource or a prompt with `request`. For a model, ask for consent first, and `cut` the result.

        A decision about a URI holds for all its spellings, so the server gets the one that the user has seen. Another
        spelling could carry text from the model to the server, as in `weather://city/SECRET/../today`.
        """
        await self.ready_client(wait)
        if origin == "model":
            if kind == "read":
                name = canonical_uri(name) or name
                shown = name
            else:
                shown = full_name(self.config.name, name)
            approval = self.approval(kind, shown, origin, arguments)
            edited = await self._policy.check(approval, f"{self._digest} {kind} {name}")
            if edited is not None:
                if arguments is None or not isinstance(edited, Mapping):  # a resource has no arguments to edit
                    raise Refused(f"the edited params of {quoted(shown)} are invalid: {edited!r:.100}")
                arguments = edited
        with self.masking():
            return await self._cut_for_model(request(self.check_ready(), name, arguments), origin, cut)

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Return a message of the program's model after two approvals. The server is never told why one was refused."""
        assert self._sampling is not None
        approval = self.approval("sample")
        try:
            # [2026-07-28 client/sampling#sampling-parameters] the client MUST respect maxTokens, so we only lower it
            tokens = self._account.count_sample(params.max_tokens)
            # Include no context, because a server never gets the conversation or the data of other servers.
            context: Literal["none"] | None = None if params.include_context is None else "none"
            params = replace(params, max_tokens=tokens, include_context=context)
            edited = await self._policy.check(
                replace(approval, content=params), f"{self._digest} sample", remember_at_most="run"
            )
            if edited is not None:
                edited = _edited(edited, CreateMessageRequestParams)
                params = replace(edited, max_tokens=min(edited.max_tokens, tokens))
            result = await self._sampling(self.config.name, params)
            approval = replace(approval, kind="sampled", content=result)
            edited = await self._policy.check(approval, f"{self._digest} sampled", remember_at_most="run")
            return result if edited is None else _edited(edited, CreateMessageResult)
        except Refused as error:
            raise ProtocolError(USER_REJECTED, "User rejected sampling request") from error

    async def _elicit(self, request: ElicitRequest) -> ElicitResult:
        """Return the user's decision, after an approval with the true name of the server."""
        assert self._elicitation is not None
        url = request.url if isinstance(request, ElicitRequestURLParams) else None
        try:
            self._account.use("elicitations_per_call")
            await self._policy.check(replace(self.approval("elicit"), content=request, url=url))
        except Refused as error:
            return ElicitResult("cancel" if isinstance(error, BudgetExceeded) else "decline")
        return await self._elicitation(self.config.name, request)

    def _log(self, message: LoggingMessageNotificationParams) -> None:
        second = int(time.monotonic())
        if second != self._log_second:
            self._log_second, self._logs_in_second = second, 0
        self._logs_in_second += 1
        if self._logs_in_second > MAX_LOG_RATE:
            self.status.dropped["log messages"] = self.status.dropped.get("log messages", 0) + 1
        elif self._options.on_log is not None:
            self._options.on_log(self.config.name, message)


def _edited(params: object, expected: type[T]) -> T:
    """Return the edited params. Raise Refused for another type, because sending the original would ignore the user."""
    if not isinstance(params, expected):
        raise Refused(f"the edited params must be {expected.__name__}, not {type(params).__name__}")
    return params


def _option_for(option: T | Mapping[str, T] | None, server: str) -> T | None:
    """Return the value of an option for a server. The option is one value for all servers, or a mapping by name."""
    return option.get(server) if isinstance(option, Mapping) else option
