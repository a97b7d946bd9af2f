"""The judge of any conversation: between any client and any server, in any revision, over any transport.

Everything here is pure: it gets the events of a conversation, and returns what it makes of them. It opens no file and
no connection, and reads no clock: the recorder and the command line do that. A plain server or client loads nothing of
this room.

- `recording.py`: the format of a recorded conversation, one JSON object a line
- `masking.py`: the same events without their secrets
- `state.py`: the declarations and the open requests of a conversation
- `rules.py`: rules, faults and findings
- `messages.py`, `lifecycle.py`, `versioning.py`, `meta.py`, `shapes.py`: the rules, page by page
- `findings.py`: the rules applied, and each cause reported once
- `memory.py`, `reader.py`, `exchanges.py`, `conversation.py`: from events to findings
"""
