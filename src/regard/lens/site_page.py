"""A look at a model of any task as one HTML file: its prediction, what that depends on, and the picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from regard.errors import UserError
from regard.html_page import html_document
from regard.lens.inspect import SiteLook


def site_page(look: SiteLook, subject: str) -> str:
    """The whole file; `subject` is the input that was looked at."""
    sites = [("recorded", "kind", "size")]
    for site in look.trace.sites():
        size = " × ".join(f"{axis} {n}" for axis, n in zip(site.axes, site.shape, strict=True))
        sites.append((site.path, site.kind, size))
    predicted = look.shown_prediction()
    title = ": ".join(predicted[0])
    parts = [f"<h1>{escape(title)}</h1>", f"<pre>{escape(subject)}</pre>", _table(predicted), _picture(look)]
    return html_document(title, "\n".join([*parts, _table(look.table(), "bars"), _table(sites)]))


def _picture(look: SiteLook) -> str:
    try:
        svg = look.picture().to_bytes("svg").decode()
    except UserError:  # the task has none, or matplotlib is not installed
        return ""
    return f'<div class="scroll drawing">{svg[svg.index("<svg") :]}</div>'


def _table(rows: Sequence[tuple[str, ...]], style: str = "") -> str:
    if not rows:
        return ""
    cells = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="look {style}">\n{cells}\n</table></div>'
