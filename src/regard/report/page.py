"""The report as one HTML file: no script, nothing from elsewhere, and the curves are drawn here."""

from __future__ import annotations

from html import escape
from math import log
from typing import Any

from regard import __version__
from regard.report import sections
from regard.report.chart import Line, chart, smooth
from regard.report.replay import number
from regard.report.style import STYLE
from regard.report.summary import RunStory
from regard.report.wording import count, duration, shape

REFRESH_SECONDS = 5

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_NO_SMOOTHING, _HARDER = "−log p of the right sub-word.", " In training, dropout makes it harder."


def report_page(story: RunStory, *, reloads: bool = False) -> str:
    """The whole page. With `reloads` it asks for itself again while the run goes on."""
    live = reloads and story.state == "running"
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">\n' if live else ""
    body = (
        _header(story, live),
        f'<section>\n<div class="charts">\n{_charts(story)}\n</div>\n</section>',
        sections.samples(story),
        sections.text_findings(story),
        sections.heads(story),
        sections.validations(story),
        sections.notes(story),
        sections.recipe(story),
        f"<footer>Made by regard {__version__}{_as_of(story)}.</footer>",
    )
    content = "\n".join(part for part in body if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n{refresh}'
        f"<title>{escape(story.name)} · training</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )


def summary(story: RunStory) -> str:
    """The run in one line: pairs, shape, parameters, time, scores."""
    plan, facts, scores = story.plan or {}, story.facts or {}, _scores(story)
    n_pairs = number(plan.get("n_pairs")) or number(facts.get("n_pairs"))
    n_parameters = number(plan.get("n_parameters")) or number(facts.get("n_parameters"))
    elapsed = story.speed.get("elapsed_seconds")
    parts = [
        f"{n_pairs:,} pairs" if n_pairs else "",
        shape(_part(story, "model")),
        f"{n_parameters / 1e6:.1f}M parameters" if n_parameters else "",
        "" if elapsed is None else f"{elapsed / 60:.1f} minutes" if elapsed < 6000 else duration(elapsed),
        ", ".join(f"{name} {value}" for name, value in scores.items()),
        _how_scored(story) if "BLEU" in scores else "",
    ]
    return " · ".join(part for part in parts if part)


def _header(story: RunStory, live: bool) -> str:
    done = story.steps[-1].step if story.steps else 0
    total = max(story.n_steps or 0, done)
    where = f"step {done:,} of {total:,}" if total else "no step yet"
    said = {
        "running": f"<b>training</b> · {where}",
        "stopped": f"<b>stopped</b> · {where}; the same command goes on from the last save",
        "finished": f"<b>finished</b> · {done:,} steps" if done else "<b>finished</b>",
    }[story.state]
    if story.eta_seconds is not None:
        said += f" · about {duration(story.eta_seconds)} left"
    if live:
        said += f" · this page reloads itself every {REFRESH_SECONDS} seconds until the training ends"
    share = 100 * done / total if total else 0.0
    bar = f'<div class="bar"><span style="width:{share:.1f}%"></span></div>\n' if story.state == "running" else ""
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in _figures(story).items())
    return (
        f'<header>\n<h1>{escape(story.name)}</h1>\n<p class="state {story.state}">{said}</p>\n{bar}'
        f'<p class="summary">{escape(summary(story))}</p>\n<dl class="figures">{figures}</dl>\n</header>'
    )


def _scores(story: RunStory) -> dict[str, str]:
    """Of the finished model, or of the last validation."""
    facts, last = story.facts or {}, story.validations[-1] if story.validations else None
    named = (("BLEU", "bleu", 1), ("chrF++", "chrf", 1), ("perplexity", "perplexity", 2))
    found = {}
    for name, key, digits in named:
        value = number(facts.get(key))
        if value is None and last is not None:
            value = getattr(last, key)
        if value is not None:
            found[name] = f"{value:,.{digits}f}"
    return found


def _how_scored(story: RunStory) -> str:
    """A score of a few greedy translations is none of a test set."""
    translated = number(_part(story, "training").get("translated"))
    n_validation = number((story.plan or {}).get("n_validation"))
    if translated is None:
        which = "first"
    elif n_validation is None:
        which = f"first {translated:,} (or fewer)"
    else:
        which = f"first {translated:,}" if translated < n_validation else f"{n_validation:,}"
    return f"BLEU and chrF++: greedy translations of the {which} validation sentences"


def _part(story: RunStory, name: str) -> dict[str, Any]:
    """A table of the recipe; empty where it has none."""
    found = story.recipe.get(name)
    return found if isinstance(found, dict) else {}


def _figures(story: RunStory) -> dict[str, str]:
    figures = _scores(story)
    if (elapsed := story.speed.get("elapsed_seconds")) is not None:
        figures["time"] = duration(elapsed)
    if (speed := story.speed.get("tokens_per_second")) is not None:
        figures["tokens a second"] = count(speed)
    return figures


def _charts(story: RunStory) -> str:
    steps, checks = story.steps, story.validations
    end = max(story.n_steps or 0, steps[-1].step if steps else 0, checks[-1].step if checks else 0)
    nll = [(one.step, log(one.perplexity)) for one in steps if one.perplexity is not None and one.perplexity > 0]
    loss, bleu, chrf = (
        [(one.step, value) for one in checks if (value := getattr(one, name)) is not None]
        for name in ("loss", "bleu", "chrf")
    )
    rate, speed = (
        [(one.step, value) for one in steps if (value := getattr(one, name)) is not None]
        for name in ("rate", "tokens_per_second")
    )
    training = Line(name="training", points=smooth(nll), raw=nll, colour="one")
    validation = Line(name="validation", points=loss, colour="two", dots=len(loss) <= 100)
    scores = [Line(name=name, points=points, colour=colour, dots=len(points) <= 100)
              for name, points, colour in (("BLEU", bleu, "two"), ("chrF++", chrf, "one"))]  # fmt: skip
    note = _NO_SMOOTHING + (_HARDER if (number(_part(story, "model").get("dropout")) or 0) > 0 else "")
    figures = (
        chart("Loss", [training, validation], x_end=end, note=note),
        chart("BLEU and chrF++", scores, x_end=end, unit="validation, greedy"),
        chart("Learning rate", [Line(name="rate", points=rate, colour="ink")], x_end=end),
        chart("Speed", [Line(name="now", points=smooth(speed), raw=speed, colour="ink")], x_end=end,
              unit="target tokens a second"),
    )  # fmt: skip
    return "\n".join(figure for figure in figures if figure)


def _as_of(story: RunStory) -> str:
    if story.updated_at is None:
        return ""
    return f"; last event {escape(story.updated_at[:19].replace('T', ' '))} UTC"
