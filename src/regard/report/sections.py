"""The sections of the report below the curves: samples, findings, heads, validations, recipe.

Text from files is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import tomli_w

from regard.report.replay import number
from regard.report.summary import RunSummary, SampleHistory
from regard.report.wording import count, few_digits

_MAX_ROWS = 60  # in the table of validations
_MAX_TRANSLATIONS = 8  # per sample
_MIN_AGREEMENT = 0.4  # share of a head's weight on the aligned word; a random head has about a tenth of that


def samples(run: RunSummary) -> str:
    """Translations of the same few sentences during training."""
    if not run.samples:
        return ""
    blocks = _joined(_sample(sample) for sample in run.samples)
    return (
        "<section>\n<h2>Translations during training</h2>\n"
        '<p class="soft">Validation sentences, translated greedily. ✓ marks a translation equal to the reference.</p>\n'
        f"{blocks}\n</section>"
    )


def _sample(sample: SampleHistory) -> str:
    rows = [("source", sample.source, ""), ("reference", sample.reference, "")]
    for first, last, text in _evenly_spaced(_merge_equal(sample.translations)):
        correct = text.strip() == sample.reference.strip()
        steps = f"step {first:,}" if first == last else f"step {first:,}–{last:,}"
        rows.append((f"{steps}{' ✓' if correct else ''}", text, "right" if correct else ""))
    lines = _joined(
        f'<dt>{label}</dt><dd dir="auto" class="{kind}">{escape(text) or "<small>(empty)</small>"}</dd>'
        for label, text, kind in rows
    )
    return f'<div class="sample"><dl class="lines">\n{lines}\n</dl></div>'


def _merge_equal(translations: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Consecutive equal translations as one: (first step, last step, text)."""
    merged: list[tuple[int, int, str]] = []
    for step, text in translations:
        if merged and merged[-1][2] == text:
            merged[-1] = (merged[-1][0], step, text)
        else:
            merged.append((step, step, text))
    return merged


