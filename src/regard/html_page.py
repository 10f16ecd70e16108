"""The HTML document and the style of the training report and the comparison page.

One file without scripts or external resources, in light and dark, for small and large screens.
"""

from html import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html_document(title: str, body: str, *, refresh_seconds: int | None = None) -> str:
    """A complete document. `title` is escaped here, `body` is HTML; the browser reloads it every `refresh_seconds`."""
    refresh = f'<meta http-equiv="refresh" content="{refresh_seconds}">\n' if refresh_seconds is not None else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n{refresh}'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1e21; --soft: #666c75; --line: #e4e5e8; --red: #b42318;
  --orange: #c2410c; --orange-rgb: 194 65 12; --orange-tint: #fde3cd; --blue: #1d5fb8; --blue-tint: #d9e7fb; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #131417; --ink: #e8e7e4; --soft: #9a9fa8; --line: #2d3036; --red: #ff8a80;
    --orange: #ff9a66; --orange-rgb: 255 154 102; --orange-tint: #51300f; --blue: #7db3f7; --blue-tint: #1b3963; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 3rem 0 .75rem; }
h3 { font-size: .85rem; font-weight: normal; color: var(--soft); margin: 0 0 .5rem; }
p { margin: .35rem 0; max-width: 46rem; overflow-wrap: anywhere; }
small, .soft, th, figure p { color: var(--soft); font-weight: normal; }
small, th, figure p { font-size: .82rem; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); }
pre { font-size: .8rem; line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; margin: .75rem 0; }
footer { margin-top: 3.5rem; color: var(--soft); font-size: .82rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: right; padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap;
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
th small, td small { display: block; }
/* sentences */
.sample { border-top: 1px solid var(--line); padding: 1rem 0 .5rem; }
dl.lines { display: grid; grid-template-columns: 10.5rem minmax(0, 1fr); gap: .3rem 1rem; margin: 0; max-width: 62rem; }
dl.lines dt { color: var(--soft); font-size: .85rem; padding-top: .12rem; }
dl.lines dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; unicode-bidi: plaintext; text-align: start; }
dl.lines .right { color: var(--blue); }
mark { color: inherit; border-radius: .2em; padding: .05em .1em; }
mark.a { background: var(--orange-tint); box-shadow: inset 0 -2px var(--orange); }
mark.b { background: var(--blue-tint); box-shadow: inset 0 -2px var(--blue); }
/* the report */
.state { color: var(--soft); margin-bottom: 1rem; max-width: none; }
.state b { font-weight: 600; color: var(--ink); }
.state.running b { color: var(--orange); }
.progress { height: 4px; background: var(--line); border-radius: 2px; margin: 1rem 0; overflow: hidden; }
.progress span { display: block; height: 100%; background: var(--orange); }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1.5rem 0 0; }
.figures div { display: flex; flex-direction: column-reverse; }
.figures dt { color: var(--soft); font-size: .85rem; }
.figures dd { margin: 0; font-size: 1.6rem; line-height: 1.2; letter-spacing: -.01em; }
.summary { max-width: none; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 2rem 3.5rem;
  margin-top: 3rem; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .75rem; }
.plot { padding: 4px 6.75rem 28px 2.9rem; }
.plot > svg { display: block; width: 100%; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; }
svg .name { font-weight: 600; paint-order: stroke; stroke: var(--ground); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--line); shape-rendering: crispEdges; }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
polyline.raw { stroke-width: 1; opacity: .3; }
polyline.blue { stroke: var(--blue); } polyline.orange { stroke: var(--orange); } polyline.ink { stroke: var(--ink); }
circle.blue, svg .name.blue { fill: var(--blue); }
circle.orange, svg .name.orange { fill: var(--orange); }
circle.ink, svg .name.ink { fill: var(--ink); }
.findings { list-style: none; padding: 0; margin: 1rem 0 0; }
.findings li { border-top: 1px solid var(--line); padding: .6rem 0; max-width: 60rem; overflow-wrap: anywhere; }
.findings b { font-weight: 600; margin-right: .4em; }
.findings .warning b { color: var(--orange); } .findings .error b { color: var(--red); }
.heads th, .heads td { border: 0; padding: 0; text-align: center; vertical-align: middle; }
.heads th { padding-bottom: .2rem; } .heads th:first-child { padding-right: .75rem; }
.heads td { width: 3.2rem; height: 2.4rem; border: 2px solid var(--ground); font-size: .85rem;
  background: rgb(var(--orange-rgb) / calc(var(--weight) * .75)); }
td.best { font-weight: 600; } .heads td.best { outline: 2px solid var(--ink); outline-offset: -2px; }
/* the comparison */
.key { display: inline-block; min-width: 1.4em; padding: 0 .3em; border-radius: .25em; text-align: center;
  font-weight: 600; }
.key.a { color: var(--orange); background: var(--orange-tint); }
.key.b { color: var(--blue); background: var(--blue-tint); }
.full { width: 100%; }
td.picture { width: 34%; min-width: 12rem; vertical-align: middle; }
.picture svg { display: block; width: 100%; height: 1.5rem; }
.bar { height: .55rem; border-radius: .2rem; margin: .25rem 0; }
.bar.a, .share .a { background: var(--orange); }
.bar.b, .share .b { background: var(--blue); }
.share { display: flex; height: .9rem; gap: 2px; margin: .75rem 0 .25rem; }
.share > * { border-radius: .2rem; }
.share .tie { background: var(--line); }
.counts { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0; padding: 0; list-style: none; }
@media (max-width: 40rem) {
  main { padding: 1.25rem 1rem 3rem; }
  .figures { gap: .75rem 1.75rem; } .figures dd { font-size: 1.35rem; }
  .plot { padding-right: 5.9rem; }
  .full th, .full td { padding-right: .5rem; font-size: .9rem; }
  .full th, .full td:first-child { white-space: normal; }
  td.picture, th.picture { display: none; }
  dl.lines { grid-template-columns: 1fr; gap: 0; }
  dl.lines dd + dt { margin-top: .45rem; } }
"""
