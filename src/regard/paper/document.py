"""A result as Markdown, as JSON, and as one HTML page that needs no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import __version__
from regard.durable import make_directory, write_file
from regard.html_page import html_document
from regard.report.chart import COLOURS, Curve, Points, chart

Cells = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with text, a table, and figures, which only the page has."""

    title: str = ""
    text: str = ""
    table: Sequence[Cells] = ()  # the first row is its header
    figures: Sequence[str] = ()  # HTML

    def to_markdown(self) -> str:
        parts = [f"## {self.title}" if self.title else "", self.text]
        if self.table:
            rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.table]
            parts.append("\n".join([rows[0], "|" + "---|" * len(self.table[0]), *rows[1:]]))
        return "\n\n".join(filter(None, parts))

    def to_html(self) -> str:
        header, *rows = self.table or [()]
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = (
            f'<div class="wide-table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>\n</table></div>'
        )
        parts = [
            f"<h2>{escape(self.title)}</h2>" if self.title else "",
            *(f"<p>{escape(paragraph)}</p>" for paragraph in self.text.split("\n\n") if paragraph),
            f'<div class="charts">{"".join(self.figures)}</div>' if self.figures else "",
            table if self.table else "",
        ]
        return "\n".join(filter(None, parts))


@dataclass(frozen=True)
class Document:
    """What a command of `regard paper` found out. `values` are the numbers, for JSON."""

    name: str  # of its files
    title: str
    sections: Sequence[Section]
    values: dict[str, Any] = field(default_factory=dict)

    def to_markdown(self) -> str:
        return "\n\n".join([f"# {self.title}", *(section.to_markdown() for section in self.sections)]) + "\n"

    def write(self, directory: Path) -> Path:
        """Writes NAME.md, NAME.json and NAME.html, and returns the path of the last."""
        make_directory(directory)
        body = "\n".join(
            ["<header>", f"<h1>{escape(self.title)}</h1>", "</header>", *(s.to_html() for s in self.sections)]
        )
        page = html_document(self.title, f"{body}\n<footer>Written by regard {__version__}.</footer>")
        values = json.dumps(self.values, ensure_ascii=False, indent=1) + "\n"
        for suffix, text in (("md", self.to_markdown()), ("json", values), ("html", page)):
            write_file(directory / f"{self.name}.{suffix}", text.encode())
        return directory / f"{self.name}.html"


def curves_chart(title: str, curves: Mapping[str, Points], x_name: str, **options: Any) -> str:
    """A chart with a curve for each name."""
    named = zip(curves.items(), COLOURS, strict=False)
    drawn = [Curve(name=name, points=points, colour=colour, dots=True) for (name, points), colour in named]
    return chart(title, drawn, x_name=x_name, **options)


def heatmap(title: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.floating]) -> str:
    """A figure with a cell for each row and column, the darker the larger its weight, from 0 to 1."""
    cell, left, top = 26, 8 * max(map(len, rows)) + 10, 6 * max(map(len, columns)) + 12
    width, height = left + cell * len(columns) + 40, top + cell * len(rows)
    cells = "".join(
        f'<rect x="{left + cell * j}" y="{top + cell * i}" width="{cell - 1}" height="{cell - 1}" fill="var(--orange)" '
        f'fill-opacity="{min(1.0, max(0.0, weight)):.2f}"><title>{escape(rows[i])} → {escape(columns[j])}: {weight:.2f}'
        "</title></rect>"
        for (i, j), weight in np.ndenumerate(weights)
    )
    names = "".join(
        f'<text x="{left - 6}" y="{top + cell * (i + 0.65):.0f}" text-anchor="end">{escape(row)}</text>'
        for i, row in enumerate(rows)
    ) + "".join(
        f'<text transform="translate({left + cell * (j + 0.6):.0f} {top - 6}) rotate(-50)">{escape(column)}</text>'
        for j, column in enumerate(columns)
    )
    svg = f'<svg class="lengths" role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}">'
    return f"<figure><figcaption>{escape(title)}</figcaption>\n{svg}{cells}{names}</svg></figure>"
