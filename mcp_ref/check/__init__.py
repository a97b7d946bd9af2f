"""The judge of any conversation: between any client and any server, in any revision, over any transport.

It gets the events of a conversation, one by one, and returns findings. The recorder and the command line read and write
the recordings; this package opens no connection, reads no clock, and reads only one file, its own `sentences.txt`. A
program that only serves or calls MCP loads nothing of it.

- `recording.py`: the format of a recorded conversation, one JSON object a line
- `masking.py`: takes the secrets out of events
- `state.py`: the declarations and the open requests of a conversation
- `rules.py`: rules, faults and findings
- `sentences.txt`: for each rule, how to mend a fault, and the sentences of the specification that it checks; and the
  sentences that no observer can check
- `findings.py`: applies the rules, and reports each cause once
- `memory.py`, `reader.py`, `exchanges.py`, `conversation.py`: the way from events to findings
- `report.py`: findings as text, JSON, JUnit and SARIF

The rules, page by page:

- `messages.py`, `meta.py`, `shapes.py`: JSON-RPC, `_meta`, and the schema
- `lifecycle.py`, `versioning.py`: the handshake of the legacy era, and the stateless requests of the modern era
- `stdio.py`, `streamable_http.py`, `authorization.py`: the transports
- `progress.py`, `cancellation.py`, `subscriptions.py`, `mrtr.py`, `tasks.py`: requests and their notifications
- `tools.py`, `content.py`, `pagination.py`, `caching.py`, `logging.py`: the features of a server
- `sampling.py`, `elicitation.py`, `roots.py`: the features of a client
"""
