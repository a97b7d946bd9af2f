"""The rules of prose that a program can check: docstrings, comments, error and log texts, test names.

    python3 -m tests.prose FILE...     prints every violation in these files; without files, in all files

The numbers of violations that are still allowed, file by file, are in `known_faults.json`. They may only shrink.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mcp_ref
from tests.known_faults import Faults
from tests.settings import ROOT

VERBS = frozenset((ROOT / "tests" / "imperatives.txt").read_text("utf-8").split())
"""The first words that the docstring of a function may have. Add a verb that is missing to the file."""

QUESTION_WORDS = {"what", "who", "whose", "whom", "whether", "how", "where", "when", "why", "which"}
"""The first words that no docstring may have."""

PRONOUNS = {"it", "its", "they", "their", "them", "he", "she", "his", "her", "that", "these", "those"}
PRONOUNS |= {"everybody", "nobody", "somebody", "everyone"}
SPEAKING_VERBS = {"return", "returns", "give", "gives", "tell", "tells", "say", "says", "get", "gets", "see"}
SPEAKING_VERBS |= {"hold", "holds", "keep", "keeps"}
"""First words that a noun phrase does not have, with the pronouns."""

_CONNECTIVES = "of for to by from with in on at as than after before into over about and or but if is are was"
_BEFORE = rf"(?:^|[.;:,(-] ?|\b(?:{_CONNECTIVES.replace(' ', '|')}) )"

PHRASES = {
    'write "is not a" or "without", not "{}"': r"\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more|matter))",
    'name the thing instead of the headless "{}"': rf"{_BEFORE}(?:who|whoever|whom)\b(?!\?)",
    'name the thing, not "{}"': rf"{_BEFORE}(?:what|whatever)\b(?! (?:is |was )?(?:it )?(?:happened|happens|to do))",
    'write "again", not "{}"': r"\banew\b",
    'write "stateless request", not "{}"': r"\b(?:requests?|that|which|it|each|call) (?:stands?|standing) alone\b",
    'write "legacy era" or "modern era", not "{}"': r"\b(?:earlier|later|stateless|older|newer) eras?\b",
    'write "resume" or "continue", not "{}"': r"\b(?:take|takes|took|taken|taking) up again\b",
    'write "duplicate", not "{}"': r"\bstands? there twice\b|\bsaid twice\b",
    'write "ignored" or "skipped", not "{}"': r"\boverlook\w*|\blooked over\b",
    'write "without end" or "for as long as ...", not "{}"': r"\bfor ever\b",
    'write "instead of", not "{}"': r"\bin the (?:place|stead) of\b",
    'write "connect", "negotiate" or "handshake", not "{}"': r"\bgreet(?:s|ed|ing|ings)?\b|\bshakes? hands\b",
    'write "check", not "{}"': r"\brungs?\b|\bgates?\b|\badmissions?\b",
    'use American spelling, not "{}"': r"\b\w*(?:haviour|colour|honour|favour|defence|licence)\w*",
    'write "stream", "message" or "notification", not "{}"': r"\bcarriers?\b|\bnews\b",
    'write "after the handshake" or "session", not "{}"': r"\bwordless\b|\bwithout a word\b|\bto be had\b",
}
"""Patterns that no text may contain, by the advice."""

PACKAGE_PHRASES = {
    'write "response", "result" or "error", not "{}"': r"\banswers?\b(?! (?:to|from) the (?:user|person))",
    'write "request" or "elicitation", not "{}"': r"\bquestions?\b",
}
"""More patterns, for the package alone: the users of the examples answer questions."""

UNIT = re.compile(
    r"\b(?:bytes?|kilobytes|megabytes|characters?|seconds?|milliseconds?|minutes?|hours?|days?|levels?|per ?cent|"
    r"number of|how many|count of|times|steps?|bits?)\b",
    re.IGNORECASE,
)
"""A unit, or a number of things."""


@dataclass(frozen=True)
class Violation:
    """One violation of the rules, in one line of a file."""

    line: int
    advice: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.advice}: {' '.join(self.text.split())[:90]!r}"


def files() -> list[Path]:
    """Return all files with prose."""
    found = [path for folder in ("mcp_ref", "examples", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*(path for path in found if not path.is_symlink()), ROOT / "README.md", ROOT / "examples" / "README.md"]


def check_file(path: Path) -> list[Violation]:
    """Return all violations in a file, in order."""
    text = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    phrases = PHRASES | (PACKAGE_PHRASES if name.startswith("mcp_ref/") else {})
    found = _check_markdown(text, phrases) if path.suffix == ".md" else check_source(name, text, phrases)
    return sorted(found, key=lambda violation: violation.line)


def _check_phrases(line: int, text: str, phrases: dict[str, str]) -> Iterator[Violation]:
    if not _any_of(tuple(phrases.values())).search(text):
        return
    plain = re.sub(r"``?[^`]*``?", lambda code: "x" * len(code[0]), text)  # code is not prose
    for advice, pattern in phrases.items():
        for match in re.finditer(pattern, plain, re.IGNORECASE | re.MULTILINE):
            shown = match[0].strip(" .,;:(-")
            around = plain[max(0, match.start() - 30) : match.end() + 30]
            yield Violation(line + plain.count("\n", 0, match.start()), advice.format(shown), around)


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


def _check_markdown(text: str, phrases: dict[str, str]) -> Iterator[Violation]:
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    yield from _check_phrases(1, prose, phrases)


def check_source(name: str, text: str, phrases: dict[str, str]) -> Iterator[Violation]:
    """Yield all violations in the text of a Python file, whose path in the project is `name`."""
    tree = ast.parse(text)
    # The checks read only these nodes, one in ten.
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.mod, ast.stmt, ast.Call))]
    yield from _check_comments(text, phrases)
    yield from _check_messages(nodes, phrases)
    for node, kind, subject, docstring, line in _docstrings(nodes):
        yield from _check_phrases(line, docstring, phrases)
        advice = _first_word_advice(kind, docstring)
        if advice is not None:
            yield Violation(line, f"{advice} ({kind} {subject})", docstring)
        if kind == "function" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _check_sections(node, docstring, line)
    yield from _check_limits(nodes)
    if name.rpartition("/")[2].startswith("test_"):
        yield from _check_test_names(nodes)
    yield from _check_public(name, tree)


# ---------------------------------------------------------------------------------------------------- comments, errors


def _check_comments(text: str, phrases: dict[str, str]) -> Iterator[Violation]:
    tails = "\n".join(re.findall(r"(?=#[# ]*(.*))", text))  # of the lines, after each "#": all comments are among them
    if not _any_of(tuple(phrases.values())).search(tails):
        return
    comments = [
        token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    block: list[str] = []
    start = last = -2
    for token in comments:
        if token.start[0] != last + 1:
            yield from _check_phrases(start, "\n".join(block), phrases)
            block, start = [], token.start[0]
        block.append(token.string.lstrip("# "))
        last = token.start[0]
    yield from _check_phrases(start, "\n".join(block), phrases)


_LOG = {"debug", "info", "warning", "error", "exception", "critical"}


def _check_messages(nodes: Sequence[ast.AST], phrases: dict[str, str]) -> Iterator[Violation]:
    """Check the texts of errors and log lines."""
    for node in nodes:
        is_log = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOG
        if isinstance(node, ast.Raise) or is_log:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield from _check_phrases(part.lineno, part.value, phrases)


# ---------------------------------------------------------------------------------------------------- docstrings


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str, str, str, int]]:
    """Yield each docstring with its node, kind, name and line."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node, _kind(node), getattr(node, "name", "module"), docstring, node.body[0].lineno
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for one, name, docstring, line in _attribute_docstrings(node):
                yield one, "attribute", name, docstring, line


