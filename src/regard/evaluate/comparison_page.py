"""A comparison as one HTML file: no script, nothing from elsewhere, light and dark, for a telephone and a desk."""

from collections.abc import Iterable
from html import escape

from regard.evaluate.comparison import Bucket, Comparison, Difference, Example
from regard.evaluate.word_diff import Piece, mark_changes

_STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #fff; --ink: #1f2328; --soft: #5c6370; --line: #e2dfd8;
  --a: #a8480a; --a-tint: #fde3cd; --b: #1d56b3; --b-tint: #d9e7fb; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --card: #1e2126; --ink: #e6e4df; --soft: #a0a5ae; --line: #343941;
    --a: #f2a35e; --a-tint: #51300f; --b: #86b4f5; --b-tint: #1b3963; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .75rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .5rem 0; }
.soft, small, th { color: var(--soft); font-weight: normal; }
.names { margin: 0; overflow-wrap: anywhere; }
.key { display: inline-block; min-width: 1.4em; padding: 0 .3em; border-radius: .25em; text-align: center;
  font-weight: 600; }
.key.a { color: var(--a); background: var(--a-tint); }
.key.b { color: var(--b); background: var(--b-tint); }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .4rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-size: .85rem; }
th small, td small { display: block; }
td small, .lengths td { white-space: nowrap; }
td:first-child small { white-space: normal; }
td.picture { width: 34%; min-width: 12rem; vertical-align: middle; }
svg { display: block; width: 100%; height: 1.5rem; }
.bar { height: .55rem; border-radius: .2rem; margin: .25rem 0; }
.bar.a, .share .a { background: var(--a); }
.bar.b, .share .b { background: var(--b); }
.share { display: flex; height: .9rem; gap: 2px; margin: .75rem 0 .25rem; }
.share > * { border-radius: .2rem; }
.share .tie { background: var(--line); }
.counts { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0; padding: 0; list-style: none; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  margin: .75rem 0; }
article h3 { font-size: .85rem; font-weight: normal; color: var(--soft); margin: 0 0 .5rem; }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: .35rem .75rem; margin: 0; }
dt { color: var(--soft); font-size: .85rem; padding-top: .1rem; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; unicode-bidi: plaintext; text-align: start; }
mark { color: inherit; border-radius: .2em; padding: .05em .1em; }
mark.a { background: var(--a-tint); box-shadow: inset 0 -2px var(--a); }
mark.b { background: var(--b-tint); box-shadow: inset 0 -2px var(--b); }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--soft); overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  td.picture, th.picture { display: none; }
  th, td { padding: .4rem .25rem; font-size: .9rem; }
  th, small { font-size: .8rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd + dt { margin-top: .5rem; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def comparison_page(comparison: Comparison, *, name_a: str, name_b: str) -> str:
    """The whole page. Everything that came from a file is escaped."""
    body = [
        f"<h1>{escape(comparison.verdict)}</h1>",
        *(f'<p class="names">{_key(side)} {escape(name)}</p>' for side, name in (("A", name_a), ("B", name_b))),
        f'<p class="soft">{comparison.n_sentences:,} sentences; '
        f"{comparison.n_identical:,} of them translated word for word alike.</p>",
        _scores(comparison.changes),
        _wins(comparison),
        _lengths(comparison.buckets),
        _examples("Where B is better", comparison.better_in_b, comparison.b_wins),
        _examples("Where A is better", comparison.better_in_a, comparison.a_wins),
        _footer(comparison.changes),
    ]
    head = (
        '<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(name_a)} and {escape(name_b)}</title>\n"
        f"<style>{_STYLE}</style>"
    )
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )


def _key(side: str) -> str:
    return f'<span class="key {side.lower()}">{side}</span>'


def _scores(changes: tuple[Difference, ...]) -> str:
    reach = max((abs(end) for one in changes for end in (one.interval.low, one.interval.high)), default=0) or 1
    rows = []
    for one in changes:
        ends = f"{_signed(one.interval.low)} to {_signed(one.interval.high)}"
        note = "<small>lower is better</small>" if one.lower_is_better else ""
        rows.append(
            f"<tr><td>{one.name}{note}</td><td>{one.a:.2f}</td><td>{one.b:.2f}</td>"
            f"<td>{_signed(one.difference)}<small>{ends}</small></td>"
            f'<td class="picture">{_picture(one, reach)}</td>'
            f"<td>{one.p_randomization:.4f}<small>{one.p_bootstrap:.4f}</small></td></tr>"
        )
    return (
        f"<h2>Scores</h2>\n<table>\n<thead><tr><th>measure</th><th>{_key('A')}</th><th>{_key('B')}</th>"
        '<th>B − A<small>95% interval</small></th><th class="picture"></th>'
        "<th>p swap<small>p draw</small></th></tr></thead>\n"
        f"<tbody>{_lines(rows)}</tbody>\n</table>"
    )


def _picture(change: Difference, reach: float) -> str:
    """The interval of the difference, on a line with zero in its middle."""

    def at(value: float) -> str:
        return f"{50 + 46 * value / reach:.2f}%"

    low, high, middle = at(change.interval.low), at(change.interval.high), at(change.difference)
    colour = f"var(--{change.better.lower()})" if change.better else "var(--soft)"
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
    said = "".join(
        f"<li>{label}: {n:,} <small>({100 * n / comparison.n_sentences:.0f}%)</small></li>" for _, label, n in counts
    )
    return (
        '<h2>Sentence by sentence</h2>\n<p class="soft">Which translation of each sentence has the higher chrF++.</p>\n'
        f'<div class="share" aria-hidden="true">{bars}</div>\n<ul class="counts">{said}</ul>'
    )


def _lengths(buckets: tuple[Bucket, ...]) -> str:
    longest = max((max(one.chrf_a, one.chrf_b) for one in buckets), default=0) or 1
    rows = []
    for one in buckets:
        bars = "".join(
            f'<div class="bar {side}" style="width:{100 * value / longest:.1f}%"></div>'
            for side, value in (("a", one.chrf_a), ("b", one.chrf_b))
        )
        rows.append(
            f"<tr><td>{one.label}</td><td>{one.n_sentences:,}</td><td>{one.bleu_a:.1f}</td><td>{one.bleu_b:.1f}</td>"
            f'<td>{one.chrf_a:.1f}</td><td>{one.chrf_b:.1f}</td><td class="picture" aria-hidden="true">{bars}</td></tr>'
        )
    return (
        '<h2>By length of the reference</h2>\n<table class="lengths">\n<thead><tr><th>tokens</th><th>sentences</th>'
        f"<th>BLEU {_key('A')}</th><th>{_key('B')}</th><th>chrF++ {_key('A')}</th><th>{_key('B')}</th>"
        f'<th class="picture"></th></tr></thead>\n<tbody>{_lines(rows)}</tbody>\n</table>'
    )


def _examples(title: str, examples: tuple[Example, ...], n_all: int) -> str:
    if not examples:
        return ""
    shown = f"the {len(examples)} largest of {n_all:,} differences" if n_all > len(examples) else "all of them"
    cards = _lines(_card(one) for one in examples)
    return f"<section>\n<h2>{title} <small>({shown})</small></h2>\n{cards}\n</section>"


def _card(example: Example) -> str:
    pieces_a, pieces_b = mark_changes(example.a, example.b)
    parts = [] if example.source is None else [("source", escape(example.source))]
    parts += [("reference", escape(reference)) for reference in example.references]
    parts += [(_key("A"), _marked(pieces_a, "a")), (_key("B"), _marked(pieces_b, "b"))]
    rows = _lines(f'<dt>{name}</dt><dd dir="auto">{text}</dd>' for name, text in parts)
    return (
        f"<article>\n<h3>line {example.line:,} · chrF++ {example.chrf_a:.1f} → {example.chrf_b:.1f} "
        f"({example.chrf_b - example.chrf_a:+.1f})</h3>\n<dl>\n{rows}\n</dl>\n</article>"
    )


def _marked(pieces: list[Piece], side: str) -> str:
    if not any(text for _, text in pieces):
        return '<span class="soft">(empty)</span>'
    return "".join(
        f'<mark class="{side}">{escape(text)}</mark>' if changed else escape(text) for changed, text in pieces
    )


def _footer(changes: tuple[Difference, ...]) -> str:
    signatures = "<br>\n".join(f"{one.name}|{escape(one.signature)}" for one in changes)
    return (
        "<footer>\n<p>p is how often chance alone gives a difference this large: by swapping outputs between A and B "
        "(p swap: approximate randomisation, which decides here, at 0.05), and by drawing sentences again "
        "(p draw: paired bootstrap, which also gives the intervals).</p>\n"
        f"<p>sacreBLEU signatures:<br>\n{signatures}</p>\n</footer>"
    )


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)
