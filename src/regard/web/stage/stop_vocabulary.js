// Stop 14: the softmax over the vocabulary, step by step, with what training asked for.

import { Choice } from "./choice.js";
import { make, put, table, word } from "./dom.js";
import { share, shown } from "./numbers.js";
import { Panel } from "./panel.js";

export class VocabularyStop {
  constructor(context) {
    this.context = context;
    this.steps = new Choice({
      name: "step",
      kind: "sentence",
      onPick: (step) => this.context.go({ step: Number(step) }),
    });
    this.body = make("div", { class: "bars vocabulary" });
    this.panel = new Panel("vocabulary", this.body);
    this.legend = make("p", { class: "hint" });
    this.total = make("p", { class: "hint number" });
    this.element = make("div", {}, this.steps.element, this.panel.element, this.legend, this.total);
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { steps, log_probability } = seen.look;
    this.steps.update(
      t.step,
      steps.map((step, i) => ({ value: i, text: step.chosen.text, side: "target" })),
      place.step,
    );
    const step = steps[place.step];
    const target = smoothed(seen, step);
    const listed = step.top.some((one) => one.id === step.chosen.id) ? step.top : [...step.top, step.chosen];
    this.body.replaceChildren(...listed.map((one) => this.#line(one, step, target)));
    const caption = t.vocabularyCaption(place.step + 1, steps.length, shown(step.entropy));
    this.panel.update(
      caption,
      t,
      () =>
        table(
          caption,
          [t.piece, t.probability, ...(target ? [t.asked] : [])],
          listed.map((
            one,
          ) => [
            word(one.text, "target"),
            share(one.probability),
            ...(target ? [target(one.id)] : []).map((x) => shown(x, 3)),
          ]),
        ),
    );
    this.legend.hidden = target === null;
    if (target) {
      this.legend.replaceChildren(
        make("span", { class: "swatch asked" }),
        t.askedLegend(
          seen.model.label_smoothing,
          seen.model.n_tgt_symbols,
          shown(target(step.chosen.id), 3),
          shown(seen.model.label_smoothing / seen.model.n_tgt_symbols, 3),
        ),
      );
    }
    this.total.textContent = t.logProbability(shown(log_probability, 3));
  }

  #line(one, step, target) {
    const fill = make("span", { class: "bar-fill of-target" });
    fill.style.width = `${(100 * one.probability).toFixed(2)}%`;
    const track = make("span", { class: "bar-track" }, fill);
    if (target) {
      const mark = make("span", { class: "asked-mark" });
      mark.style.left = `${(100 * target(one.id)).toFixed(2)}%`;
      track.append(mark);
    }
    const line = make(
      "div",
      { class: "bar-line" },
      word(one.text, "target"),
      make("span", { class: "bar" }, track, make("span", { class: "number" }, share(one.probability))),
    );
    put(line, "data-lit", one.id === step.chosen.id);
    return line;
  }
}

/** Section 5.4: 1 − ε on the right piece, and ε spread evenly over all; null where training did not say. */
function smoothed(seen, step) {
  const { label_smoothing: epsilon, n_tgt_symbols: size } = seen.model;
  if (epsilon === null || epsilon === undefined) return null;
  return (id) => (id === step.chosen.id ? 1 - epsilon : 0) + epsilon / size;
}