def _kind(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.Module):
        return "module"
    if isinstance(node, ast.ClassDef):
        return "class"
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if any("property" in decorator.split("(")[0] for decorator in decorators):
        return "property"
    if any(re.search(r"\.(tool|resource|prompt|add)\b|^tool\b", decorator) for decorator in decorators):
        return "handler"  # its docstring is the description that a model or a user reads
    if any(re.match(r"(\w+_)?rule\(", decorator) for decorator in decorators):
        return "rule"  # its docstring is the demand that a report shows
    return "function"


def _attribute_docstrings(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.AST, str, str, int]]:
    for one, following in zip(node.body, node.body[1:], strict=False):
        if not isinstance(one, ast.Assign | ast.AnnAssign) or not isinstance(following, ast.Expr):
            continue
        if isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
            target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
            yield one, ast.unparse(target).removeprefix("self."), following.value.value, following.lineno


def _first_word_advice(kind: str, docstring: str) -> str | None:
    """Return what to change in the first line, or None."""
    first = re.match(r"[\w'-]*", docstring.lstrip("\"'( "))
    word = first[0].lower() if first else ""
    if word in QUESTION_WORDS:
        return f"do not begin with {word!r}"
    if kind == "module":
        return None
    if re.match(r"(See|As|Like) \S+\.?$", docstring.strip()) or docstring.startswith("See "):
        return 'say the fact instead of "See ..."'
    if docstring.startswith("The same") or docstring.startswith("Same"):
        return 'name the thing, not "the same"'
    if kind == "function" and word not in VERBS:
        return f"begin with an imperative verb, not {word!r}"
    if kind in ("property", "attribute", "class") and word in PRONOUNS | SPEAKING_VERBS:
        return f"begin with a noun phrase, not {word!r}"
    return None


