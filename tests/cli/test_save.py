"""`call --save DIR` and `read --save DIR`: the names of the files, and their places."""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path

import pytest

from mcp_ref import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from mcp_ref.__main__ import main
from mcp_ref.cli import UsageError
from mcp_ref.cli.save import file_name, save_block, save_contents
from mcp_ref.jsonrpc.errors import InvalidMessage
from tests.forked_python import python, quick_python
from tests.settings import ROOT

SERVER = """
from mcp_ref import *
server = Server("s")
@server.tool()
def gallery() -> list[TextContent | ImageContent | AudioContent | EmbeddedResource]:
    blob = BlobResourceContents.of("test://files/a%20b.pdf?x=/y", b"pdf", "application/pdf")
    return [TextContent("look"), ImageContent.of(b"png", "image/png"), ImageContent.of(b"2", "image/png"),
            AudioContent.of(b"wav", "audio/wav"), EmbeddedResource(blob)]
@server.resource("test://logo", mime_type="image/png")
def logo() -> bytes:
    return b"logo"
server.run()
"""


def run(*words: str) -> int:
    return main([*words, "--env", f"PYTHONPATH={ROOT}", "--", *quick_python(SERVER)])


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_call_save_writes_each_image_sound_and_blob_and_prints_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    assert run("call", "gallery", "--save", str(folder)) == 0
    names = ["gallery.png", "gallery-2.png", "gallery.wav", "a_b.pdf"]
    assert capsys.readouterr().out.splitlines() == ["look", *(str(folder / name) for name in names)]
    assert contents_of(folder) == dict(zip(names, [b"png", b"2", b"wav", b"pdf"], strict=True))


def test_read_save_writes_a_blob_and_json_leaves_standard_output_to_one_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("read", "test://logo", "--save", str(tmp_path)) == 0
    assert run("read", "test://logo", "--save", str(tmp_path), "--json") == 0
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert first == str(tmp_path / "logo.png") and json.loads(rest)["contents"][0]["uri"] == "test://logo"
    assert contents_of(tmp_path) == {"logo.png": b"logo", "logo-2.png": b"logo"}


def test_save_into_a_file_is_a_usage_error_before_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("mine")
    assert run("call", "no_such_tool", "--save", str(tmp_path / "taken")) == 2
    assert "--save" in capsys.readouterr().err and (tmp_path / "taken").read_text() == "mine"


@pytest.mark.attack("saved-path")
def test_saved_file_has_a_safe_name_in_the_folder_whatever_the_server_sends(tmp_path: Path) -> None:
    folder, chance = tmp_path / "folder", random.Random(1)
    folder.mkdir()
    parts = [
        "..", "/", "\\", "%2F", "%2e", "%00", "~", ".bashrc", "CON", "nul.txt", "a", " ", "\n", "é", ":", "-rf", "C:",
    ]  # fmt: skip
    for _ in range(100):
        name = "".join(chance.choices(parts, k=chance.randrange(6)))
        kind = chance.choice(["image/png", "../x", "", "text/plain; a=/..", "image/../png"])
        path = save_contents(folder.as_posix(), BlobResourceContents(f"x:{name}", "aGk=", kind))
        assert path is not None and Path(path).parent == folder
        assert Path(path).name[0].isalnum() or Path(path).name[0] == "_"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"] and len(list(folder.iterdir())) == 100


@pytest.mark.attack("saved-path")
def test_saved_file_replaces_no_file_and_follows_no_symbolic_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    (folder / "x.png").write_text("mine")
    os.symlink(outside, folder / "x-2.png")
    assert save_block(str(folder), "x", ImageContent.of(b"new", "image/png")) == str(folder / "x-3.png")
    assert (folder / "x.png").read_text() == "mine" and not outside.exists()


@pytest.mark.parametrize(
    ("name", "mime_type", "expected"),
    [
        ("plot", "image/png", "plot.png"),
        ("plot.png", "image/png", "plot.png"),
        ("photo.jpeg", "image/jpeg", "photo.jpeg"),
        ("photo.PNG", None, "photo.PNG"),
        ("photo.gif", "image/jpeg; q=1", "photo.gif.jpg"),
        ("song", "AUDIO/MPEG", "song.mp3"),
        ("archive.tar", None, "archive.tar"),
        ("data", "x/unknown", "data.bin"),
        ("", None, "data.bin"),
        (".bashrc", None, "bashrc.bin"),
        ("a/b c", "text/plain", "a_b_c.txt"),
        ("con", "image/png", "_con.png"),
        ("a." + "x" * 30, None, "a." + "x" * 30 + "." + "x" * 15),
        ("x" * 500, "image/png", "x" * 80 + ".png"),
    ],
)
def test_file_name_is_safe_and_has_the_suffix_of_its_type(name: str, mime_type: str | None, expected: str) -> None:
    assert file_name(name, mime_type) == expected


def test_blocks_without_binary_data_are_not_saved(tmp_path: Path) -> None:
    for block in (TextContent("x"), EmbeddedResource(TextResourceContents("x:", "text"))):
        assert save_block(str(tmp_path), "x", block) is None
    assert not list(tmp_path.iterdir())


def test_save_refuses_invalid_base64_and_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InvalidMessage, match="is not Base64"):
        save_block(str(tmp_path), "x", AudioContent("a", "audio/wav"))
    with pytest.raises(UsageError, match="gone"):
        save_block(str(tmp_path / "gone"), "x", ImageContent.of(b"x", "image/png"))


def test_save_that_fails_in_the_middle_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.FileIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("mcp_ref.cli.save.open", Full, raising=False)
    with pytest.raises(UsageError, match=r"--save .*x\.png: No space left on device"):
        save_block(str(tmp_path), "x", ImageContent.of(b"x", "image/png"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["read", "test://a"], ["read", "test://a", "--json"], ["prompt", "p", "--json"]])
def test_read_and_prompt_of_invalid_base64_are_1_with_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
import json, sys
blob = {"uri": "test://a", "blob": "a"}
results = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}, "prompts": {}},
                   "serverInfo": {"name": "s", "version": "1"}},
    "resources/read": {"contents": [blob]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "resource", "resource": blob}}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = results.get(request["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
    assert main([*words, "--revision", "2025-06-18", "--", *python(source)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "Base64" in err and len(err.splitlines()) == 1
