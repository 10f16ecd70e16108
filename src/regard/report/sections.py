"""The parts of the page below the curves: samples, findings, heads, numbers, recipe.

All that came from a file is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import tomli_w

from regard.report.replay import number
from regard.report.summary import RunStory, SampleStory
from regard.report.wording import count, few_digits

_MAX_ROWS = 60  # of the table of validations
_MAX_STRETCHES = 8  # of a sample's translations
_KNOWS = 0.4  # of a head's weight on the partner word: chance gives a tenth of that


def samples(story: RunStory) -> str:
    """What the model made of the same few sentences as it learned."""
    if not story.samples:
        return ""
    blocks = _joined(_sample(one) for one in story.samples)
    return (
        "<section>\n<h2>The same sentences, as it learned</h2>\n"
        '<p class="soft">From the validation set, translated greedily. ✓ is word for word the reference.</p>\n'
        f"{blocks}\n</section>"
    )


def _sample(sample: SampleStory) -> str:
    rows = [("source", sample.source, ""), ("reference", sample.reference, "")]
    for first, last, text in _some(_unchanged(sample.translations)):
        right = text.strip() == sample.reference.strip()
        when = f"step {first:,}" if first == last else f"step {first:,}–{last:,}"
        rows.append((f"{when}{' ✓' if right else ''}", text, "right" if right else ""))
    lines = _joined(
        f'<dt>{when}</dt><dd dir="auto" class="{kind}">{escape(text) or "<small>(empty)</small>"}</dd>'
        for when, text, kind in rows
    )
    return f'<div class="sample"><dl class="lines">\n{lines}\n</dl></div>'


def _unchanged(translations: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Neighbours that are alike in one: (first step, last step, text)."""
    found: list[tuple[int, int, str]] = []
    for step, text in translations:
        if found and found[-1][2] == text:
            found[-1] = (found[-1][0], step, text)
        else:
            found.append((step, step, text))
    return found


