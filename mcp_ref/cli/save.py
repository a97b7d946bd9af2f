"""`--save DIR` of `call` and `read` writes images, audio and blobs of a result to files.

The server chooses the data, the MIME type and the URI, but it must not choose where the file is written. So the name of
the file keeps only letters, digits, `.`, `_` and `-` of the URI's last segment, and no existing file is replaced.

    save_block(folder, "plot", ImageContent.of(png, "image/png"))  ->  DIR/plot.png, or else DIR/plot-2.png, ...

Threats:
    saved-path: A server overwrites the user's files with a URI such as `file:///x/..%2F.bashrc`, or with the name of an
        existing symbolic link. A file's name has no slash and no leading dot, and nothing that exists is opened.
"""

from __future__ import annotations

import mimetypes
import os
import re
from urllib.parse import unquote

from ..basic.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
)
from . import UsageError
from .show import decode_base64

MAX_NAME = 80
"""Maximum length of a file's name without its suffix, in characters."""

MAX_SAME_NAMES = 1000
"""Maximum number of files whose names differ only by the number at the end, in one folder."""

_SUFFIXES = {
    "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mp4": ".m4a", "audio/ogg": ".ogg", "audio/flac": ".flac",
    "audio/webm": ".weba", "image/webp": ".webp", "image/avif": ".avif", "application/octet-stream": ".bin",
    "application/gzip": ".gz", "application/yaml": ".yaml",
}  # fmt: skip
"""MIME type -> suffix, for types to which the module `mimetypes` gives another suffix, or none, on some machines."""

_DEVICES = re.compile(r"(con|prn|aux|nul|(com|lpt)\d)(\..*)?", re.IGNORECASE)
"""The names that Windows reserves for devices, with or without a suffix."""


def make_folder(path: str) -> None:
    """Create the folder if it does not exist. Raise UsageError if it cannot be used."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save {path}: {error.strerror or error}") from None


def save_block(folder: str, name: str, block: ContentBlock) -> str | None:
    """Write the data of a content block to a new file. Return its path, or None for a block without such data.

    The file gets the `name`, unless the block has a URI.

    Raises:
        InvalidMessage: The data is not Base64.
        UsageError: The file cannot be written.
    """
    if isinstance(block, EmbeddedResource):
        return save_contents(folder, block.resource)
    if isinstance(block, (ImageContent, AudioContent)):
        return _write(folder, name, block.mime_type, block.data)
    return None


def save_contents(folder: str, contents: ResourceContents) -> str | None:
    """Write the contents of a resource to a new file. Return its path, or None for text. Raises as `save_block`."""
    if not isinstance(contents, BlobResourceContents):
        return None
    last_segment = re.split(r"[?#]", contents.uri)[0].rstrip("/").rpartition("/")[2]
    return _write(folder, unquote(last_segment), contents.mime_type, contents.blob)


def file_name(name: str, mime_type: str | None) -> str:
    """Return a safe file name that is made from a server's `name`, with a suffix for the MIME type.

    The result has no folders, spaces or leading dot. If the type is unknown, the suffix is that of `name`, or `.bin`.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-") or "data"
    stem, own_suffix = os.path.splitext(safe)
    bare_type = (mime_type or "").partition(";")[0].strip().lower()  # without parameters, as in `image/png; q=1`
    suffix = _SUFFIXES.get(bare_type) or mimetypes.guess_extension(bare_type) or own_suffix[:16] or ".bin"
    if own_suffix.lower() in (suffix.lower(), *mimetypes.guess_all_extensions(bare_type)):
        suffix = own_suffix  # it fits the type as well, such as .jpg where `suffix` is .jpeg
    else:
        stem = safe  # the name's own suffix does not fit, so it stays: page.txt becomes page.txt.png
    stem = stem[:MAX_NAME]
    if _DEVICES.fullmatch(stem):
        stem = f"_{stem}"
    return stem + suffix


def _write(folder: str, name: str, mime_type: str | None, data: str) -> str:
    content = decode_base64(name, data)
    stem, suffix = os.path.splitext(file_name(name, mime_type))
    for number in range(1, MAX_SAME_NAMES + 1):
        ending = f"-{number}" if number > 1 else ""
        path = os.path.join(folder, f"{stem}{ending}{suffix}")
        try:
            file = open(path, "xb")  # noqa: SIM115 - "x" opens no existing file, and no target of a symbolic link
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"--save {path}: {error.strerror or error}") from None
        try:
            with file:
                file.write(content)
        except OSError as error:
            os.remove(path)
            raise UsageError(f"--save {path}: {error.strerror or error}") from None
        return path
    raise UsageError(f"--save: {folder} has {MAX_SAME_NAMES} files with the name {stem}{suffix}")