def _evenly_spaced(translations: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """At most `_MAX_TRANSLATIONS`, including the first and the last."""
    if len(translations) <= _MAX_TRANSLATIONS:
        return translations
    last = len(translations) - 1
    return [translations[round(i * last / (_MAX_TRANSLATIONS - 1))] for i in range(_MAX_TRANSLATIONS)]


def text_findings(run: RunSummary) -> str:
    """The findings of the data doctor on the training text."""
    if not run.corpora and not run.findings:
        return ""
    rows = [
        f"<tr><td>{escape(_file_name(side.get('name')))}</td><td>{_cell(side.get('n_lines'))}</td>"
        f"<td>{_cell(side.get('n_blank'))}</td><td>{_cell(_mean(side, 'words'))}</td>"
        f"<td>{_cell(_mean(side, 'characters'))}</td></tr>"
        for corpus in run.corpora
        for side in (corpus["source"], corpus["target"])
    ]
    table = (
        '<div class="wide"><table>\n<thead><tr><th>file</th><th>lines</th><th>blank</th><th>words per line</th>'
        f"<th>characters per line</th></tr></thead>\n<tbody>{_joined(rows)}</tbody>\n</table></div>"
    )
    items = _joined(_finding(finding) for finding in run.findings)
    findings = f'<ul class="findings">\n{items}\n</ul>' if items else "<p>The data doctor found no problems.</p>"
    return f"<section>\n<h2>Training text</h2>\n{table}\n{findings}\n</section>"


def _finding(finding: dict[str, Any]) -> str:
    severity = str(finding.get("severity"))
    kind = {"warning": "warning", "spoils": "error"}.get(severity, "note")
    lines = finding.get("lines")
    numbers = ", ".join(str(line) for line in lines) if isinstance(lines, list | tuple) and lines else ""
    places = f" <small>line {escape(numbers)}</small>" if numbers else ""
    advice = f"<br><small>{escape(str(finding['advice']))}</small>" if finding.get("advice") else ""
    return f'<li class="{kind}"><b>{kind}</b>{escape(str(finding.get("message")))}{places}{advice}</li>'


def heads(run: RunSummary) -> str:
    """How well the cross-attention heads align words, measured on the validation set."""
    best = (run.facts or {}).get("alignment_head")
    if not isinstance(best, dict):
        return ""
    layer, head = best.get("layer"), best.get("head")
    agreement, sharpness = number(best.get("agreement")), number(best.get("sharpness"))
    if not (isinstance(layer, int) and isinstance(head, int)):
        return ""
    weak = "" if agreement is not None and agreement >= _MIN_AGREEMENT else ", though weakly"
    sentence = f"Head {head + 1} of decoder layer {layer + 1} aligns source and target words best{weak}"
    if agreement is not None and number(best.get("n_links")):
        sentence += f": {agreement:.0%} of its weight is on the aligned source word"
    if sharpness is not None:
        sentence += f"; its largest weight is {sharpness:.0%} on average"
    return f"<section>\n<h2>Alignment heads</h2>\n<p>{sentence}.</p>\n{_head_table(run, layer, head)}\n</section>"


def _head_table(run: RunSummary, layer: int, head: int) -> str:
    """One cell per head, if all of them were measured."""
    measured = (run.facts or {}).get("cross_heads")
    rows = measured.get("agreement") if isinstance(measured, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return ""
    body = []
    for i, row in enumerate(rows):
        cells = []
        for j, value in enumerate(row):
            share = min(1.0, max(0.0, number(value) or 0.0))
            kind = ' class="best"' if (i, j) == (layer, head) else ""
            cells.append(f'<td{kind} style="--weight:{share:.3f}">{100 * share:.0f}</td>')
        body.append(f"<tr><th>layer {i + 1}</th>{''.join(cells)}</tr>")
    columns = "".join(f"<th>{j + 1}</th>" for j in range(max(map(len, rows), default=0)))
    return (
        f'<div class="wide"><table class="heads">\n<thead><tr><th></th>{columns}</tr></thead>\n'
        f"<tbody>{_joined(body)}</tbody>\n</table></div>\n"
        '<p class="soft"><small>Percent of each cross-attention head’s weight that is on the aligned word. '
        "Words were aligned in the validation pairs by IBM model 1 in both directions.</small></p>"
    )


def validations(run: RunSummary) -> str:
    """The scores of all validations as a table."""
    if not run.validations:
        return ""
    stride = -(-len(run.validations) // _MAX_ROWS)
    shown = [*run.validations[::-1][::stride]][::-1]
    translated = any(point.bleu is not None for point in shown)
    names = ("step", "loss", "perplexity", "accuracy", *(("BLEU", "chrF++") if translated else ()))
    rows = []
    for point in shown:
        accuracy = "" if point.accuracy is None else f"{point.accuracy:.1%}"
        cells = [f"{point.step:,}", _fixed(point.loss, 4), _fixed(point.perplexity, 2), accuracy]
        cells += [_fixed(point.bleu, 1), _fixed(point.chrf, 1)] if translated else []
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<section>\n<h2>Validation</h2>\n<details><summary>{len(run.validations):,} validations</summary>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{_joined(rows)}</tbody>\n'
        "</table></div></details>\n</section>"
    )


def notes(run: RunSummary) -> str:
    """Resumes, warnings and other events."""
    if not run.notes:
        return ""
    lines = _joined(f"<li>{escape(note)}</li>" for note in run.notes)
    return f'<section>\n<h2>Events</h2>\n<ul class="findings">\n{lines}\n</ul>\n</section>'


def recipe(run: RunSummary) -> str:
    """Every value of the recipe, so that the run can be repeated."""
    if not run.recipe:
        return ""
    text = escape(tomli_w.dumps(run.recipe))
    return (
        f"<section>\n<h2>Recipe</h2>\n<details><summary>recipe.toml</summary>\n<pre>{text}</pre></details>\n</section>"
    )


def _mean(side: dict[str, Any], unit: str) -> Any:
    lengths = side.get(unit)
    return lengths.get("mean") if isinstance(lengths, dict) else None


def _cell(value: Any) -> str:
    valid = number(value)
    return "" if valid is None else count(valid) if isinstance(valid, int) else few_digits(valid)


def _fixed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _file_name(name: Any) -> str:
    return str(name).rsplit("/", 1)[-1]


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
