"""Change the package at random, one place at a time, and count the changes that the tests notice.

    python3 -m tests.mutation                                  20 changes of each module of MODULES
    python3 -m tests.mutation --count 5 codec.py session.py    5 changes of these modules
    python3 -m tests.mutation --seed 7 --jobs 2                other changes, two at the same time
    python3 -m tests.mutation --sample 500                     500 changes of the whole package, all equally likely

A change replaces one comparison, condition or constant, or removes one call. Left out are changes that nobody needs
to notice: a clock that shows exactly a given time, a long text that is cut a character later, and the placeholders in
the help of the command line. The tests of a module are the test file with its name (without one, its folder), the
files that import it, and the files that name a sentence of its pages. They run in a copy of the tree. A change that
they do not notice is printed, and the other tests of the module's folder run too: if one of them notices the change, it
counts in a column of its own. A change that no test notices (a survivor) needs a test, unless it does not change the
behavior: then equivalent.txt has the reason.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue

from tests.settings import DATA, ROOT
from tests.toc import entries

MODULES = (
    "jsonrpc/messages.py",
    "jsonrpc/dispatcher.py",
    "jsonrpc/requester.py",
    "codec.py",
    "session.py",
    "basic/lifecycle.py",
    "basic/versioning.py",
    "basic/mrtr.py",
    "features/tools.py",
    "features/registered_tools.py",
    "features/pagination.py",
    "transports/stdio/lines.py",
    "transports/stdio/server.py",
    "transports/stdio/client.py",
    "transports/streamable_http/checks.py",
    "transports/streamable_http/session.py",
    "client/negotiation.py",
)
"""The core modules, which change if none are named."""

NOT_TESTS = ("interop/", "conformance/")
"""The folders whose tests need other programs."""

NOT_SAMPLED = ("demo/",)
"""The folders that a sample of the whole package leaves out: one test runs the demo as a whole."""

OWN_TESTS = {"__main__.py": ["cli", "test_demo.py"], "__init__.py": ["test_init.py"]}
"""The tests of the modules that would have all tests as their own, because they are at the top of the package."""

MOST_IMPORTING = 16
"""The number of test files that import a module, above which it has common names, and they test other modules."""

MAX_SECONDS = 600.0
"""Maximum time of a test run of a changed module, in seconds; then it counts as failed. The tests limit each wait."""

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

CLOCK = re.compile(r"\b(time|monotonic|now)\(\)")

EQUIVALENT = dict(
    line.rsplit(" = ", 1)
    for line in Path(__file__).with_name("equivalent.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
"""The reasons why some changes, without their lines, cannot be noticed. They are printed, and count as unnoticed."""


@dataclass(frozen=True)
class Change:
    """One change of a module: the text between two offsets of its bytes, and the text that replaces it."""

    module: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        reason = EQUIVALENT.get(f"{self.module}: {self.before}  ->  {self.after}")
        shown = f"{self.module}:{self.line}: {self.before}  ->  {self.after}"
        return f"{shown}    equivalent: {reason}" if reason else shown


def replacements(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield the parts of a node that can change, with their replacements."""
    if isinstance(node, ast.Compare) and not (isinstance(node.ops[0], ORDER) and CLOCK.search(ast.unparse(node))):
        operator = OPPOSITE[type(node.ops[0])]()
        yield node, ast.Compare(node.left, [operator, *node.ops[1:]], node.comparators)
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.BoolOp):
        yield node, ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            yield node, ast.Constant(node.value + 1)
        elif isinstance(node.value, str) and node.value and " " not in node.value:  # a text with a space is a message
            yield node, ast.Constant(node.value + "x")  # Python knows an encoding "utf-8_"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield node, ast.Pass()


