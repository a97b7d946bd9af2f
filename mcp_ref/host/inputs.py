"""The requests of one server to the host: sampling, elicitation and roots.

A server sees neither the conversation nor the other servers. So the host serves each request for itself: it checks the
budget, asks for the user's consent, and calls the function of the program with the name of the server.

    sampling      budget -> approval of the request -> the program's model -> approval of the message -> the server
    elicitation   budget -> approval, with the true server and the host of a URL -> the program's form -> the server
    roots         approval of the directories before the server starts

Spec:  client/sampling#user-interaction-model, client/elicitation#safe-url-handling, client/roots
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

from ..features.elicitation import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from ..features.sampling import USER_REJECTED, CreateMessageRequestParams, CreateMessageResult
from ..jsonrpc.errors import ProtocolError
from .policy import Account, Approval, BudgetExceeded, Policy, Refused, hidden_text_warnings, url_warnings

ElicitRequest: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams

HostSampling: TypeAlias = Callable[[str, CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""A function that returns a message of the program's model, for a server name and a request."""

HostElicitation: TypeAlias = Callable[[str, ElicitRequest], Awaitable[ElicitResult]]
"""A function that shows a form or a URL to the user, with the server name, and returns the user's decision."""

T = TypeVar("T")


def option_of(option: T | Mapping[str, T] | None, server: str) -> T | None:
    """Return the value for a server, of an option that has one value for all servers or a mapping by server name."""
    return option.get(server) if isinstance(option, Mapping) else option


@dataclass
class ServerInputs:
    """The handlers for the requests of one server."""

    server: str
    file: str | None
    policy: Policy
    account: Account
    current_call: Callable[[], str]
    """Function that returns the full name of the only call in flight, else an empty text."""
    digest: str = ""
    sampling: HostSampling | None = None
    elicitation: HostElicitation | None = None

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Return a message of the model, after two approvals."""
        assert self.sampling is not None
        try:
            # [2026-07-28 client/sampling#sampling-parameters] MUST respect maxTokens: the budget only lowers it
            tokens = self.account.sample(params.max_tokens)
            # the context of other servers is never given to a server
            context = None if params.include_context is None else "none"
            asked = replace(params, max_tokens=tokens, include_context=cast("None", context))
            warnings = hidden_text_warnings(str(params.system_prompt or ""))
            allowed = await self.policy.check(self._approval("sample", asked, warnings), f"{self.digest} sample", "run")
            if isinstance(allowed, CreateMessageRequestParams):
                asked = replace(allowed, max_tokens=min(allowed.max_tokens, tokens), include_context=None)
            result = await self.sampling(self.server, asked)
            edited = await self.policy.check(self._approval("sampled", result), f"{self.digest} sampled", "run")
            return edited if isinstance(edited, CreateMessageResult) else result
        except BudgetExceeded as error:
            self.policy.record("budget", self.server, reason=str(error))
            raise ProtocolError(USER_REJECTED, "the client refuses further sampling requests") from error
        except Refused as error:  # the server never gets the reason
            raise ProtocolError(USER_REJECTED, "User rejected sampling request") from error

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Return the user's decision, after an approval."""
        assert self.elicitation is not None
        url = request.url if isinstance(request, ElicitRequestURLParams) else None
        warnings = (
            *(url_warnings(url) if url is not None else ()),
            *hidden_text_warnings([request.message, url or ""]),
        )
        approval = replace(self._approval("elicit", request, warnings), url=url)
        try:
            self.account.elicitation()
            await self.policy.check(approval, None, "once")
        except BudgetExceeded as error:
            self.policy.record("budget", self.server, reason=str(error))
            return ElicitResult("cancel")
        except Refused:
            return ElicitResult("decline")
        return await self.elicitation(self.server, request)

    async def approved_roots(self, roots: Iterable[str | os.PathLike[str]]) -> list[str] | None:
        """Return the existing directories among the roots, or None if none exists, or the user refuses."""
        # [2025-11-25 client/roots#security-considerations] only permitted, existing directories; no path traversal
        paths = [os.path.realpath(os.fspath(root).removeprefix("file://")) for root in roots]
        existing = [path for path in paths if os.path.isdir(path)]
        if not existing:
            return None
        approval = Approval("roots", self.server, "server", file=self.file, content=existing)
        try:
            await self.policy.check(approval, f"{self.digest} roots {existing}", "always")
        except Refused:
            return None
        return existing

    def _approval(self, kind: str, content: object, warnings: tuple[str, ...] = ()) -> Approval:
        call = self.current_call()
        return Approval(kind, self.server, "server", call, self.file, content=content, warnings=warnings)  # type: ignore[arg-type]
