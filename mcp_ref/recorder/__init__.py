"""The recorder stands between a client and a server, passes every byte on as it is, and writes down what it saw.

    host  --bytes-->  recorder  --bytes-->  server
                         |
                         +-- a queue of limited size --> a thread --> FILE, one event a line

Neither side notices it. The recorder turns copies of the bytes into events, and hides the secrets in them, in a thread
of its own. If the disk is too slow, it drops the copies, because the conversation must never wait for its recording.
`replay` is the way back: it plays the recorded server for a client, or the recorded client for a server. Servers and
clients that are not recorded do not load this code.

- `streams.py`: the events in a stream of bytes: messages and standard error
- `http_stream.py`: the events in the bytes of one connection over HTTP
- `tape.py`: the file of a recording, and the thread that writes it
- `pipes.py`: the recorder in front of a server that is a child process (stdio)
- `proxy.py`: the recorder in front of a server with a URL (HTTP)
- `installation.py`: the recorder in a host's configuration file
- `exchanges.py`: the requests of a recording, with the messages that belong to each
- `replay.py`: a recorded server plays its part again
- `regression.py`: a recorded client sends its requests again
- `wrong_headers.py`: the requests of a drive whose HTTP headers a server must refuse
- `drive.py`: use a server gently in each of its revisions, and record this for the judge
- `as_test.py`: a recording as a pytest module
"""
