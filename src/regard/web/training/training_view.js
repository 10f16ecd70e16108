// The view "Training": the curves, samples and findings of a run. While it trains, they are updated every two seconds.

import { make } from "../dom.js";
import { decimal, duration, formatNumber } from "../format.js";
import { request } from "../service.js";
import { currentModel, onChange, state } from "../state.js";
import { onLanguage, t, translateElements } from "../texts/texts.js";
import { Curve } from "./curve.js";
import { findingsSection, sampleSection } from "./samples.js";

// In milliseconds.
const UPDATE_EVERY = 2_000;
const SHOW_WAITING_AFTER = 200;

export class TrainingView {
  #note = make("p", { class: "note", role: "status" });
  #summary = make("p", { class: "run-summary" });
  #loss = new Curve({ title: "training.loss", format: formatLoss, zero: true });
  #rate = new Curve({
    title: "training.rate",
    format: (value) => (value ? formatNumber(value, value < 1e-4 ? 2 : 5).replace(/(\.\d*?)0+$/, "$1") : "0"),
    zero: true,
  });
  /** @type {Map<string, Curve>} charts of the run's own measures, by their labels */
  #measures = new Map();
  #curves = make("div", { class: "curves" }, this.#loss.element, this.#rate.element);
  #remark = make("p", { class: "note" });
  #samples = make("div");
  #body;
  #run = null; // JSON of /v1/training
  #controller = null;

  /** @param {HTMLElement} element */
  constructor(element) {
    const title = make("h2", { class: "visually-hidden", "data-text": "training.curves" });
    this.#body = make("div", { class: "run" }, title, this.#summary, this.#curves, this.#remark, this.#samples);
    element.append(this.#note, this.#body);
    translateElements(element);
    onChange(["view", "model", "models"], ({ changed }) => {
      if (changed.has("model")) this.#run = null; // never show one model's curves under another's name
      this.#start();
    });
    onLanguage(() => (this.#run ? this.#show(this.#run) : this.#start()));
    this.#start();
  }

  async #start() {
    this.#controller?.abort();
    const model = currentModel();
    if (state.view !== "training" || !model) return;
    if (!model.training) return this.#showNote(t("training.none"), true);
    const { signal } = (this.#controller = new AbortController());
    const waiting = setTimeout(() => this.#run ?? this.#showNote(t("training.waiting"), true), SHOW_WAITING_AFTER);
    try {
      for (;;) {
        const run = await request(`v1/training?model=${encodeURIComponent(state.model)}`, { signal });
        clearTimeout(waiting);
        if (signal.aborted) return;
        this.#show(run);
        if (run.state !== "running") return;
        await new Promise((resolve) => setTimeout(resolve, UPDATE_EVERY));
        if (signal.aborted) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#run = null;
      this.#showNote(error.status === 404 ? t("training.none") : t("refused", error.code, error.message), true);
    } finally {
      clearTimeout(waiting);
    }
  }

  #show(run) {
    this.#run = run;
    this.#showNote("");
    const { steps, validations } = run;
    const series = (rows, name, kind, key) => ({ name, kind, points: rows.map((row) => [row.step, row[key]]) });
    const lastStep = Math.max(1, ...[steps, validations].map((rows) => rows.at(-1)?.step ?? 1));
    this.#summary.replaceChildren(...summaryParts(run).map((text) => make("span", {}, text)));
    this.#summary.dataset.state = run.state;
    this.#loss.show([
      series(steps, "training.train", "train", "nll"),
      series(validations, "training.validation", "validation", "loss"),
    ], lastStep);
    for (const curve of this.#measures.values()) curve.element.hidden = true; // of another run
    for (const group of chartGroups(run.measures)) {
      const kinds = ["validation", "second", "third"];
      this.#curveOf(group).show(
        group.map(({ name, label }, i) => series(validations, measureLabel(label), kinds[i], name)),
        lastStep,
      );
    }
    this.#rate.show([series(steps, "training.rate", "train", "rate")], lastStep);
    this.#remark.textContent = t("training.unsmoothed") +
      (run.recipe?.model?.dropout ? ` ${t("training.dropout")}` : "");
    this.#samples.replaceChildren(...sampleSection(run.samples ?? []), ...findingsSection(run));
  }

  /** The chart of some measures; the learning rate stays last. */
  #curveOf(/** @type {Measure[]} */ group) {
    const title = capitalised(group.map(({ label }) => measureLabel(label)).join(", "));
    if (!this.#measures.has(title)) {
      const curve = new Curve({
        title,
        format: (value, isTick) => showMeasure(group[0], value, isTick ? tickDigits(group[0], value) : group[0].digits),
        zero: group[0].higher_is_better,
        log: !group[0].higher_is_better,
      });
      this.#measures.set(title, curve);
      this.#rate.element.before(curve.element);
    }
    return /** @type {Curve} */ (this.#measures.get(title));
  }

  #showNote(text, hideRun = false) {
    this.#note.textContent = text;
    this.#body.hidden = hideRun;
  }
}

