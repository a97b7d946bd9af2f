"""The recorder over stdio: a host and a server behave as without it, with any bytes and any end."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import IO

import pytest

from mcp_ref.check.recording import End, ErrorOutput, Frame, Gap
from tests.recorder.recordings import (
    ECHO,
    events_of,
    frames,
    hostile,
    quick_start,
    record_command,
    start,
    wait_until,
    writers,
)
from tests.settings import HOME

INPUTS = int(os.environ.get("MCP_REF_HOSTILE_INPUTS", "300"))
"""Number of hostile inputs. By hand, 10,000: MCP_REF_HOSTILE_INPUTS=10000."""

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", source)


def exchange(process: subprocess.Popen[bytes], pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Send the pieces, one write each, and close the input. Return the output and the standard error."""
    stdin, process.stdin = process.stdin, None  # the thread closes it
    assert stdin is not None

    def send() -> None:
        for piece in pieces:
            _write_all(stdin, piece)
        stdin.close()

    sender = threading.Thread(target=send, name="sender")
    sender.start()
    try:
        return process.communicate(timeout=60)
    finally:
        sender.join(10)


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[pipe.write(data) :]  # a pipe without a buffer can take a part only


def test_record_passes_hostile_bytes_in_both_directions_and_can_rebuild_them(tmp_path: Path) -> None:
    per_run = 150
    for run in range(-(-INPUTS // per_run)):
        path = tmp_path / f"{run}.jsonl"
        pieces = [hostile(221_125 + run * per_run + number) for number in range(per_run)]
        output, errors = exchange(quick_start(path, *ECHO, options=["--with-secrets"]), pieces)
        sent = b"".join(pieces)
        assert (hashlib.sha256(output).digest(), errors) == (hashlib.sha256(sent).digest(), b"")
        events = events_of(path)
        assert frames(events, "client") == sent and frames(events, "server") == sent


def test_record_passes_half_a_line_before_the_rest_exists(tmp_path: Path) -> None:
    with quick_start(tmp_path / "a.jsonl", *ECHO) as process:
        assert process.stdin is not None and process.stdout is not None
        for piece in (b'{"jso', b"\xff", b"n"):
            process.stdin.write(piece)
            assert process.stdout.read(len(piece)) == piece
        process.stdin.close()
        assert process.stdout.read() == b""
    events = events_of(tmp_path / "a.jsonl")
    assert [event.partial for event in events if isinstance(event, Frame)] == [True, True]
    assert {event.side for event in events if isinstance(event, End)} == {"client", "server"}


def test_record_passes_exit_code_standard_error_and_closed_input(tmp_path: Path) -> None:
    source = "import sys; n = len(sys.stdin.buffer.read()); sys.stderr.write('warning\\nand more'); sys.exit(n)"
    process = quick_start(tmp_path / "a.jsonl", *python(source))
    output, errors = exchange(process, [b"seven.."])
    assert (process.returncode, output, errors) == (7, b"", b"warning\nand more")
    events = events_of(tmp_path / "a.jsonl")
    assert [event.content.data for event in events if isinstance(event, ErrorOutput)] == [b"warning\n", b"and more"]


def test_record_of_a_server_without_standard_streams_starts_it(tmp_path: Path) -> None:
    words = " ".join(map(shlex.quote, record_command(tmp_path / "a.jsonl", "touch", str(tmp_path / "started"))))
    subprocess.run(["sh", "-c", f"exec {words} <&- >&- 2>&-"], cwd=HOME, timeout=30, check=True)
    assert (tmp_path / "started").exists()
    events_of(tmp_path / "a.jsonl")


def test_record_keeps_no_descriptor_of_the_host_open(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    words = record_command(
        tmp_path / "a.jsonl", *python("import os, sys; os.write(int(sys.argv[1]), b'x')"), str(writer)
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=[writer], cwd=HOME) as process:
        os.close(writer)
        assert os.read(reader, 9) == b"x" and process.wait(20) == 0  # the server has the descriptor
        assert os.read(reader, 9) == b""  # and nobody else
    os.close(reader)


def test_record_passes_sockets_as_standard_streams(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()  # as Node starts its children
    with (
        ours,
        subprocess.Popen(
            record_command(tmp_path / "a.jsonl", *ECHO), stdin=theirs.fileno(), stdout=theirs.fileno(), cwd=HOME
        ) as child,
    ):
        theirs.close()
        ours.settimeout(20)
        ours.sendall(PING)
        assert ours.recv(999) == PING
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(9) == b"" and child.wait(20) == 0


def test_record_loses_nothing_at_a_non_blocking_output(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    words = record_command(tmp_path / "a.jsonl", *python("import sys; sys.stdout.write('x' * 1_000_000)"))
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=writer, cwd=HOME):
        os.close(writer)
        wait_until(lambda: _is_full(reader))
        with open(reader, "rb") as output:
            assert len(output.read()) == 1_000_000


def _is_full(reader: int) -> bool:
    size = fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(size, sys.byteorder) >= 60_000


def test_record_leaves_signals_process_id_and_their_exit_code_to_the_server(tmp_path: Path) -> None:
    source = ("import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('ended'), sys.exit(3)))\n"
              "print(os.getpid(), signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)\nsys.stdin.read()")  # fmt: skip
    with start(tmp_path / "a.jsonl", *python(source)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} True\n".encode()  # Python itself ignores SIGPIPE
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"ended\n"
        assert process.wait(10) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_record_ends_with_a_killed_server(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "a.jsonl"
    with start(path, *ECHO) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(PING)
        assert process.stdout.readline() == PING
        os.kill(process.pid, number)
        assert process.stdout.read() == b"" and process.wait(10) == -number
        wait_until(lambda: not writers(path))
        with pytest.raises(BrokenPipeError):  # as a pipe whose reader is dead
            process.stdin.write(PING)
    assert frames(events_of(path), "client") == PING


def test_record_that_is_killed_ends_the_conversation_for_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with start(path, *ECHO) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(PING)
        assert process.stdout.readline() == PING
        (pump,) = writers(path)
        wait_until(path.read_bytes)  # it writes a moment later than it forwards
        os.kill(pump, signal.SIGKILL)
        assert process.stdout.read() == b"" and process.wait(10) == 0  # the end of its input ends the server
    assert path.read_bytes().startswith(b'{"mcp_recording"')


def test_record_ends_with_a_host_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    source = (f"import subprocess, sys, time\nfrom tests.recorder.recordings import start\n"
              f"p = start({str(path)!r}, 'cat')\np.stdin.write(b'x\\n')\n"
              f"print(p.stdout.readline(), p.pid, flush=True)\ntime.sleep(60)")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        server = int(host.stdout.readline().split()[-1])
        host.kill()
    wait_until(lambda: not writers(path))
    wait_until(lambda: not Path(f"/proc/{server}/fd").exists() or not _is_running(server))
    assert frames(events_of(path), "server") == b"x\n"


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_record_closes_the_output_of_a_server_that_nobody_reads(tmp_path: Path) -> None:
    source = "import sys, time\nsys.stdin.readline()\nwhile True: print('more'); time.sleep(0.005)"
    with start(tmp_path / "a.jsonl", *python(source)) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"\n")
        assert b"BrokenPipeError" in process.stderr.read()
        process.stdin.close()


@pytest.mark.attack("recording-stops-conversation")
def test_record_to_a_full_disk_goes_on_and_says_so_at_the_end() -> None:
    pieces = [hostile(seed) for seed in range(50)]
    output, errors = exchange(quick_start("/dev/full", *ECHO), pieces)
    assert output == b"".join(pieces)
    assert b"events are missing in the recording (" in errors


@pytest.mark.attack("recording-stops-conversation")
@pytest.mark.parametrize("is_read", [False, True])
def test_record_to_a_pipe_whose_reader_is_missing_or_sleeps_goes_on(tmp_path: Path, is_read: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if is_read else None
    pieces = [random.Random(seed).randbytes(10_000) for seed in range(20)]  # more than a pipe holds
    output, errors = exchange(quick_start(path, *ECHO), pieces)
    assert output == b"".join(pieces)
    assert (b"missing in the recording" if is_read else b"runs without a recording") in errors
    if reader is not None:
        os.close(reader)


def test_record_to_a_folder_that_does_not_exist_runs_the_server_without_a_recording(tmp_path: Path) -> None:
    process = quick_start(tmp_path / "none" / "a.jsonl", *ECHO)
    output, errors = exchange(process, [PING])
    assert output == PING and b"runs without a recording" in errors and process.returncode == 0


def test_record_of_a_program_that_does_not_exist_says_so(tmp_path: Path) -> None:
    process = quick_start(tmp_path / "a.jsonl", "no-such-program")
    _, errors = exchange(process, [])
    assert process.returncode == 127 and b"no-such-program" in errors
    assert not (tmp_path / "a.jsonl").exists()


def test_record_stops_at_its_maximum_size_and_counts_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = b'"' + b"x" * 200_000 + b'"\n'
    output, _ = exchange(quick_start(path, *ECHO, options=["--max-mb", "1"]), [line] * 20)
    assert output == line * 20
    events = events_of(path)
    gaps = [event for event in events if isinstance(event, Gap)]
    assert gaps and all("maximum size of 1 MB" in gap.because for gap in gaps)
    assert sum(gap.events for gap in gaps) + len(events) - len(gaps) == 42  # the frames, and two ends
    assert path.stat().st_size < 2_000_000


def test_record_passes_100_mb_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    source = (
        "import sys\nfor _ in range(100): sys.stdout.write('x' * 1_000_000)\nsys.stdout.write('\\n')\nsys.stdin.read()"
    )
    with start(path, *python(source)) as process:
        assert process.stdin is not None and process.stdout is not None
        left = 100_000_001
        while left:
            piece = process.stdout.read(1_000_000)
            assert piece
            left -= len(piece)
        (pump,) = writers(path)
        status = Path(f"/proc/{pump}/status").read_text()
        process.stdin.close()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 120_000, f"{peak} kB"
    sizes = [e.content.size if isinstance(e, Frame) else e.size for e in events_of(path) if isinstance(e, Frame | Gap)]
    assert sum(sizes) == pytest.approx(100_000_000, abs=2)


@pytest.mark.attack("recording-secrets")
def test_record_writes_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"params": {"arguments": {"password": "hunter2-a"}}}\n', b"token: hunter2-b\n", b'{"api_key": "hunter2-c',
    ]  # fmt: skip
    source = "import sys; sys.stdin.read(); print('the password is hunter2-d', file=sys.stderr)"
    exchange(quick_start(path, *python(source), "--token=hunter2-e", "--api-key", "hunter2-f"), lines)
    assert len(events_of(path)) == 6
    assert b"hunter2" not in path.read_bytes()


@pytest.mark.attack("recording-read-by-others")
def test_record_keeps_an_existing_file_and_writes_a_new_one_for_its_owner_only(tmp_path: Path) -> None:
    path, target = tmp_path / "a.jsonl", tmp_path / "target"
    path.write_text("mine")
    (tmp_path / "a-2.jsonl").symlink_to(target)
    exchange(quick_start(path, *ECHO), [PING])
    events_of(tmp_path / "a-3.jsonl")
    assert path.read_text() == "mine" and not target.exists()
    assert (tmp_path / "a-3.jsonl").stat().st_mode & 0o777 == 0o600
