"""The specification's "Server Features" and "Client Features": one module a page, with the duties of both roles.

invoke.py              how a page calls the author's function
pagination.py          lists in pages; registry.py: the items of a server, listed in pages
caching.py             freshness of results
task_augmentation.py   the fields of a request that asks for a task
discover.py            a server's offer, without a handshake
tools.py               functions for the model (controlled by the model)
resources.py           data for reading (controlled by the application)
prompts.py             templates of messages (controlled by the user)
completion.py          suggestions for arguments
logging.py             log messages for the client (deprecated since 2026-07-28)
roots.py               the directories that a client opens (deprecated since 2026-07-28)
elicitation.py         requests to the client's user for information
sampling.py            requests to the client's model (deprecated since 2026-07-28)
"""
