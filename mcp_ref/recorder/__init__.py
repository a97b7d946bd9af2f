"""The recorder stands between a client and a server, passes every byte on as it is, and writes down what it saw.

    host  --bytes-->  recorder  --bytes-->  server
                         |
                         +-- a queue of limited size --> a thread --> FILE, one event a line

Neither side notices it. The recorder splits, masks and formats copies of the bytes in a thread of its own, and drops
them if the disk is too slow, because the conversation must never wait for its recording. `replay` is the way back: it
plays the recorded server for a client, or the recorded client for a server. No other server or client loads this code.

- `streams.py`: the events in a stream of bytes: frames and standard error
- `http_stream.py`: the events in the bytes of one connection over HTTP
- `tape.py`: the file of a recording, and the thread that writes it
- `pipes.py`: the recorder in front of a server that is a child process (stdio)
- `proxy.py`: the recorder in front of a server with a URL (HTTP)
- `installation.py`: the recorder in a host's configuration file
- `exchanges.py`: the requests of a recording, with the messages that belong to each
- `replay.py`: a recorded server plays its part again
- `regression.py`: a recorded client sends its requests again
- `drive.py`: use a server gently in each of its revisions, and record this for the judge
- `as_test.py`: a recording as a pytest module
"""
