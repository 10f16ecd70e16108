"""How the report looks: one ink, two colours, light and dark, from a telephone to a desk."""

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1e21; --soft: #666c75; --line: #e4e5e8;
  --attention: #c2410c; --target: #1d5fb8; --bad: #b42318; --cell: 194 65 12; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #131417; --ink: #e8e7e4; --soft: #9a9fa8; --line: #2d3036;
    --attention: #ff9a66; --target: #7db3f7; --bad: #ff8a80; --cell: 255 154 102; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 3rem 0 .75rem; }
p { margin: .35rem 0; max-width: 46rem; }
small, .soft, th, figure p { color: var(--soft); font-weight: normal; }
small, th, figure p { font-size: .82rem; }
.state { color: var(--soft); margin: .25rem 0 1rem; max-width: none; }
.state b { font-weight: 600; color: var(--ink); }
.state.running b { color: var(--attention); }
.bar { height: 4px; background: var(--line); border-radius: 2px; margin: 1rem 0; overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--attention); }
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
polyline.one { stroke: var(--target); } polyline.two { stroke: var(--attention); } polyline.ink { stroke: var(--ink); }
circle.one, svg .name.one { fill: var(--target); }
circle.two, svg .name.two { fill: var(--attention); }
circle.ink, svg .name.ink { fill: var(--ink); }
.sample { border-top: 1px solid var(--line); padding: 1rem 0 .5rem; }
dl.lines { display: grid; grid-template-columns: 10.5rem minmax(0, 1fr); gap: .3rem 1rem; margin: 0; max-width: 62rem; }
dl.lines dt { color: var(--soft); font-size: .85rem; padding-top: .12rem; }
dl.lines dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; unicode-bidi: plaintext; text-align: start; }
dl.lines .right { color: var(--target); }
.findings { list-style: none; padding: 0; margin: 1rem 0 0; }
.findings li { border-top: 1px solid var(--line); padding: .6rem 0; max-width: 60rem; overflow-wrap: anywhere; }
.findings b { font-weight: 600; margin-right: .4em; }
.findings .warning b { color: var(--attention); } .findings .spoils b { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: right; padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.wall th, .wall td { border: 0; padding: 0; text-align: center; }
.wall th { padding-bottom: .2rem; } .wall th:first-child { padding-right: .75rem; }
.wall td { width: 3.2rem; height: 2.4rem; border: 2px solid var(--ground); font-size: .85rem;
  background: rgb(var(--cell) / calc(var(--w) * .75)); }
.wall td.best { outline: 2px solid var(--ink); outline-offset: -2px; font-weight: 600; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); }
pre { font-size: .8rem; line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; margin: .75rem 0; }
footer { margin-top: 3.5rem; color: var(--soft); font-size: .82rem; }
@media (max-width: 40rem) {
  main { padding: 1.25rem 1rem 3rem; }
  .figures { gap: .75rem 1.75rem; } .figures dd { font-size: 1.35rem; }
  .plot { padding-right: 5.9rem; }
  dl.lines { grid-template-columns: 1fr; gap: 0; }
  dl.lines dd + dt { margin-top: .45rem; } }
"""