@cache
def all_replacements(source: str) -> list[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Return all replacements inside functions, except in annotations, docstrings and parts that no test checks."""
    found: list[tuple[ast.expr | ast.stmt, ast.AST]] = []

    def visit(node: ast.AST, is_in_function: bool) -> None:
        if is_in_function:
            found.extend(replacements(node))
        if _has_untested_parts(node):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, is_in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(source), is_in_function=False)
    return found


def change(module: str, source: str, old: ast.expr | ast.stmt, new: ast.AST) -> Change:
    """Return the change that replaces a part of a module's source."""
    assert old.end_lineno is not None and old.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    after = ast.unparse(ast.fix_missing_locations(new))
    after = f"({after})" if isinstance(new, ast.expr) else after
    return Change(module, old.lineno, start, end, ast.unparse(old), after)


def _has_untested_parts(node: ast.AST) -> bool:
    """Return True for a formatted string, a cast, the name of an option's value, and the cut of a long text."""
    match node:
        case ast.JoinedStr():
            return True
        case ast.Call():
            return isinstance(node.func, ast.Name) and node.func.id == "cast"
        case ast.keyword():
            return node.arg == "metavar"
        case ast.Slice():
            return re.fullmatch(r":([4-9]\d|\d{3,})", ast.unparse(node)) is not None
        case _:
            return False


def choose(modules: Sequence[str], count: int, seed: int) -> dict[str, list[Change]]:
    """Return at most `count` changes of each module."""
    chosen = {}
    for module in modules:
        source = (ROOT / "mcp_ref" / module).read_text("utf-8")
        possible = all_replacements(source)
        few = random.Random(f"{seed} {module}").sample(possible, min(count, len(possible)))
        chosen[module] = [change(module, source, *each) for each in few]
    return chosen


def sample(number: int, seed: int) -> dict[str, list[Change]]:
    """Return so many changes of the whole package, by module."""
    package = ROOT / "mcp_ref"
    modules = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    sources = {
        module: (package / module).read_text("utf-8") for module in modules if not module.startswith(NOT_SAMPLED)
    }
    possible = [(module, each) for module, source in sources.items() for each in all_replacements(source)]
    chosen: dict[str, list[Change]] = {}
    for module, each in random.Random(f"{seed} sample").sample(possible, number):
        chosen.setdefault(module, []).append(change(module, sources[module], *each))
    return dict(sorted(chosen.items()))


@cache
def imports_of_tests() -> dict[str, list[str]]:
    """Return the test files that import each module by its name, a name of it from its folder, or from its tests."""
    files: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        imported = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module and ".test_" in node.module:
                imported.add(node.module.replace(".", "/").removeprefix("tests/").replace("test_", "") + ".py")
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mcp_ref."):
                for alias in node.names:
                    imported.add(home(node.module.replace(".", "/").removeprefix("mcp_ref/"), alias.name))
        for module in imported:
            files.setdefault(module, []).append(path.relative_to(ROOT / "tests").as_posix())
    return files


@cache
def home(path: str, name: str) -> str:
    """Return the module that defines a name: the one with this path, one below it, or one that its folder imports."""
    package = ROOT / "mcp_ref"
    for module in (f"{path}.py", f"{path}/{name}.py"):
        if (package / module).exists():
            return module
    for node in ast.parse((package / path / "__init__.py").read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and name in {alias.name for alias in node.names}:
            return f"{path}/{node.module}.py"
    return f"{path}/__init__.py"


def files_with_tests(module: str) -> list[list[str]]:
    """Return the test files of a module, in at most two groups: most changes are noticed by the first, which is short.

    They are the files with its name or its folder's name (or else the folder of its folder), the files that import it,
    and those of its pages.
    """
    path = Path(module)
    pages = [
        file
        for entry in entries()
        if any(module == part or (part.endswith("/") and module.startswith(part)) for part in entry.page.modules)
        for file in entry.tests
    ]
    folder, above = path.parent, path.parent.parent
    names = [f"{folder}/test_{path.name}"]
    if folder.name and above.name:
        names += [
            f"{above}/test_{path.name}",
            f"{above}/test_{folder.name}_{path.name}",
            f"{above}/test_{folder.name}.py",
        ]
    names = OWN_TESTS[module] if module in OWN_TESTS else list(map(os.path.normpath, names))
    names = [name for name in names if (ROOT / "tests" / name).exists()]
    own = names or [str(folder) if (ROOT / "tests" / folder).exists() else f"test_{folder.name}.py"]
    importing = imports_of_tests().get(module, [])
    if len(importing) > MOST_IMPORTING:
        importing = []
    first = names or [file for file in importing if Path(file).is_relative_to(folder)]
    others = dict.fromkeys(map(os.path.normpath, (*own, *importing, *pages)))
    left = [file for file in others if not any(Path(file).is_relative_to(each) for each in first)]
    groups = ([f"tests/{file}" for file in files if not file.startswith(NOT_TESTS)] for files in (first, left))
    return [group for group in groups if group]


def other_files_of_folder(module: str) -> list[str]:
    """Return the test files of a module's folder that `files_with_tests` does not have."""
    own = [file for group in files_with_tests(module) for file in group]
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / module).parent.glob("test_*.py")]
    return sorted(file for file in files if not any(Path(file).is_relative_to(each) for each in own))


