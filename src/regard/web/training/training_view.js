// The view "Training": the curves, samples and findings of a run. While it trains, they are updated every two seconds.

import { make } from "../dom.js";
import { decimal, duration } from "../format.js";
import { request } from "../service.js";
import { currentModel, onChange, state } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";
import { Curve } from "./curve.js";
import { findingsSection, sampleSection } from "./samples.js";

// In milliseconds.
const UPDATE_EVERY = 2_000;
const SHOW_WAITING_AFTER = 200;

export class TrainingView {
  #note = make("p", { class: "note", role: "status" });
  #summary = make("p", { class: "run-summary" });
  #curves = {
    loss: new Curve({ title: "training.loss", format: formatLoss, zero: true }),
    quality: new Curve({
      title: "training.quality",
      format: (value, isTick) => decimal(value, isTick ? 0 : 1),
      zero: true,
    }),
    perplexity: new Curve({
      title: "training.perplexity",
      format: (value, isTick) => decimal(value, isTick && value >= 10 ? 0 : 2),
      log: true,
    }),
    rate: new Curve({ title: "training.rate", format: (value) => String(Number(value.toPrecision(2))), zero: true }),
  };
  #remark = make("p", { class: "note" });
  #samples = make("div");
  #body;
  #run = null; // JSON of /v1/training
  #controller = null;

  /** @param {HTMLElement} element */
  constructor(element) {
    const curves = make("div", { class: "curves" }, Object.values(this.#curves).map((curve) => curve.element));
    this.#body = make("div", { class: "run" }, this.#summary, curves, this.#remark, this.#samples);
    element.append(this.#note, this.#body);
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
    const both = (key) => [
      series(steps, "training.train", "train", key),
      series(validations, "training.validation", "validation", key),
    ];
    const lastStep = Math.max(1, ...[steps, validations].map((rows) => rows.at(-1)?.step ?? 1));
    this.#summary.replaceChildren(...summaryParts(run).map((text) => make("span", {}, text)));
    this.#summary.dataset.state = run.state;
    this.#curves.loss.show(both("loss"), lastStep);
    this.#curves.quality.show(
      [series(validations, "BLEU", "validation", "bleu"), series(validations, "chrF", "second", "chrf")],
      lastStep,
    );
    this.#curves.perplexity.show(both("perplexity"), lastStep);
    this.#curves.rate.show([series(steps, "training.rate", "train", "rate")], lastStep);
    this.#remark.textContent = run.recipe?.training?.smoothing ? t("training.smoothed") : "";
    this.#samples.replaceChildren(...sampleSection(run.samples ?? []), ...findingsSection(run));
  }

  #showNote(text, hideRun = false) {
    this.#note.textContent = text;
    this.#body.hidden = hideRun;
  }
}

function formatLoss(/** @type {number} */ value, /** @type {boolean} */ isTick) {
  return decimal(value, isTick ? (Math.abs(value) < 1 && value ? 1 : 0) : 3);
}

/** The line at the top: state, steps, time, speed and quality. */
function summaryParts({ state: runState, steps, validations, n_steps: nSteps, eta_seconds: eta }) {
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
  if (last?.tokens_per_second) parts.push(t("training.speed", decimal(last.tokens_per_second, 0)));
  const scored = validations.findLast(({ bleu }) => bleu !== null && bleu !== undefined);
  if (scored) parts.push(`BLEU ${decimal(scored.bleu, 1)}`);
  return parts;
}
