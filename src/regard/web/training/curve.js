// A chart over the training steps, with a cursor for pointer, touch and arrow keys. The values at the cursor are written
// above it; for screen readers the chart is a slider over the steps.

import { make, makeSvg, setAttribute } from "../dom.js";
import { language, t } from "../texts/texts.js";
import { linearTicks, logTicks, rangeOf, scale } from "./scales.js";

/** @typedef {{ name: string, kind: string, points: number[][] }} Series name: a text key or a name; points: [step, value] */
/**
 * @typedef {object} CurveOptions
 * @property {string} title a text key, or a title
 * @property {(value: number, isTick: boolean) => string} format
 * @property {boolean} [zero] the axis starts at 0
 * @property {boolean} [log] logarithmic, if the values span enough
 */

const HEIGHT = 190;
const MARGIN = { left: 52, right: 12, top: 8, bottom: 24 };

export class Curve {
  element;
  #title = make("h3");
  #values = make("p", { class: "values" });
  #plot;
  /** @type {Series[]} */
  #series = [];
  #options;
  #steps = []; // all steps with a measurement
  #lastStep = 0; // the end of the axis, the same for all curves of a run
  #selected = null; // the step at the cursor; null for the last
  #cursor = null;
  #x = null;
  #y = null;

  /** @param {CurveOptions} options */
  constructor(options) {
    this.#options = options;
    this.#plot = makeSvg("svg", { role: "slider", tabindex: 0, height: HEIGHT, class: "plot" });
    this.element = make("figure", { class: "curve" }, make("figcaption", {}, this.#title, this.#values), this.#plot);
    this.#plot.addEventListener("pointermove", (event) => this.#point(event));
    this.#plot.addEventListener("pointerdown", (event) => this.#point(event));
    this.#plot.addEventListener("pointerleave", () => document.activeElement !== this.#plot && this.#select(null));
    this.#plot.addEventListener("blur", () => this.#select(null));
    this.#plot.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  /**
   * @param {Series[]} series
   * @param {number} lastStep
   */
  show(series, lastStep) {
    this.#lastStep = lastStep;
    this.#series = series
      .map(({ points, ...rest }) => ({ ...rest, points: points.filter(([, value]) => Number.isFinite(value)) }))
      .filter(({ points }) => points.length);
    const steps = this.#series.flatMap(({ points }) => points.map(([step]) => step));
    this.#steps = [...new Set(steps)].sort((a, b) => a - b);
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
    this.#x = scale(0, this.#lastStep, MARGIN.left, width - MARGIN.right);
    this.#y = scale(low, high, HEIGHT - MARGIN.bottom, MARGIN.top, log);
    this.#plot.setAttribute("width", String(width));
    this.#plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#cursor = makeSvg("g", { class: "cursor" });
    this.#plot.replaceChildren(
      ...this.#axes(width, log ? logTicks(low, high) : linearTicks(low, high, 4)),
      ...this.#series.map((series) => this.#line(series)),
      this.#cursor,
    );
    this.#plot.setAttribute("aria-label", t("training.curve", t(this.#options.title)));
    this.#select(this.#selected);
  }

  #axes(width, ticks) {
    const right = width - MARGIN.right;
    const bottom = HEIGHT - MARGIN.bottom;
    const gridLines = ticks.map((value) =>
      makeSvg("line", { x1: MARGIN.left, x2: right, y1: this.#y(value), y2: this.#y(value), class: "grid" })
    );
    const labels = ticks.map((value) =>
      makeSvg(
        "text",
        { x: MARGIN.left - 8, y: this.#y(value), "text-anchor": "end", "dominant-baseline": "central" },
        this.#options.format(value, true),
      )
    );
    const steps = linearTicks(0, this.#lastStep, width / 110);
    const stepLabels = steps.map((step) =>
      makeSvg(
        "text",
        { x: this.#x(step), y: bottom + 16, "text-anchor": this.#x(step) > right - 20 ? "end" : "middle" },
        step.toLocaleString(language()),
      )
    );
    return [
      ...gridLines,
      makeSvg("line", { x1: MARGIN.left, x2: right, y1: bottom, y2: bottom, class: "axis" }),
      ...labels,
      ...stepLabels,
    ];
  }

  #line({ kind, points }) {
    const path = points.map(([step, value], i) =>
      `${i ? "L" : "M"}${this.#x(step).toFixed(1)} ${this.#y(value).toFixed(1)}`
    ).join("");
    const dots = points.length <= 40
      ? points.map(([step, value]) => makeSvg("circle", { cx: this.#x(step), cy: this.#y(value), r: 2.5 }))
      : [];
    return makeSvg("g", { class: `line ${kind}` }, makeSvg("path", { d: path, fill: "none" }), ...dots);
  }

  #point(/** @type {PointerEvent} */ event) {
    const x = event.clientX - this.#plot.getBoundingClientRect().left;
    const distance = (step) => Math.abs(this.#x(step) - x);
    this.#select(this.#steps.reduce((best, step) => (distance(step) < distance(best) ? step : best)));
  }

  #key(/** @type {KeyboardEvent} */ event) {
    const last = this.#steps.length - 1;
    const now = this.#selected === null ? last : this.#steps.indexOf(this.#selected);
    const page = Math.ceil(this.#steps.length / 10);
    const line = Math.ceil(this.#steps.length / 100);
    const to = {
      ArrowLeft: now - line,
      ArrowDown: now - line,
      ArrowRight: now + line,
      ArrowUp: now + line,
      PageDown: now - page,
      PageUp: now + page,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#select(this.#steps[Math.max(0, Math.min(last, to))]);
  }

  /** Moves the cursor to a step and shows the latest values up to it; null hides the cursor and shows the last step. */
  #select(step) {
    if (!this.#cursor) return;
    this.#selected = this.#steps.includes(step) ? step : null;
    const at = this.#selected ?? this.#steps.at(-1);
    const latest = this.#series
      .map((series) => ({ ...series, point: series.points.findLast(([step]) => step <= at) }))
      .filter(({ point }) => point);
    const values = latest.map(({ name, kind, point }) => ({
      kind,
      text: `${t(name)} ${this.#options.format(point[1], false)}`,
    }));
    const stepText = t("training.step", at.toLocaleString(language()));
    this.#values.replaceChildren(stepText, ...values.map(({ kind, text }) => make("span", { class: kind }, text)));
    setAttribute(this.#plot, "aria-valuemin", this.#steps[0]);
    setAttribute(this.#plot, "aria-valuemax", this.#steps.at(-1));
    setAttribute(this.#plot, "aria-valuenow", at);
    setAttribute(this.#plot, "aria-valuetext", [stepText, ...values.map(({ text }) => text)].join(", "));
    const x = this.#x(at);
    const line = makeSvg("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
    const dots = latest.map(({ kind, point }) =>
      makeSvg("circle", { class: kind, cx: this.#x(point[0]), cy: this.#y(point[1]), r: 4 })
    );
    this.#cursor.replaceChildren(...(this.#selected === null ? [] : [line, ...dots]));
  }
}
