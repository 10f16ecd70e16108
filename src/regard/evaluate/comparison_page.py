"""The comparison of two systems as one HTML file."""

from html import escape
from math import ceil

from regard.evaluate.comparison import Bucket, Comparison, Difference, Example
from regard.evaluate.word_diff import Span, mark_changes
from regard.html_page import html_document


def comparison_page(comparison: Comparison, *, name_a: str, name_b: str) -> str:
    """The whole page. Text from files is escaped."""
    body = [
        f"<h1>{escape(comparison.verdict)}</h1>",
        *(f"<p>{_key(side)} {escape(name)}</p>" for side, name in (("A", name_a), ("B", name_b))),
        f'<p class="soft">{comparison.n_sentences:,} sentences, '
        f"{comparison.n_identical:,} with identical translations.</p>",
        _scores(comparison.changes),
        _wins(comparison),
        _lengths(comparison.length_of, comparison.buckets),
        _examples("Where B is better", comparison.better_in_b, comparison.b_wins),
        _examples("Where A is better", comparison.better_in_a, comparison.a_wins),
        _footer(comparison.changes),
    ]
    return html_document(f"{name_a} and {name_b}", "\n".join(body))


def _key(side: str) -> str:
    return f'<span class="key {side.lower()}">{side}</span>'


def _scores(changes: tuple[Difference, ...]) -> str:
    largest = max((abs(end) for change in changes for end in (change.interval.low, change.interval.high)), default=0)
    rows = ""
    for change in changes:
        ends = f"{_signed(change.interval.low)} to {_signed(change.interval.high)}"
        note = "<small>lower is better</small>" if change.lower_is_better else ""
        rows += (
            f"\n<tr><td>{change.name}{note}</td><td>{change.a:.2f}</td><td>{change.b:.2f}</td>"
            f"<td>{_signed(change.difference)}<small>{ends}</small></td>"
            f'<td class="picture">{_interval_chart(change, largest or 1)}</td>'
            f"<td>{change.p_randomization:.4f}<small>{change.p_bootstrap:.4f}</small></td></tr>"
        )
    return (
        '<h2>Scores</h2>\n<table class="full">\n<thead><tr><th>measure</th>'
        f"<th>{_key('A')}</th><th>{_key('B')}</th>"
        '<th>B − A<small>95% interval</small></th><th class="picture"></th>'
        "<th>p<small>bootstrap</small></th></tr></thead>\n"
        f"<tbody>{rows}</tbody>\n</table>"
    )


