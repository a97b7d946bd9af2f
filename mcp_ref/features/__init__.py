"""The specification's "Server Features" and "Client Features", one module a page, for clients and servers.

invoke.py              the call of the author's function
pagination.py          long lists in pages
registry.py            a server's tools, resources or prompts
caching.py             the time for which a client may reuse a result
task_augmentation.py   the fields of a request that asks for a task
discover.py            a server's offer, without a handshake
tools.py               functions for the model (controlled by the model)
resources.py           data for reading (controlled by the application)
prompts.py             templates of messages (controlled by the user)
completion.py          suggestions for arguments
logging.py             log messages for the client (deprecated since 2026-07-28)
roots.py               the directories that a server should work in (deprecated since 2026-07-28)
elicitation.py         requests to the client's user for information
sampling.py            requests to the client's model (deprecated since 2026-07-28)
lazy.py                the pages, each imported when it is first used
"""
