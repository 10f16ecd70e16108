"""The report as one HTML file, with curves as SVG."""

from __future__ import annotations

from html import escape
from math import log
from typing import Any

from regard import __version__
from regard.html_page import html_document
from regard.report import sections
from regard.report.chart import Curve, chart, smooth
from regard.report.replay import number
from regard.report.summary import RunSummary
from regard.report.wording import count, duration, shape

REFRESH_SECONDS = 5

_LOSS_NOTE = "Negative log-likelihood per sub-word, without label smoothing."
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
    """The run in one line: pairs, shape, parameters, time, scores."""
    plan, facts, scores = run.plan or {}, run.facts or {}, _scores(run)
    n_pairs = number(plan.get("n_pairs")) or number(facts.get("n_pairs"))
    n_parameters = number(plan.get("n_parameters")) or number(facts.get("n_parameters"))
    elapsed = run.speed.get("elapsed_seconds")
    parts = [
        f"{n_pairs:,} pairs" if n_pairs else "",
        shape(_recipe_table(run, "model")),
        f"{n_parameters / 1e6:.1f}M parameters" if n_parameters else "",
        "" if elapsed is None else f"{elapsed / 60:.1f} minutes" if elapsed < 6000 else duration(elapsed),
        ", ".join(f"{name} {value}" for name, value in scores.items()),
        _how_scored(run) if "BLEU" in scores else "",
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


def _scores(run: RunSummary) -> dict[str, str]:
    """Scores of the finished model, or of the last validation."""
    facts, last = run.facts or {}, run.validations[-1] if run.validations else None
    named = (("BLEU", "bleu", 1), ("chrF++", "chrf", 1), ("perplexity", "perplexity", 2))
    scores = {}
    for name, key, digits in named:
        value = number(facts.get(key))
        if value is None and last is not None:
            value = getattr(last, key)
        if value is not None:
            scores[name] = f"{value:,.{digits}f}"
    return scores


def _how_scored(run: RunSummary) -> str:
    """What the scores were measured on: they are not those of a test set."""
    translated = number(_recipe_table(run, "training").get("translated"))
    n_validation = number((run.plan or {}).get("n_validation"))
    if translated is None:
        sentences = "first"
    elif n_validation is None:
        sentences = f"first {translated:,} (or fewer)"
    else:
        sentences = f"first {translated:,}" if translated < n_validation else f"{n_validation:,}"
    return f"BLEU and chrF++: greedy translations of the {sentences} validation sentences"


def _recipe_table(run: RunSummary, name: str) -> dict[str, Any]:
    """A table of the recipe; empty if it has none of that name."""
    table = run.recipe.get(name)
    return table if isinstance(table, dict) else {}


def _figures(run: RunSummary) -> dict[str, str]:
    figures = _scores(run)
    if (elapsed := run.speed.get("elapsed_seconds")) is not None:
        figures["time"] = duration(elapsed)
    if (speed := run.speed.get("tokens_per_second")) is not None:
        figures["tokens per second"] = count(speed)
    return figures


def _charts(run: RunSummary) -> str:
    steps, validations = run.steps, run.validations
    end = max(run.n_steps or 0, steps[-1].step if steps else 0, validations[-1].step if validations else 0)
    nll = [
        (point.step, log(point.perplexity)) for point in steps if point.perplexity is not None and point.perplexity > 0
    ]
    loss, bleu, chrf = (
        [(point.step, value) for point in validations if (value := getattr(point, name)) is not None]
        for name in ("loss", "bleu", "chrf")
    )
    rate, speed = (
        [(point.step, value) for point in steps if (value := getattr(point, name)) is not None]
        for name in ("rate", "tokens_per_second")
    )
    training = Curve(name="training", points=smooth(nll), raw=nll, colour="blue")
    validation = Curve(name="validation", points=loss, colour="orange", dots=len(loss) <= 100)
    scores = [Curve(name=name, points=points, colour=colour, dots=len(points) <= 100)
              for name, points, colour in (("BLEU", bleu, "orange"), ("chrF++", chrf, "blue"))]  # fmt: skip
    note = _LOSS_NOTE + (_DROPOUT_NOTE if (number(_recipe_table(run, "model").get("dropout")) or 0) > 0 else "")
    figures = (
        chart("Loss", [training, validation], x_end=end, note=note),
        chart("BLEU and chrF++", scores, x_end=end, unit="validation set, greedy"),
        chart("Learning rate", [Curve(name="rate", points=rate, colour="ink")], x_end=end),
        chart("Speed", [Curve(name="speed", points=smooth(speed), raw=speed, colour="ink")], x_end=end,
              unit="target tokens per second"),
    )  # fmt: skip
    return "\n".join(figure for figure in figures if figure)


def _as_of(run: RunSummary) -> str:
    if run.updated_at is None:
        return ""
    return f"; last event {escape(run.updated_at[:19].replace('T', ' '))} UTC"
