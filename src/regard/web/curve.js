// A curve over the steps of a training: axes, and a cursor that pointer, touch and arrow keys move along it.
// To a screen reader it is a slider over the steps that says the values; to everybody the values stand above it.

import { draw, make } from "./dom.js";
import { logTicks, rangeOf, scale, ticksOf } from "./scales.js";
import { state } from "./state.js";
import { t } from "./texts.js";

const HEIGHT = 190;
const EDGE = { left: 52, right: 12, top: 8, bottom: 24 };

export class Curve {
  element;
  #title = make("h3");
  #values = make("p", { class: "values" });
  #plot;
  #series = [];
  #options;
  #steps = []; // every step at which something was measured
  #last = 0; // where the axis ends; the same for all curves of a run
  #at = null; // the step under the cursor; null for the last
  #cursor = null;
  #x = null;
  #y = null;

  /** title: key of a text; write(value): a value as text; zero: the axis begins there; log: equal factors. */
  constructor(options) {
    this.#options = options;
    this.#plot = draw("svg", { role: "slider", tabindex: 0, height: HEIGHT, class: "plot" });
    this.element = make("figure", { class: "curve" }, make("figcaption", {}, this.#title, this.#values), this.#plot);
    this.#plot.addEventListener("pointermove", (event) => this.#pointed(event));
    this.#plot.addEventListener("pointerdown", (event) => this.#pointed(event));
    this.#plot.addEventListener("pointerleave", () => document.activeElement !== this.#plot && this.#go(null));
    this.#plot.addEventListener("blur", () => this.#go(null));
    this.#plot.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  /** series: [{ name: key of a text or a name, kind: "train" | "validation" | …, points: [[step, value]] }] up to the last step. */
  show(series, last) {
    this.#last = last;
    this.#series = series.map((one) => ({ ...one, points: one.points.filter(([, value]) => Number.isFinite(value)) }))
      .filter(({ points }) => points.length);
    this.#steps = [...new Set(this.#series.flatMap(({ points }) => points.map(([step]) => step)))].sort((a, b) =>
      a - b
    );
    this.element.hidden = !this.#steps.length;
    this.#draw();
  }

  #draw() {
    const width = this.element.clientWidth;
    if (!width || !this.#steps.length) return;
    const values = this.#series.flatMap(({ points }) => points.map(([, value]) => value));
    const log = Boolean(this.#options.log) && Math.max(...values) > 5 * Math.min(...values) && Math.min(...values) > 0;
    this.#title.textContent = t(this.#options.title) + (log ? ` (${t("training.log")})` : "");
    const [low, high] = rangeOf(values, { zero: this.#options.zero, log });
    this.#x = scale(0, this.#last, EDGE.left, width - EDGE.right);
    this.#y = scale(low, high, HEIGHT - EDGE.bottom, EDGE.top, log);
    this.#plot.setAttribute("width", width);
    this.#plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#cursor = draw("g", { class: "cursor" });
    this.#plot.replaceChildren(
      ...this.#axes(width, log ? logTicks(low, high) : ticksOf(low, high, 4)),
      ...this.#series.map((one) => this.#line(one)),
      this.#cursor,
    );
    this.#plot.setAttribute("aria-label", t("training.curve", t(this.#options.title)));
    this.#go(this.#at);
  }

  #axes(width, ticks) {
    const right = width - EDGE.right;
    const floor = HEIGHT - EDGE.bottom;
    const across = ticks.map((value) =>
      draw("line", { x1: EDGE.left, x2: right, y1: this.#y(value), y2: this.#y(value), class: "grid" })
    );
    const beside = ticks.map((value) =>
      draw(
        "text",
        { x: EDGE.left - 8, y: this.#y(value), "text-anchor": "end", "dominant-baseline": "central" },
        this.#options.write(value, true),
      )
    );
    const steps = ticksOf(0, this.#last, width / 110);
    const below = steps.map((step) =>
      draw(
        "text",
        { x: this.#x(step), y: floor + 16, "text-anchor": this.#x(step) > right - 20 ? "end" : "middle" },
        step.toLocaleString(state.language),
      )
    );
    return [
      ...across,
      draw("line", { x1: EDGE.left, x2: right, y1: floor, y2: floor, class: "axis" }),
      ...beside,
      ...below,
    ];
  }

  #line({ kind, points }) {
    const path = points.map(([step, value], place) =>
      `${place ? "L" : "M"}${this.#x(step).toFixed(1)} ${this.#y(value).toFixed(1)}`
    ).join("");
    const dots = points.length <= 40
      ? points.map(([step, value]) => draw("circle", { cx: this.#x(step), cy: this.#y(value), r: 2.5 }))
      : [];
    return draw("g", { class: `line ${kind}` }, draw("path", { d: path, fill: "none" }), ...dots);
  }

  #pointed(event) {
    const wanted = event.clientX - this.#plot.getBoundingClientRect().left;
    this.#go(
      this.#steps.reduce((
        best,
        step,
      ) => (Math.abs(this.#x(step) - wanted) < Math.abs(this.#x(best) - wanted) ? step : best)),
    );
  }

  #key(event) {
    const last = this.#steps.length - 1;
    const now = this.#at === null ? last : this.#steps.indexOf(this.#at);
    const far = Math.ceil(this.#steps.length / 10);
    const near = Math.ceil(this.#steps.length / 100);
    const to = {
      ArrowLeft: now - near,
      ArrowDown: now - near,
      ArrowRight: now + near,
      ArrowUp: now + near,
      PageDown: now - far,
      PageUp: now + far,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#go(this.#steps[Math.max(0, Math.min(last, to))]);
  }

  /** Put the cursor at a step, and say what was measured there, or last before. */
  #go(step) {
    if (!this.#cursor) return;
    this.#at = this.#steps.includes(step) ? step : null;
    const at = this.#at ?? this.#steps.at(-1);
    const found = this.#series.map((one) => ({ ...one, point: one.points.findLast(([own]) => own <= at) })).filter((
      { point },
    ) => point);
    const said = found.map(({ name, kind, point }) => ({ kind, text: `${t(name)} ${this.#options.write(point[1])}` }));
    const where = t("training.step", at.toLocaleString(state.language));
    this.#values.replaceChildren(where, ...said.map(({ kind, text }) => make("span", { class: kind }, text)));
    this.#plot.setAttribute("aria-valuemin", this.#steps[0]);
    this.#plot.setAttribute("aria-valuemax", this.#steps.at(-1));
    this.#plot.setAttribute("aria-valuenow", at);
    this.#plot.setAttribute("aria-valuetext", [where, ...said.map(({ text }) => text)].join(", "));
    const dots = found.map(({ kind, point }) =>
      draw("circle", { class: kind, cx: this.#x(point[0]), cy: this.#y(point[1]), r: 4 })
    );
    this.#cursor.replaceChildren(
      ...(this.#at === null
        ? []
        : [draw("line", { x1: this.#x(at), x2: this.#x(at), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }), ...dots]),
    );
  }
}