# ---------------------------------------------------------------------------------------------------- limits


def _check_limits(nodes: Sequence[ast.AST]) -> Iterator[Violation]:
    """Check that each limit has a docstring with a unit."""
    for node in nodes:
        if isinstance(node, ast.Module):
            yield from _check_units(node, every=False)
        elif isinstance(node, ast.ClassDef):
            yield from _check_units(node, every=node.name.endswith("Limits"))


def _check_units(node: ast.Module | ast.ClassDef, every: bool) -> Iterator[Violation]:
    documented = {name: docstring for _, name, docstring, _ in _attribute_docstrings(node)}
    sections = _section(ast.get_docstring(node) or "", "Args") | _section(ast.get_docstring(node) or "", "Attributes")
    for one in node.body:
        if not isinstance(one, ast.Assign | ast.AnnAssign):
            continue
        name = ast.unparse(one.target if isinstance(one, ast.AnnAssign) else one.targets[0])
        is_limit = re.match(r"_?(MAX|MOST)_[A-Z0-9_]+$|_?[A-Z0-9_]+_(SECONDS|BYTES)$", name)
        if not name.isidentifier() or (not is_limit and not (every and not name.startswith("_"))):
            continue
        text = documented.get(name) or sections.get(name, "")
        if not text:
            yield Violation(one.lineno, f"give the limit {name} a docstring with its unit", name)
        elif not UNIT.search(text):
            yield Violation(one.lineno, f"name the unit of the limit {name}", text)


# ---------------------------------------------------------------------------------------------------- sections


def _section(docstring: str, title: str) -> dict[str, str]:
    """Return the entries of `Args:`, `Attributes:` or `Raises:`, by name."""
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n?|\n(?=[ ]))+)", docstring + "\n", re.MULTILINE)
    if found is None:
        return {}
    lines = found[1].splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    entries: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = re.match(r"\*{0,2}([\w.]+)(?: \(.*?\))?: ?(.*)", line[indent:])
        if entry and line[indent : indent + 1] not in ("", " "):
            name = entry[1]
            entries[name] = entry[2]
        elif name:
            entries[name] += " " + line.strip()
    return entries


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [arguments.vararg] if arguments.vararg is not None else []
    every += [arguments.kwarg] if arguments.kwarg is not None and not _has_options(node) else []
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def _has_options(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for `**options: Unpack[Options]`, which need no entry, because their type is documented."""
    kwarg = node.args.kwarg
    return kwarg is not None and "Unpack" in ast.unparse(kwarg.annotation or ast.Constant(""))


def _check_sections(
    node: ast.FunctionDef | ast.AsyncFunctionDef, docstring: str, line: int, about: str | None = None
) -> Iterator[Violation]:
    """Check that `Args:` names parameters that exist.

    If the function is public, `about` is the docstring of its class, and each parameter must be in `Args:`, in the text
    in backticks, or in the `Args of methods:` of the class.
    """
    documented, parameters = _section(docstring, "Args"), _parameters(node)
    if documented and not _has_options(node):
        for name in documented.keys() - set(parameters):
            yield Violation(line, f"{node.name} has no parameter {name}", docstring)
    if about is None:
        return
    named = documented.keys() | _section(about, "Args of methods").keys() | _in_backticks(docstring)
    missing = [name for name in parameters if name not in named]
    if missing:
        yield Violation(line, f"{node.name} needs `Args:` for {', '.join(missing)}", docstring)
    returned = ast.unparse(node.returns) if node.returns is not None else "None"
    returns = re.search(r"(^|\. )(Return|Yield|Get|True if|Raise)\b|^(Returns|Yields):", docstring, re.MULTILINE)
    if returned not in ("None", "NoReturn", "Never") and not returns:
        yield Violation(line, f'{node.name} needs `Returns:`, or a sentence "Return ..."', docstring)
    raised = _section(docstring, "Raises")
    for name in sorted(_raised(node) - raised.keys()):
        if not re.search(rf"\b{name}\b", docstring):
            yield Violation(line, f"{node.name} needs `Raises:` with {name}", docstring)


def _in_backticks(docstring: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", docstring))


def _raised(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of the classes that a function itself raises."""
    found, waiting = set(), list[ast.AST](node.body)
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call) and isinstance(one.exc.func, ast.Name):
            found.add(one.exc.func.id)
        waiting += ast.iter_child_nodes(one)
    return {name for name in found if name[0].isupper() and name not in ("NotImplementedError", "AssertionError")}


