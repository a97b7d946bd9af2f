"""The graph of the package's imports, and its faults.

Every relative import counts: at the top of a module, under TYPE_CHECKING, and inside a function.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mcp_ref
from tests.known_faults import Faults
from tests.sources import PACKAGE, modules, statements_below, tree_of

LAYERS = (
    {"lib"},
    {"jsonrpc", "version"},
    {"revisions"},
    {"codec"},
    {"basic"},
    {"features", "extensions", "transports", "check"},
    {"session"},
    {"client", "server"},
    {"host"},
    {"recorder"},
    {"bridge"},
    {"__init__"},
    {"cli", "demo"},
    {"__main__"},
)
"""The rooms, lowest first. A room imports from itself and from lower layers; `lib` imports from itself alone."""

MOST_LAZY_IMPORTS = {
    "server": 30, "client": 9, "cli": 5, "transports": 4, "lib": 5, "basic": 4, "features": 1, "extensions": 1,
}  # fmt: skip
"""Maximum number of imports inside functions, by room. `cli` is counted together with `demo` and `__main__`."""

READING_ORDER: tuple[str, ...] = getattr(mcp_ref, "READING_ORDER", ())
OPTIONAL_READING: tuple[str, ...] = getattr(mcp_ref, "OPTIONAL_READING", ())


@dataclass(frozen=True)
class Import:
    """One import statement of one file, which names one file of the package or a module outside it."""

    path: str
    line: int
    target: str | None
    """The file that is imported, or None if it is outside the package."""
    is_in_function: bool
    reason: str
    """The text after `# lazy:`."""

    def __str__(self) -> str:
        return f"line {self.line} imports {self.target or 'a module of the standard library'}"


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _room(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def _layer(path: str) -> int:
    return next(index for index, rooms in enumerate(LAYERS) if _room(path) in rooms)


def _targets(path: Path, node: ast.ImportFrom) -> set[str]:
    """Return the files that a relative import names: a module, or the `__init__.py` of a package and a module in it."""
    folder = path.parent
    for _ in range(node.level - 1):
        folder = folder.parent
    base = folder.joinpath(*(node.module or "").split(".")) if node.module else folder
    if base.with_suffix(".py").is_file():
        return {_name(base.with_suffix(".py"))}
    found = {_name(base / "__init__.py")}
    for alias in node.names:
        inside = base / alias.name
        files = (inside.with_suffix(".py"), inside / "__init__.py")
        found |= {_name(file) for file in files if file.is_file()}  # none: a name that the package itself defines
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports of all files of the package, without those of other packages at the top of a module."""
    found = []
    for path in modules():
        lines = path.read_text("utf-8").splitlines()
        for node, is_in_function in statements_below(tree_of(path)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            reason = re.search(r"# lazy: (\S.*)", lines[node.lineno - 1])
            where = _name(path), node.lineno
            details = is_in_function, reason[1] if reason else ""
            if isinstance(node, ast.ImportFrom) and node.level:
                targets = _targets(path, node) - {_name(path)}
                found += [Import(*where, target, *details) for target in sorted(targets)]
            elif is_in_function:
                found.append(Import(*where, None, *details))
    return tuple(found)


def _circles() -> dict[str, list[str]]:
    """Return for each file of a circle the imports that lead into the circle again."""
    reachable: dict[str, set[str]] = {}
    direct: defaultdict[str, set[str]] = defaultdict(set)
    for one in imports():
        if one.target is not None:
            direct[one.path].add(one.target)
    for path in list(direct):
        seen, waiting = set[str](), [path]
        while waiting:
            for target in direct.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        reachable[path] = seen
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in imports():
        if one.target is not None and one.path in reachable.get(one.target, ()):
            found[one.path].append(str(one))
    return {path: sorted(set(faults)) for path, faults in found.items()}


def _upward() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in imports():
        if one.target is None:
            continue
        is_outside_lib = _room(one.path) == "lib" and _room(one.target) != "lib"
        if is_outside_lib or _layer(one.target) > _layer(one.path):
            found[one.path].append(f"{one}, which lies in a higher room")
    return dict(found)


def _forward() -> dict[str, list[str]]:
    place = {path: index for index, path in enumerate(READING_ORDER)}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in imports():
        if one.target in place and one.path in place and place[one.target] > place[one.path]:
            found[one.path].append(f"{one}, which READING_ORDER lists later")
    return dict(found)


def _unlisted() -> dict[str, list[str]]:
    """Return the modules that READING_ORDER does not list exactly once, and the paths that do not exist."""
    if not READING_ORDER:
        return {}
    names = [_name(path) for path in modules()]
    found = {}
    for path in {*names, *READING_ORDER}:
        if path not in names:
            found[path] = ["READING_ORDER lists it, but it does not exist"]
        elif READING_ORDER.count(path) != 1:
            found[path] = [f"READING_ORDER lists it {READING_ORDER.count(path)} times"]
    for path in OPTIONAL_READING:
        if not (PACKAGE / path).exists():
            found[path] = ["OPTIONAL_READING lists it, but it does not exist"]
    return found


def _lazy_without_reason() -> dict[str, list[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in imports():
        if one.is_in_function and not one.reason:
            found[one.path].add(f"line {one.line} imports inside a function, without `# lazy: <reason>` on its line")
    return {path: sorted(faults) for path, faults in found.items()}


def _too_many_lazy() -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, line in sorted({(one.path, one.line) for one in imports() if one.is_in_function}):
        room = _room(path)
        places["cli" if room in ("demo", "__main__") else room].append(f"{path}:{line} imports inside a function")
    return {room: lines[MOST_LAZY_IMPORTS.get(room, 0) :] for room, lines in places.items()}


def _unnamed() -> dict[str, list[str]]:
    """Return for each folder the modules that its docstring does not name, and the names that are not modules.

    A docstring names a module as `name.py` and a folder as `name/`. A path with a slash before it is not counted.
    """
    found = {}
    for path in modules():
        if path.name != "__init__.py":
            continue
        docstring = ast.get_docstring(tree_of(path)) or ""
        named = set(re.findall(r"(?<![\w/.])([a-z_]\w*(?:\.py\b|/(?!\w)))", docstring))
        present = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
        present |= {f"{file.parent.name}/" for file in path.parent.glob("*/__init__.py")}
        faults = [f"its docstring does not name {name}" for name in sorted(present - named)]
        faults += [f"its docstring names {name}, which does not exist" for name in sorted(named - present)]
        found[_name(path)] = faults
    return found


@cache
def find_faults() -> Faults:
    """Return everything that is wrong with the imports, by kind and file."""
    found = {
        "circle of imports": _circles(),
        "import from a higher room": _upward(),
        "import of a later module": _forward(),
        "reading order": _unlisted(),
        "lazy import without a reason": _lazy_without_reason(),
        "too many lazy imports": _too_many_lazy(),
        "folder docstring": _unnamed(),
    }
    return {kind: {path: faults for path, faults in files.items() if faults} for kind, files in found.items()}
