"""The sections of the report below the curves: samples, findings, heads, validations, recipe.

Text from files is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import tomli_w

from regard.metrics import Measure
from regard.report.replay import number
from regard.report.summary import RunSummary, SampleHistory, ValidationPoint
from regard.report.wording import count, few_digits

_MAX_ROWS = 60  # in the table of validations
_MAX_OUTPUTS = 8  # per sample
_MIN_AGREEMENT = 0.4  # share of a head's weight on the aligned word; a random head has about a tenth of that


def samples(run: RunSummary) -> str:
    """Outputs for the same few validation examples during training."""
    if not run.samples:
        return ""
    blocks = "\n".join(map(_sample, run.samples))
    return (
        "<section>\n<h2>Samples during training</h2>\n"
        '<p class="soft">The first validation examples, and the outputs of the model. ✓ marks a correct output.</p>\n'
        f"{blocks}\n</section>"
    )


def _sample(sample: SampleHistory) -> str:
    rows = [(escape(name), text, "") for name, text in sample.given]
    for first, last, text in _evenly_spaced(_merge_equal(sample.outputs)):
        correct = sample.expected is not None and text.strip() == sample.expected.strip()
        steps = f"step {first:,}" if first == last else f"step {first:,}–{last:,}"
        rows.append((f"{steps}{' ✓' if correct else ''}", text, "right" if correct else ""))
    lines = "\n".join(
        f'<dt>{label}</dt><dd dir="auto" class="{kind}">{escape(text) or "<small>(empty)</small>"}</dd>'
        for label, text, kind in rows
    )
    return f'<div class="sample"><dl class="lines">\n{lines}\n</dl></div>'


def _merge_equal(outputs: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Consecutive equal outputs as one: (first step, last step, text)."""
    merged: list[tuple[int, int, str]] = []
    for step, text in outputs:
        if merged and merged[-1][2] == text:
            merged[-1] = (merged[-1][0], step, text)
        else:
            merged.append((step, step, text))
    return merged


def _evenly_spaced(outputs: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """At most `_MAX_OUTPUTS`, including the first and the last."""
    if len(outputs) <= _MAX_OUTPUTS:
        return outputs
    last = len(outputs) - 1
    return [outputs[round(i * last / (_MAX_OUTPUTS - 1))] for i in range(_MAX_OUTPUTS)]


def text_findings(run: RunSummary) -> str:
    """The findings of the data doctor on the training text."""
    if not run.corpora and not run.findings:
        return ""
    rows = "\n".join(
        f"<tr><td>{escape(str(side.get('name')).rsplit('/', 1)[-1])}</td><td>{_cell(side.get('n_lines'))}</td>"
        f"<td>{_cell(side.get('n_blank'))}</td><td>{_cell(_mean(side, 'words'))}</td>"
        f"<td>{_cell(_mean(side, 'characters'))}</td></tr>"
        for corpus in run.corpora
        for side in (corpus["source"], corpus["target"])
    )
    table = (
        ""
        if not rows
        else (
            '<div class="wide"><table>\n<thead><tr><th>file</th><th>lines</th><th>blank</th><th>words per line</th>'
            f"<th>characters per line</th></tr></thead>\n<tbody>{rows}</tbody>\n</table></div>"
        )
    )
    items = "\n".join(map(_finding, run.findings))
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
    body = ""
    for i, row in enumerate(rows):
        body += f"\n<tr><th>layer {i + 1}</th>"
        for j, value in enumerate(row):
            share = min(1.0, max(0.0, number(value) or 0.0))
            kind = ' class="best"' if (i, j) == (layer, head) else ""
            body += f'<td{kind} style="--weight:{share:.3f}">{100 * share:.0f}</td>'
        body += "</tr>"
    columns = "".join(f"<th>{j + 1}</th>" for j in range(max(map(len, rows), default=0)))
    return (
        f'<div class="wide"><table class="heads">\n<thead><tr><th></th>{columns}</tr></thead>\n'
        f"<tbody>{body}</tbody>\n</table></div>\n"
        '<p class="soft"><small>Percent of each cross-attention head’s weight that is on the aligned word. '
        "Words were aligned in the validation pairs by IBM model 1 in both directions.</small></p>"
    )


def validations(run: RunSummary) -> str:
    """The measures of all validations as a table; the best value of each is bold."""
    if not run.validations:
        return ""
    stride = -(-len(run.validations) // _MAX_ROWS)
    shown = [*run.validations[::-1][::stride]][::-1]
    measures = [measure for measure in run.measures if any(measure.name in point.metrics for point in shown)]
    best = {measure.name: _best(measure, run.validations) for measure in measures}
    rows = ""
    for point in shown:
        rows += f"\n<tr><td>{point.step:,}</td>"
        for measure in measures:
            value = point.metrics.get(measure.name)
            kind = ' class="best"' if value is not None and value == best[measure.name] else ""
            rows += f"<td{kind}>{'' if value is None else measure.format(value)}</td>"
        rows += "</tr>"
    head = "".join(f"<th>{escape(name)}</th>" for name in ("step", *(measure.label for measure in measures)))
    return (
        f"<section>\n<h2>Validation</h2>\n<details><summary>{len(run.validations):,} validations</summary>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>\n'
        "</table></div></details>\n</section>"
    )


def notes(run: RunSummary) -> str:
    """Resumes, warnings and other events."""
    if not run.notes:
        return ""
    lines = "\n".join(f"<li>{escape(note)}</li>" for note in run.notes)
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


def _best(measure: Measure, points: Sequence[ValidationPoint]) -> float:
    values = [point.metrics[measure.name] for point in points if measure.name in point.metrics]
    return max(values) if measure.higher_is_better else min(values)