def run(tree: Path, files: list[str], *options: str) -> bool:
    """Run tests in a copy of the tree. Return True if they pass in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *options, *files]
    environment = {**os.environ, "MCP_REF_WORKERS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if DATA is not None:  # the copy does not stand beside the data
        environment["MCP_REF_DATA"] = str(DATA.resolve())
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(MAX_SECONDS) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the tests may have started servers
        process.wait()
        return False


def notice(change: Change, source: bytes, groups: list[list[str]], trees: SimpleQueue[Path]) -> int | None:
    """Return the number of the first group of files whose tests fail with a change, but pass without it.

    Return None if no group notices the change. It is made in a free copy of the tree, and taken back.
    """
    tree = trees.get()
    module = tree / "mcp_ref" / change.module
    try:
        for number, files in enumerate(groups):
            module.write_bytes(source[: change.start] + change.after.encode() + source[change.end :])
            passed = run(tree, files)
            module.write_bytes(source)
            if not passed:
                if not (run(tree, files, "--lf") or run(tree, files, "--lf")):
                    sys.exit(f"the tests of {change.module} fail without a change: {' '.join(files)}")
                return number
    finally:
        module.write_bytes(source)
        trees.put(tree)
    return None


def judge(change: Change, source: bytes, trees: SimpleQueue[Path]) -> str:
    """Return the tests that notice a change: "own", "folder" or "none". Print the change unless its own tests do."""
    groups, others = files_with_tests(change.module), other_files_of_folder(change.module)
    number = notice(change, source, [*groups, others] if others else groups, trees)
    if number is not None and number < len(groups):
        return "own"
    print(change if number is None else f"{change}    noticed only by other tests of its folder", flush=True)
    return "none" if number is None else "folder"


def main() -> None:
    """Change each module, and print the survivors and a table."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.mutation", description="Count changes that tests notice.")
    parser.add_argument("modules", nargs="*", default=MODULES, help="paths below mcp_ref/")
    parser.add_argument("--count", type=int, default=20, help="changes of each module (default: 20)")
    parser.add_argument("--sample", type=int, help="changes of the whole package, instead of those of named modules")
    parser.add_argument("--seed", type=int, default=0, help="chooses the changes (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="changes at the same time (default: 1)")
    options = parser.parse_args()
    if options.sample is not None:
        selected = sample(options.sample, options.seed)
    else:
        selected = choose(options.modules, options.count, options.seed)
    table: list[tuple[str, int, int, int]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            tree = Path(folder, str(number))
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
            trees.put(tree)
        for module, chosen in selected.items():
            source = (ROOT / "mcp_ref" / module).read_bytes()
            judged = [*pool.map(partial(judge, source=source, trees=trees), chosen)]
            table.append((module, len(judged), judged.count("own"), judged.count("folder")))
    table.append(("all", sum(row[1] for row in table), sum(row[2] for row in table), sum(row[3] for row in table)))
    print(f"\n{'module':45}{'changes':>8}{'noticed':>8}{'':6}{'by others':>11}   seed {options.seed}")
    for module, tried, noticed, by_others in table:
        print(f"{module:45}{tried:8}{noticed:8}{noticed / max(tried, 1):6.0%}{by_others:11}")


if __name__ == "__main__":
    main()
