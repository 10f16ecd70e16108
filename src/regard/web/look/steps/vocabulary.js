// Step 14: softmax over the vocabulary at each step of the search, with the smoothed training target.

import { make, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber, formatWeight } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Choice } from "../choice.js";
import { Panel } from "../panel.js";

/** @import { StepContext } from "../look_panel.js" */

export class VocabularyStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.steps = new Choice({
      name: "step",
      kind: "sentence",
      onPick: (step) => this.context.go({ outputStep: Number(step) }),
    });
    this.body = make("div", { class: "bars vocabulary" });
    this.panel = new Panel("vocabulary", this.body);
    this.legend = make("p", { class: "hint" });
    this.total = make("p", { class: "hint number" });
    this.element = make("div", {}, this.steps.element, this.panel.element, this.legend, this.total);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { steps, log_probability } = data.look;
    this.steps.update(
      t("look.step"),
      steps.map((step, i) => ({ value: i, text: step.chosen.text, side: "target" })),
      place.outputStep,
    );
    const step = steps[place.outputStep];
    const target = smoothedTarget(data, step);
    const listed = step.top.some(({ id }) => id === step.chosen.id) ? step.top : [...step.top, step.chosen];
    this.body.replaceChildren(...listed.map((piece) => this.#line(piece, step, target)));
    const caption = t("look.vocabularyCaption", place.outputStep + 1, steps.length, formatNumber(step.entropy));
    this.panel.update(
      caption,
      () =>
        table(
          caption,
          [t("look.token"), t("look.probability"), ...(target ? [t("look.target")] : [])],
          listed.map((piece) => [
            wordElement(piece.text, "target"),
            formatWeight(piece.probability),
            ...(target ? [target(piece.id)] : []).map((x) => formatNumber(x, 3)),
          ]),
        ),
    );
    this.legend.hidden = target === null;
    if (target) {
      this.legend.replaceChildren(
        make("span", { class: "swatch target-swatch" }),
        t(
          "look.targetLegend",
          data.model.label_smoothing,
          data.model.n_tgt_symbols,
          formatNumber(target(step.chosen.id), 3),
          formatNumber(data.model.label_smoothing / data.model.n_tgt_symbols, 3),
        ),
      );
    }
    this.total.textContent = t("look.logProbability", formatNumber(log_probability, 3));
  }

  #line(piece, step, target) {
    const fill = make("span", { class: "bar-fill of-target" });
    fill.style.width = `${(100 * piece.probability).toFixed(2)}%`;
    const track = make("span", { class: "bar-track" }, fill);
    if (target) {
      const mark = make("span", { class: "target-mark" });
      mark.style.left = `${(100 * target(piece.id)).toFixed(2)}%`;
      track.append(mark);
    }
    const line = make(
      "div",
      { class: "bar-line" },
      wordElement(piece.text, "target"),
      make("span", { class: "bar" }, track, make("span", { class: "number" }, formatWeight(piece.probability))),
    );
    setAttribute(line, "data-lit", piece.id === step.chosen.id);
    return line;
  }
}

/** Label smoothing (section 5.4): 1 − ε on the correct piece plus ε spread evenly; null if the value of ε is unknown. */
function smoothedTarget(data, step) {
  const { label_smoothing: epsilon, n_tgt_symbols: size } = data.model;
  if (epsilon === null || epsilon === undefined) return null;
  return (id) => (id === step.chosen.id ? 1 - epsilon : 0) + epsilon / size;
}
