"""The results as a table of text and as one HTML page with a bar chart for each figure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tests.bench.rows import Figure, Row

Values = Mapping[str, Sequence[tuple[float, ...]]]
"""Implementation -> the values of a row's figures in each turn."""

BAR = 18
"""Height of a bar, in pixels."""
WIDTH = 420
"""Width of the longest bar, in pixels."""


@dataclass(frozen=True)
class Result:
    """The medians of one figure, over all turns."""

    figure: Figure
    values: dict[str, float | None]
    """Implementation -> the median; None if the implementation was not measured."""
    ratios: dict[str, float]
    """Implementation -> the median of the ratios of mcp_ref to it, each of two neighboring turns."""

    def ratio_text(self) -> str:
        """Return the ratios of mcp_ref to the limit and to the official SDK, as text."""
        asked = f" (asked: at most {self.figure.asked})" if self.figure.asked else ""
        ends = {"limit": asked, "official SDK": ""}
        return ", ".join(f"{self.ratios[name]:.2f} of {name}{end}" for name, end in ends.items() if name in self.ratios)


def summarize(row: Row, turns: Values, names: Sequence[str]) -> list[Result]:
    """Return the medians of a row's figures, with a value for each name."""
    results = []
    for at, figure in enumerate(row.figures):
        columns = {name: [turn[at] for turn in turns[name]] for name in names if turns.get(name)}
        ours = columns.get("mcp_ref", [])
        # The speed of a machine changes within seconds. It is almost the same in two neighboring turns.
        ratios = {
            name: statistics.median(mine / other for mine, other in zip(ours, column, strict=True))
            for name, column in columns.items()
            if ours and min(column) > max(ours) / 100
        }
        values = {name: statistics.median(columns[name]) if name in columns else None for name in names}
        results.append(Result(figure, values, ratios))
    return results


def show(value: float | None) -> str:
    """Return a value with three digits, or a dash for none."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table_head(names: Sequence[str]) -> str:
    """Return the first line of the table."""
    return f"{'':70}" + "".join(f"{name:>16}" for name in names) + "   ratios of mcp_ref"


def table_line(result: Result) -> str:
    cells = "".join(f"{show(value):>16}" for value in result.values.values())
    return f"{f'{result.figure.title}, {result.figure.unit}':70}{cells}   {result.ratio_text()}"


def draw(result: Result) -> str:
    """Return the bar chart of a figure, as SVG."""
    longest = max((value for value in result.values.values() if value is not None), default=0) or 1
    bars = []
    for number, (name, value) in enumerate(result.values.items()):
        top = number * (BAR + 6)
        width = max(0.0, (value or 0) / longest * WIDTH)
        text = "not measured" if value is None else f"{show(value)} {result.figure.unit}"
        kind = "ours" if name == "mcp_ref" else "other"
        bars.append(
            f'<text x="120" y="{top + 14}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="{kind}" x="130" y="{top}" width="{width:.1f}" height="{BAR}"/>'
            f'<text x="{136 + width:.1f}" y="{top + 14}">{escape(text)}</text>'
        )
    height = len(bars) * (BAR + 6)
    label = escape(result.figure.title, quote=True)
    return f'<svg role="img" aria-label="{label}" width="760" height="{height}">{"".join(bars)}</svg>'


def page(results: Sequence[Result], notes: Sequence[str]) -> str:
    """Return the page.

    Args:
        results: The figures, in the order of the page.
        notes: Sentences above the charts, for example about the machine.
    """
    paragraphs = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    charts = "".join(
        f"<h2>{escape(result.figure.title)}, {escape(result.figure.unit)}</h2>\n{draw(result)}\n"
        f"<p>{escape(result.ratio_text() and 'mcp_ref: ' + result.ratio_text())}</p>\n"
        for result in results
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        "<title>Speed and memory of mcp_ref</title>\n"
        "<style>body { font: 15px sans-serif; max-width: 800px; margin: 2em auto; } h2 { font-size: 1em; }\n"
        "svg { font-size: 13px; } .ours { fill: #2563eb; } .other { fill: #9ca3af; }</style>\n</head>\n<body>\n"
        "<h1>Speed and memory of mcp_ref</h1>\n<p>Shorter bars are better. Each value is the median of the turns.</p>\n"
        f"{paragraphs}{charts}</body>\n</html>\n"
    )
