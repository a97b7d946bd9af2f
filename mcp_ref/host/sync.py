"""A host for programs without asyncio, such as scripts and notebooks.

    with SyncHost(Host("mcp.json", approve=approve)) as host:
        print(host.call_tool("weather.forecast", {"city": "Ghent"}).text)

A `SyncHost` runs a `Host` on an event loop in a second thread, where also `approve` and the other callbacks run.
"""

from __future__ import annotations

from ..client.sync import Synchronous, blocking
from .host import Host
from .supervisor import ServerStatus


class SyncHost(Synchronous[Host]):
    """A host whose methods block until the result is there. Use it as a context manager.

    The methods have the same arguments as the methods of `Host`. `begin_turn`, `instructions` and `client` are methods
    of the attribute `host`.

    Args:
        host: A `Host` that is not open yet.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host, host.__aenter__, host.close)
        self.host = host

    reload = blocking(Host.reload)
    restart = blocking(Host.restart)
    list_tools = blocking(Host.list_tools)
    list_prompts = blocking(Host.list_prompts)
    list_resources = blocking(Host.list_resources)
    list_resource_templates = blocking(Host.list_resource_templates)
    call_tool = blocking(Host.call_tool)
    read_resource = blocking(Host.read_resource)
    get_prompt = blocking(Host.get_prompt)
    complete = blocking(Host.complete)

    def status(self) -> list[ServerStatus]:
        """Return the state of each server, as plain data without secrets."""
        return self.host.status()
