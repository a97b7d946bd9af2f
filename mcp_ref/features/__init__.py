"""The features of the specification's sections "Server Features" and "Client Features": one module for each feature.

lazy.py                Imports each of these modules when it is first used.
invoke.py              Calls the Python function behind a tool, resource, prompt or completer.
registry.py            Stores a server's tools, resources or prompts.
pagination.py          Splits long lists into pages.
caching.py             Stores results on the client, for as long as the server allows.
task_augmentation.py   Defines the field `task` of a request that should run as a task.
discover.py            Describes a server to a client that has not made a handshake.
tools.py               Lets the client's model call functions of the server.
resources.py           Lets the client application read data of the server.
prompts.py             Lets the user pick message templates of the server.
completion.py          Suggests values while the user types an argument.
logging.py             Sends log messages to the client (deprecated since 2026-07-28).
roots.py               Names the directories that a server should work in (deprecated since 2026-07-28).
elicitation.py         Asks the client's user for information.
sampling.py            Asks the client's model for a message (deprecated since 2026-07-28).
"""
