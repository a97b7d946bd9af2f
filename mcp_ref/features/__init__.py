"""The features of a server and of a client: one module for each page of the specification, and some that they share.

A server offers tools, which the model calls, resources, which the application reads, and prompts, which the user picks.
A client offers its user (elicitation), its model (sampling) and its folders (roots) to the server. Each module has the
messages of one feature and the duties of both sides. A server that has only tools never loads the module for prompts,
because most of these modules are imported when they are first needed.

Features: `tools.py` and `registered_tools.py` (the server's side of tools), `resources.py` and `resource_access.py`
(the scopes that a URI needs), `prompts.py`, `completion.py` (suggests values while the user types an argument),
`logging.py` (log messages for the client), `roots.py`, `elicitation.py`, `sampling.py`, `discover.py` (describes a
server to a client without a handshake), `custom_methods.py` (messages that the specification does not define).

Shared by them: `invoke.py` (calls the author's functions), `typed_json.py` (converts JSON to objects of a Python type),
`registry.py` (stores a server's tools, resources or prompts), `pagination.py` (splits long lists into pages),
`caching.py` (lets clients reuse results), `task_augmentation.py` (lets a request run as a task).
"""
