"""The features of a server and of a client: one module for each page of the specification, and some that they share.

A server offers tools, which the model calls, resources, which the application reads, and prompts, which the user picks.
A client offers its user (elicitation), its model (sampling) and its folders (roots) to the server. Each module has the
messages of one feature and the duties of both sides. Most of them are imported only when they are first needed.

invoke.py              Calls the Python function behind a tool, resource, prompt or completer.
typed_json.py          Converts JSON to objects of a Python type.
registry.py            Stores a server's tools, resources, resource templates or prompts.
pagination.py          Splits long lists into pages.
caching.py             Tells clients how long they can reuse a result, and stores results on the client.
task_augmentation.py   Defines the field `task` of a request that should run as a task.
discover.py            Describes a server to a client that has not made a handshake.
tools.py               Lets the client's model call functions of the server.
registered_tools.py    Serves the tools of a server.
expansions.py          Finds the URIs that a template's function cannot tell apart, so they need the same scopes.
resource_access.py     Finds the scopes that a caller needs to read a URI, or to hear of its changes.
resources.py           Lets the client application read data of the server.
prompts.py             Lets the user pick message templates of the server.
completion.py          Suggests values while the user types an argument.
custom_methods.py      Serves and sends messages that the specification does not define.
logging.py             Sends log messages to the client (deprecated since 2026-07-28).
roots.py               Names the directories that a server should work in (deprecated since 2026-07-28).
elicitation.py         Asks the client's user for information.
sampling.py            Asks the client's model for a message (deprecated since 2026-07-28).
"""