def _interval_chart(change: Difference, largest: float) -> str:
    """The 95% interval of the difference, on an axis from -largest to largest."""

    def position(value: float) -> str:
        return f"{50 + 46 * value / largest:.2f}%"

    low, high, middle = (position(x) for x in (change.interval.low, change.interval.high, change.difference))
    colour = {"A": "var(--orange)", "B": "var(--blue)", None: "var(--soft)"}[change.better]
    ends = f"{_signed(change.interval.low)} to {_signed(change.interval.high)}"
    return (
        f'<svg role="img" aria-label="{change.name}: {_signed(change.difference)}, 95% interval {ends}">'
        '<line x1="50%" x2="50%" y1="0" y2="100%" stroke="var(--line)" stroke-width="2"/>'
        f'<line x1="{low}" x2="{high}" y1="50%" y2="50%" stroke="{colour}" stroke-width="3" stroke-linecap="round"/>'
        f'<circle cx="{middle}" cy="50%" r="5" fill="{colour}"/></svg>'
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _wins(comparison: Comparison) -> str:
    counts = (
        ("a", "A better", comparison.a_wins),
        ("tie", "equal", comparison.ties),
        ("b", "B better", comparison.b_wins),
    )
    bars = "".join(f'<span class="{name}" style="flex:{n}"></span>' for name, _, n in counts if n)
    items = "".join(
        f"<li>{label}: {n:,} <small>({100 * n / comparison.n_sentences:.0f}%)</small></li>" for _, label, n in counts
    )
    return (
        '<h2>Sentence by sentence</h2>\n<p class="soft">Which translation of each sentence has the higher chrF++.</p>\n'
        f'<div class="share" aria-hidden="true">{bars}</div>\n<ul class="counts">{items}</ul>'
    )


def _lengths(length_of: str, buckets: tuple[Bucket, ...]) -> str:
    rows = ""
    for bucket in buckets:
        ends = f"{_signed(bucket.interval.low)} to {_signed(bucket.interval.high)}"
        rows += (
            f"\n<tr><td>{bucket.label}</td><td>{bucket.n_sentences:,}</td>"
            f"<td>{bucket.bleu_a:.1f}</td><td>{bucket.bleu_b:.1f}</td>"
            f"<td>{_signed(bucket.bleu_b - bucket.bleu_a)}<small>{ends}</small></td>"
            f'<td class="wide">{bucket.chrf_a:.1f}</td><td class="wide">{bucket.chrf_b:.1f}</td></tr>'
        )
    return (
        f"<h2>By length of the {length_of}</h2>\n{_length_chart(length_of, buckets)}\n"
        '<table class="full">\n<thead><tr><th>tokens</th><th>sentences</th>'
        f"<th>BLEU {_key('A')}</th><th>{_key('B')}</th><th>B − A<small>95% interval</small></th>"
        f"<th class='wide'>chrF++ {_key('A')}</th><th class='wide'>{_key('B')}</th></tr></thead>\n"
        f"<tbody>{rows}</tbody>\n</table>"
    )


def _length_chart(length_of: str, buckets: tuple[Bucket, ...]) -> str:
    """BLEU of both systems, from zero: one point per bucket."""
    if len(buckets) < 2:
        return ""
    width, height, left, bottom = 640, 240, 36, 34
    highest = ceil(max(max(bucket.bleu_a, bucket.bleu_b) for bucket in buckets) / 10) * 10 or 10

    def x(number: int) -> float:
        return left + (width - left) * (number + 0.5) / len(buckets)

    def y(bleu: float) -> float:
        return 8 + (height - 8 - bottom) * (1 - bleu / highest)

    parts = []
    for tick in range(0, highest + 1, 10 if highest <= 60 else 20):
        line = f'<line class="grid" x1="{left}" x2="{width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        parts.append(f'{line}<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for number, bucket in enumerate(buckets):
        parts.append(f'<text x="{x(number):.1f}" y="{height - 18}" text-anchor="middle">{bucket.label}</text>')
    parts.append(f'<text x="{left}" y="{height - 2}">BLEU by number of tokens of the {length_of}</text>')
    for side, colour in (("a", "orange"), ("b", "blue")):
        points = [(x(number), y(getattr(bucket, f"bleu_{side}"))) for number, bucket in enumerate(buckets)]
        parts.append(f'<polyline class="{colour}" points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}"/>')
        parts += [f'<circle class="{colour}" cx="{px:.1f}" cy="{py:.1f}" r="3.5"/>' for px, py in points]
        px, py = points[-1]
        parts.append(f'<text class="name {colour}" x="{px + 9:.1f}" y="{py + 4:.1f}">{side.upper()}</text>')
    label = f"BLEU by length of the {length_of}; the numbers are in the table below"
    return f'<svg class="lengths" role="img" aria-label="{label}" viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'


def _examples(title: str, examples: tuple[Example, ...], n_all: int) -> str:
    if not examples:
        return ""
    shown = f"the {len(examples)} largest of {n_all:,} differences" if n_all > len(examples) else "all"
    cards = "\n".join(map(_card, examples))
    return f"<section>\n<h2>{title} <small>({shown})</small></h2>\n{cards}\n</section>"


def _card(example: Example) -> str:
    spans_a, spans_b = mark_changes(example.a, example.b)
    parts = [] if example.source is None else [("source", escape(example.source))]
    parts += [("reference", escape(reference)) for reference in example.references]
    parts += [(_key("A"), _marked(spans_a, "a")), (_key("B"), _marked(spans_b, "b"))]
    rows = "\n".join(f'<dt>{name}</dt><dd dir="auto">{text}</dd>' for name, text in parts)
    return (
        f'<div class="sample">\n<h3>line {example.line:,} · chrF++ {example.chrf_a:.1f} → {example.chrf_b:.1f} '
        f'({example.chrf_b - example.chrf_a:+.1f})</h3>\n<dl class="lines">\n{rows}\n</dl>\n</div>'
    )


def _marked(spans: list[Span], side: str) -> str:
    if not any(text for _, text in spans):
        return '<span class="soft">(empty)</span>'
    return "".join(
        f'<mark class="{side}">{escape(text)}</mark>' if changed else escape(text) for changed, text in spans
    )


def _footer(changes: tuple[Difference, ...]) -> str:
    signatures = "<br>\n".join(f"{change.name}|{escape(change.signature)}" for change in changes)
    return (
        "<footer>\n<p>p is the probability of a difference at least this large if A and B were equally good. "
        "A difference is significant if p by approximate randomisation (swapping translations between A and B) is "
        "below 0.05. The paired bootstrap (resampling sentences) gives the second p and the intervals.</p>\n"
        f"<p>sacreBLEU signatures:<br>\n{signatures}</p>\n</footer>"
    )
