"""The report as one HTML file, with curves as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from regard import __version__
from regard.html_page import html_document
from regard.metrics import Measure, chart_groups, headline
from regard.report import sections
from regard.report.chart import COLOURS, Curve, chart, smooth
from regard.report.replay import number
from regard.report.summary import RunSummary
from regard.report.wording import count, duration, sizes, title

REFRESH_SECONDS = 5

_DROPOUT_NOTE = " The training loss is measured with dropout, the validation loss without."


def report_page(run: RunSummary, *, reload: bool = False) -> str:
    """The whole page. With `reload`, the browser reloads it until the run ends."""
    live = reload and run.state == "running"
    body = (
        _header(run, live),
        f'<section>\n<div class="charts">\n{_charts(run)}\n</div>\n</section>',
        sections.samples(run),
        sections.text_findings(run),
        sections.heads(run),
        sections.validations(run),
        sections.notes(run),
        sections.recipe(run),
        f"<footer>Written by regard {__version__}{_as_of(run)}.</footer>",
    )
    content = "\n".join(part for part in body if part)
    return html_document(f"{run.name} · training", content, refresh_seconds=REFRESH_SECONDS if live else None)


def summary_line(run: RunSummary) -> str:
    """The run in one line: data, size, parameters, time, scores."""
    plan, facts, scores = run.plan or {}, run.facts or {}, _scores(run)
    n_pairs = number(plan.get("n_pairs")) or number(facts.get("n_pairs"))
    n_parameters = number(plan.get("n_parameters")) or number(facts.get("n_parameters"))
    elapsed = run.speed.get("elapsed_seconds")
    parts = [
        f"{n_pairs:,} {plan.get('examples', 'pairs')}" if n_pairs else "",
        str(plan.get("size") or sizes(_recipe_table(run, "model"))),
        f"{n_parameters / 1e6:.1f}M parameters" if n_parameters else "",
        "" if elapsed is None else f"{elapsed / 60:.1f} minutes" if elapsed < 6000 else duration(elapsed),
        ", ".join(f"{measure.label} {value}" for measure, value in scores.items()),
        _how_scored(run, scores),
    ]
    return " · ".join(part for part in parts if part)


def _header(run: RunSummary, live: bool) -> str:
    n_done = run.steps[-1].step if run.steps else 0
    total = max(run.n_steps or 0, n_done)
    progress = f"step {n_done:,} of {total:,}" if total else "no steps yet"
    state = {
        "running": f"<b>training</b> · {progress}",
        "stopped": f"<b>stopped</b> · {progress}; run the same command again to resume from the last checkpoint",
        "finished": f"<b>finished</b> · {n_done:,} steps" if n_done else "<b>finished</b>",
    }[run.state]
    if run.eta_seconds is not None:
        state += f" · about {duration(run.eta_seconds)} left"
    if live:
        state += f" · this page reloads every {REFRESH_SECONDS} seconds until training ends"
    share = 100 * n_done / total if total else 0.0
    bar = f'<div class="progress"><span style="width:{share:.1f}%"></span></div>\n' if run.state == "running" else ""
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in _figures(run).items())
    return (
        f'<header>\n<h1>{escape(run.name)}</h1>\n<p class="state {run.state}">{state}</p>\n{bar}'
        f'<p class="summary">{escape(summary_line(run))}</p>\n<dl class="figures">{figures}</dl>\n</header>'
    )


def _scores(run: RunSummary) -> dict[Measure, str]:
    """Values of the finished model, or of the last validation."""
    facts, last = run.facts or {}, run.validations[-1].metrics if run.validations else {}
    scores = {}
    for measure in headline(run.measures):
        value = number(facts.get(measure.name))
        if (value := last.get(measure.name) if value is None else value) is not None:
            scores[measure] = measure.format(value)
    return scores


def _how_scored(run: RunSummary, scores: Iterable[Measure]) -> str:
    """What was measured on only a part of the validation set, and on how much of it."""
    n_validation, training = number((run.plan or {}).get("n_validation")), _recipe_table(run, "training")

    def fill(match: re.Match[str]) -> str:
        n = number(training.get(match[1]))
        return "" if n is None else f"{n if n_validation is None else min(n, n_validation):,} "

    labels: dict[str, list[str]] = {}
    for measure in scores:
        labels.setdefault(re.sub(r"\{(\w+)\} ", fill, measure.note), []).append(measure.label)
    return "; ".join(f"{' and '.join(names)}: {note}" for note, names in labels.items() if note)


def _recipe_table(run: RunSummary, name: str) -> dict[str, Any]:
    """A table of the recipe; empty if it has none of that name."""
    table = run.recipe.get(name)
    return table if isinstance(table, dict) else {}


def _figures(run: RunSummary) -> dict[str, str]:
    figures = {measure.label: value for measure, value in _scores(run).items()}
    if (elapsed := run.speed.get("elapsed_seconds")) is not None:
        figures["time"] = duration(elapsed)
    if (speed := run.speed.get("tokens_per_second")) is not None:
        figures[f"{run.unit} per second"] = count(speed)
    return figures


def _charts(run: RunSummary) -> str:
    steps, validations = run.steps, run.validations
    end = max(run.n_steps or 0, steps[-1].step if steps else 0, validations[-1].step if validations else 0)
    nll, rate, speed = (
        [(point.step, value) for point in steps if (value := getattr(point, name)) is not None]
        for name in ("nll", "rate", "tokens_per_second")
    )
    training = Curve(name="training", points=smooth(nll), raw=nll, colour="blue")
    validation = _measured(run, "loss", "validation", "orange")
    note = f"Negative log-likelihood per {run.unit.removesuffix('s')}, without label smoothing."
    note += _DROPOUT_NOTE if (number(_recipe_table(run, "model").get("dropout")) or 0) > 0 else ""
    figures = (
        chart("Loss", [training, validation], x_end=end, note=note),
        *(_measure_chart(run, group, end) for group in chart_groups(run.measures)),
        chart("Learning rate", [Curve(name="rate", points=rate, colour="ink")], x_end=end),
        chart("Speed", [Curve(name="speed", points=smooth(speed), raw=speed, colour="ink")], x_end=end,
              unit=f"{run.unit} per second"),
    )  # fmt: skip
    return "\n".join(figure for figure in figures if figure)


def _measure_chart(run: RunSummary, group: Sequence[Measure], end: float) -> str:
    """One chart of measures that look alike; shares from 0 to 100%, and what should be low perhaps logarithmic."""
    share, low = group[0].is_share, not group[0].higher_is_better
    curves = [
        _measured(run, measure.name, measure.label, colour, factor=100 if share else 1)
        for measure, colour in zip(group, COLOURS, strict=False)
    ]
    return chart(title([measure.label for measure in group]), curves, x_end=end, top=100 if share else None,
                 unit="percent" if share else "", can_be_log=low and not share)  # fmt: skip


def _measured(run: RunSummary, measure: str, name: str, colour: str, factor: float = 1) -> Curve:
    points = [(point.step, factor * point.metrics[measure]) for point in run.validations if measure in point.metrics]
    return Curve(name=name, points=points, colour=colour, dots=len(points) <= 100)


def _as_of(run: RunSummary) -> str:
    if run.updated_at is None:
        return ""
    return f"; last event {escape(run.updated_at[:19].replace('T', ' '))} UTC"