/** "accuracy" → "Accuracy", but "chrF++" stays as it is. */
const capitalised = (/** @type {string} */ title) =>
  title.replace(/^\p{Ll}(?=[\p{Ll} ,]*$)/u, (letter) => letter.toUpperCase());

/** Digits at an axis: 0, 25 and 50 have none. */
function tickDigits(/** @type {Measure} */ { is_share: share, digits }, /** @type {number} */ value) {
  const shown = share ? 100 * value : value;
  return shown === 0 || shown >= 10 ? 0 : digits;
}

function formatLoss(/** @type {number} */ value, /** @type {boolean} */ isTick) {
  return decimal(value, isTick ? (Math.abs(value) < 1 && value ? 1 : 0) : 3);
}

/** The line at the top: state, steps, time, speed and quality. */
function summaryParts(run) {
  const { state: runState, steps, validations, measures, unit, n_steps: nSteps, eta_seconds: eta, speed } = run;
  const last = steps.at(-1);
  const parts = [t(`training.${runState}`)];
  if (last) {
    const step = decimal(last.step, 0);
    parts.push(
      runState !== "finished" && nSteps ? t("training.of", step, decimal(nSteps, 0)) : t("training.steps", step),
    );
  }
  if (last?.elapsed_seconds) parts.push(duration(last.elapsed_seconds));
  if (runState === "running" && eta) parts.push(t("training.left", duration(eta)));
  if (speed?.tokens_per_second) parts.push(t("training.speed", decimal(speed.tokens_per_second, 0), unit));
  const best =
    measures.find(({ name, higher_is_better: higher, is_share: share }) => name !== "loss" && higher && !share) ??
      measures.find(({ name }) => name !== "loss");
  const scored = best && validations.findLast((row) => Number.isFinite(row[best.name]));
  if (scored) parts.push(`${measureLabel(best.label)} ${showMeasure(best, scored[best.name], best.digits)}`);
  return parts;
}

/** @typedef {{ name: string, label: string, digits: number, higher_is_better: boolean, is_share: boolean }} Measure */

/** In the page's language if it has a word of its own; most measures are called the same everywhere. */
function measureLabel(/** @type {string} */ label) {
  const key = `training.measure.${label}`;
  return t(key) === key ? label : t(key);
}

function showMeasure(/** @type {Measure} */ measure, /** @type {number} */ value, /** @type {number} */ digits) {
  return measure.is_share ? `${decimal(100 * value, digits)}%` : decimal(value, digits);
}

/**
 * The measures of each chart: neighbours with the same digits and direction share one. Not the loss.
 * @param {Measure[]} measures
 */
function chartGroups(measures) {
  const key = ({ digits, higher_is_better: higher, is_share: share }) => `${digits} ${higher} ${share}`;
  /** @type {Measure[][]} */
  const groups = [];
  for (const measure of measures.filter(({ name }) => name !== "loss")) {
    const last = groups.at(-1);
    if (last && key(last[0]) === key(measure) && last.length < 3) last.push(measure);
    else groups.push([measure]);
  }
  return groups;
}