@cache
def _public() -> dict[str, set[str]]:
    """Return the public names of each file: those of `mcp_ref.__all__` and of each `__all__` in lib."""
    found: dict[str, set[str]] = {}
    for name, module in mcp_ref._MODULE_BY_NAME.items():
        found.setdefault(f"mcp_ref/{module.replace('.', '/')}.py", set()).add(name)
    for path in (ROOT / "mcp_ref" / "lib").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = next(
            (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"), None
        )
        if not isinstance(names, ast.List | ast.Tuple):
            continue
        wanted = {str(item.value) for item in names.elts if isinstance(item, ast.Constant)}
        for other in path.parent.glob("*.py"):
            found.setdefault(other.relative_to(ROOT).as_posix(), set()).update(wanted)
    return found


def _check_public(name: str, tree: ast.Module) -> Iterator[Violation]:
    """Check `Args:`, `Returns:` and `Raises:` of the public functions and methods."""
    names = _public().get(name, set())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
            yield from _check_documented(node, "")
        elif isinstance(node, ast.ClassDef) and node.name in names:
            about = ast.get_docstring(node) or ""
            if not about:
                yield Violation(node.lineno, f"give the public class {node.name} a docstring", node.name)
            for one in node.body:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    inherits = any(
                        ast.unparse(base).split("[")[0] not in ("Protocol", "Generic") for base in node.bases
                    )
                    yield from _check_documented(one, about, inherits)


def _check_documented(
    node: ast.FunctionDef | ast.AsyncFunctionDef, about: str, inherits: bool = False
) -> Iterator[Violation]:
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    if "overload" in decorators or "setter" in decorators or (node.name.startswith("_") and node.name != "__init__"):
        return
    if node.name in ("from_wire", "to_wire"):
        return  # the codec's protocol, which `codec.py` documents
    docstring = ast.get_docstring(node) or ""
    line = node.body[0].lineno if docstring else node.lineno
    if node.name == "__init__":
        named = _section(docstring, "Args").keys() | _section(about, "Args").keys() | _in_backticks(about)
        missing = [name for name in _parameters(node) if name not in named]
        if missing:
            yield Violation(node.lineno, f"the class or its __init__ needs `Args:` for {', '.join(missing)}", about)
    elif not docstring:
        if not inherits:
            yield Violation(node.lineno, f"give the public {node.name} a docstring", node.name)
    elif "property" not in decorators:
        yield from _check_sections(node, docstring, line, about)


# ---------------------------------------------------------------------------------------------------- test names

_NAMES = (
    r"^test_(?:what|who|whose|whoever|whatever|whom|whether|how|where|when|why|which|nobody|everybody|somebody|one)_",
    r"_(?:is|are)_no(?:ne)?_(?!longer)",
    r"_(?:anew|greet|greeted|greets|overlooked|news|carrier|rung)(?:_|$)",
    r"_stands?_alone(?:_|$)|_for_ever(?:_|$)|_(?:earlier|later|stateless)_era(?:_|$)",
)


def _check_test_names(nodes: Sequence[ast.AST]) -> Iterator[Violation]:
    for node in nodes:
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        if name.startswith("test_") and any(re.search(pattern, name) for pattern in _NAMES):
            yield Violation(
                getattr(node, "lineno", 1), "name the test subject first, in the words of the glossary", name
            )


# ---------------------------------------------------------------------------------------------------- the whole project


@cache
def find_faults() -> Faults:
    """Return all violations, by file."""
    found = {path.relative_to(ROOT).as_posix(): [str(one) for one in check_file(path)] for path in files()}
    return {"prose": {path: violations for path, violations in found.items() if violations}}


def main() -> None:
    """Print the violations of the files named on the command line."""
    paths = [Path(name).resolve() for name in sys.argv[1:]] or files()
    for path in paths:
        for violation in check_file(path):
            print(f"{path.relative_to(ROOT)}:{violation}")


if __name__ == "__main__":
    main()
