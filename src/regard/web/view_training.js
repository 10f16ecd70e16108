// Training: how the model came to be. While it still trains, the page asks every two seconds.

import { Curve } from "./curve.js";
import { make } from "./dom.js";
import { findingsOf, samplesOf } from "./samples.js";
import { ask } from "./service.js";
import { model, onChange, state } from "./state.js";
import { duration, number, onLanguage, t } from "./texts.js";

const EVERY = 2_000; // milliseconds
const PATIENCE = 200;

export class TrainingView {
  #said = make("p", { class: "note", role: "status" });
  #head = make("p", { class: "head" });
  #curves;
  #remark = make("p", { class: "note" });
  #samples = make("div");
  #body;
  #story = null;
  #controller = null;

  constructor(element) {
    const short = (value, axis) => number(value, axis ? (Math.abs(value) < 1 && value ? 1 : 0) : 3);
    this.#curves = {
      loss: new Curve({ title: "training.loss", write: short, zero: true }),
      quality: new Curve({
        title: "training.quality",
        write: (value, axis) => number(value, axis ? 0 : 1),
        zero: true,
      }),
      perplexity: new Curve({
        title: "training.perplexity",
        write: (value, axis) => number(value, axis && value >= 10 ? 0 : 2),
        log: true,
      }),
      rate: new Curve({ title: "training.rate", write: (value) => String(Number(value.toPrecision(2))), zero: true }),
    };
    this.#body = make(
      "div",
      { class: "story" },
      this.#head,
      make("div", { class: "curves" }, ...Object.values(this.#curves).map((one) => one.element)),
      this.#remark,
      this.#samples,
    );
    element.append(this.#said, this.#body);
    onChange(["view", "model", "models"], ({ changed }) => {
      if (changed.has("model")) this.#story = null; // another model's curves are never to be seen under this one's name
      this.#start();
    });
    onLanguage(() => (this.#story ? this.#show(this.#story) : this.#start()));
    this.#start();
  }

  async #start() {
    this.#controller?.abort();
    if (state.view !== "training" || !model()) return;
    if (!model().training) return this.#say(t("training.none"), true);
    const { signal } = (this.#controller = new AbortController());
    const patience = setTimeout(() => this.#story ?? this.#say(t("training.waiting"), true), PATIENCE);
    try {
      for (;;) {
        const story = await ask(`v1/training?model=${encodeURIComponent(state.model)}`, { signal });
        clearTimeout(patience);
        if (signal.aborted) return;
        this.#show(story);
        if (story.state !== "running") return;
        await new Promise((done) => setTimeout(done, EVERY));
        if (signal.aborted) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#story = null;
      this.#say(error.status === 404 ? t("training.none") : t("refused", error.code, error.message), true);
    } finally {
      clearTimeout(patience);
    }
  }

  #show(story) {
    this.#story = story;
    this.#say("");
    const { steps, validations } = story;
    const line = (rows, name, kind, key) => ({ name, kind, points: rows.map((row) => [row.step, row[key]]) });
    const last = Math.max(1, ...[steps, validations].map((rows) => rows.at(-1)?.step ?? 1));
    this.#head.replaceChildren(...headOf(story).map((text) => make("span", {}, text)));
    this.#head.dataset.state = story.state;
    this.#curves.loss.show([
      line(steps, "training.train", "train", "loss"),
      line(validations, "training.validation", "validation", "loss"),
    ], last);
    this.#curves.quality.show([
      line(validations, "BLEU", "validation", "bleu"),
      line(validations, "chrF", "second", "chrf"),
    ], last);
    this.#curves.perplexity.show([
      line(steps, "training.train", "train", "perplexity"),
      line(validations, "training.validation", "validation", "perplexity"),
    ], last);
    this.#curves.rate.show([line(steps, "training.rate", "train", "rate")], last);
    this.#remark.textContent = story.recipe?.training?.smoothing ? t("training.smoothed") : "";
    this.#samples.replaceChildren(...samplesOf(story.samples ?? []), ...findingsOf(story));
  }

  #say(text, instead = false) {
    this.#said.textContent = text;
    this.#body.hidden = instead;
  }
}

/** The line at the top: state, steps, time, and what was reached. */
function headOf({ state: now, steps, validations, n_steps: all, eta_seconds: eta }) {
  const last = steps.at(-1);
  const said = [t(`training.${now}`)];
  if (last) {
    said.push(
      now !== "finished" && all
        ? t("training.of", number(last.step, 0), number(all, 0))
        : t("training.steps", number(last.step, 0)),
    );
  }
  if (last?.elapsed_seconds) said.push(duration(last.elapsed_seconds));
  if (now === "running" && eta) said.push(t("training.left", duration(eta)));
  if (last?.tokens_per_second) said.push(t("training.speed", number(last.tokens_per_second, 0)));
  const best = validations.findLast(({ bleu }) => bleu !== null && bleu !== undefined);
  if (best) said.push(`BLEU ${number(best.bleu, 1)}`);
  return said;
}