def _some(stretches: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """A handful from the first to the last, evenly spaced."""
    gaps = _MAX_STRETCHES - 1
    if len(stretches) <= _MAX_STRETCHES:
        return stretches
    return [stretches[round(i * (len(stretches) - 1) / gaps)] for i in range(_MAX_STRETCHES)]


def text_findings(story: RunStory) -> str:
    """What the data doctor said of the training text."""
    if not story.corpora and not story.findings:
        return ""
    rows = [
        f"<tr><td>{escape(_file_name(side.get('name')))}</td><td>{_cell(side.get('n_lines'))}</td>"
        f"<td>{_cell(side.get('n_blank'))}</td><td>{_cell(_mean(side, 'words'))}</td>"
        f"<td>{_cell(_mean(side, 'characters'))}</td></tr>"
        for corpus in story.corpora
        for side in (corpus["source"], corpus["target"])
    ]
    sides = (
        '<div class="wide"><table>\n<thead><tr><th>file</th><th>lines</th><th>blank</th><th>words a line</th>'
        f"<th>characters a line</th></tr></thead>\n<tbody>{_joined(rows)}</tbody>\n</table></div>"
    )
    found = _joined(_finding(one) for one in story.findings)
    said = f'<ul class="findings">\n{found}\n</ul>' if found else "<p>The data doctor found nothing to remark on.</p>"
    return f"<section>\n<h2>The text it learned from</h2>\n{sides}\n{said}\n</section>"


def _finding(finding: dict[str, Any]) -> str:
    severity = str(finding.get("severity"))
    kind = severity if severity in ("note", "warning", "spoils") else "note"
    lines = finding.get("lines")
    numbers = ", ".join(str(line) for line in lines) if isinstance(lines, list | tuple) and lines else ""
    where = f" <small>line {escape(numbers)}</small>" if numbers else ""
    advice = f"<br><small>{escape(str(finding['advice']))}</small>" if finding.get("advice") else ""
    return f'<li class="{kind}"><b>{kind}</b>{escape(str(finding.get("message")))}{where}{advice}</li>'


def heads(story: RunStory) -> str:
    """Where the decoder's heads look, measured on the validation set."""
    best = (story.facts or {}).get("alignment_head")
    if not isinstance(best, dict):
        return ""
    layer, head = best.get("layer"), best.get("head")
    agreement, sharpness = number(best.get("agreement")), number(best.get("sharpness"))
    if not (isinstance(layer, int) and isinstance(head, int)):
        return ""
    knows = "knows best" if agreement is not None and agreement >= _KNOWS else "comes nearest to knowing"
    said = f"Head {head + 1} of decoder layer {layer + 1} {knows} which word comes from which"
    if agreement is not None and number(best.get("n_links")):
        said += f": it gives {agreement:.0%} of its weight to a word’s partner in the source"
    if sharpness is not None:
        said += f"; its largest weight is {sharpness:.0%} on average"
    return f"<section>\n<h2>The best heads</h2>\n<p>{said}.</p>\n{_wall(story, layer, head)}\n</section>"


def _wall(story: RunStory, layer: int, head: int) -> str:
    """One cell a head, where all of them were measured."""
    measured = (story.facts or {}).get("cross_heads")
    rows = measured.get("agreement") if isinstance(measured, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return ""
    body = []
    for i, row in enumerate(rows):
        cells = []
        for j, value in enumerate(row):
            share = min(1.0, max(0.0, number(value) or 0.0))
            kind = ' class="best"' if (i, j) == (layer, head) else ""
            cells.append(f'<td{kind} style="--w:{share:.3f}">{100 * share:.0f}</td>')
        body.append(f"<tr><th>layer {i + 1}</th>{''.join(cells)}</tr>")
    columns = "".join(f"<th>{j + 1}</th>" for j in range(max(map(len, rows), default=0)))
    return (
        f'<div class="wide"><table class="wall">\n<thead><tr><th></th>{columns}</tr></thead>\n'
        f"<tbody>{_joined(body)}</tbody>\n</table></div>\n"
        '<p class="soft"><small>Cross-attention, head by head: percent of the weight on the partner word, by the '
        "links that the validation pairs themselves suggest (IBM model 1, both directions).</small></p>"
    )


def validations(story: RunStory) -> str:
    """All the numbers, for whoever wants to read them off."""
    if not story.validations:
        return ""
    stride = -(-len(story.validations) // _MAX_ROWS)
    shown = [*story.validations[::-1][::stride]][::-1]
    translated = any(one.bleu is not None for one in shown)
    names = ("step", "loss", "perplexity", "right", *(("BLEU", "chrF++") if translated else ()))
    rows = []
    for one in shown:
        right = "" if one.accuracy is None else f"{one.accuracy:.1%}"
        cells = [f"{one.step:,}", _fixed(one.loss, 4), _fixed(one.perplexity, 2), right]
        cells += [_fixed(one.bleu, 1), _fixed(one.chrf, 1)] if translated else []
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<section>\n<h2>Validation</h2>\n<details><summary>{len(story.validations):,} measurements</summary>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{_joined(rows)}</tbody>\n'
        "</table></div></details>\n</section>"
    )


def notes(story: RunStory) -> str:
    """What happened on the way."""
    if not story.notes:
        return ""
    lines = _joined(f"<li>{escape(note)}</li>" for note in story.notes)
    return f'<section>\n<h2>On the way</h2>\n<ul class="findings">\n{lines}\n</ul>\n</section>'


def recipe(story: RunStory) -> str:
    """Every value, so that the run can be repeated."""
    if not story.recipe:
        return ""
    text = escape(tomli_w.dumps(story.recipe))
    return (
        "<section>\n<h2>The recipe</h2>\n<details><summary>every value of it, as in recipe.toml</summary>\n"
        f"<pre>{text}</pre></details>\n</section>"
    )


def _mean(side: dict[str, Any], unit: str) -> Any:
    lengths = side.get(unit)
    return lengths.get("mean") if isinstance(lengths, dict) else None


def _cell(value: Any) -> str:
    found = number(value)
    return "" if found is None else count(found) if isinstance(found, int) else few_digits(found)


def _fixed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _file_name(name: Any) -> str:
    return str(name).rsplit("/", 1)[-1]


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
