// Step 8: all heads, what each attends to, concatenated and multiplied by W_O.

import { isolated, make, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber, formatWeight } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Choice, unitOptions } from "../choice.js";
import { HeadGrid } from "../head_grid.js";
import { sidesOf, stackOf } from "../look_data.js";
import { argmax, entropy } from "../math.js";
import { Panel } from "../panel.js";
import { VectorBars } from "../vector_bars.js";
import { ExamplePair } from "../example_pair.js";
import { bar } from "../weight_bar.js";

/** @import { StepContext } from "../look_panel.js" */

/** The word that each head attends to most, for one query. */
class TopWords {
  constructor() {
    this.body = make("div", { class: "bars top-words" });
    this.panel = new Panel("top-words", this.body);
    this.element = this.panel.element;
  }

  /** @param {StepContext} context */
  update(context) {
    const { data, place } = context;
    const { attention, level, row } = place;
    const columns = data.columns(attention, level);
    const side = sidesOf(attention).columns;
    const heads = [];
    for (let layer = 0; layer < data.nLayers(attention); layer += 1) {
      for (let head = 0; head < data.model.n_heads; head += 1) {
        const line = data.weights({ attention, layer, head }, level).subarray(
          row * columns.length,
          (row + 1) * columns.length,
        );
        heads.push({ layer, head, best: argmax(line), weight: line[argmax(line)], entropy: entropy(line) });
      }
    }
    this.body.replaceChildren(...heads.map((top) => this.#line(top, columns, side, context)));
    const query = isolated(data.rows(attention, level)[row].text);
    this.panel.update(
      t("look.topWordsCaption", query),
      () =>
        table(
          t("look.topWordsCaption", query),
          [t("look.head"), t("look.attendsMostTo"), t("look.weight"), t("look.entropy")],
          heads.map((top) => [
            t("look.layerHead", top.layer, top.head),
            wordElement(columns[top.best].text, side),
            formatWeight(top.weight),
            formatNumber(top.entropy),
          ]),
        ),
    );
  }

  #line({ layer, head, best, weight }, columns, side, { place, go }) {
    const line = make(
      "button",
      { type: "button", class: "bar-line plain", onclick: () => go({ layer, head }) },
      make("span", { class: "number" }, t("look.layerHead", layer, head)),
      wordElement(columns[best].text, side),
      bar(weight),
    );
    setAttribute(line, "aria-pressed", layer === place.layer && head === place.head ? "true" : "false");
    return line;
  }
}

export class HeadsStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
    this.gridBox = make("div");
    this.gridPanel = new Panel("head-grid", this.gridBox);
    this.topWords = new TopWords();
    this.joined = new VectorBars();
    this.joinedPanel = new Panel("joined", this.joined.element);
    this.mixed = new VectorBars();
    this.mixedPanel = new Panel("mixed", this.mixed.element);
    this.examples = new ExamplePair();
    this.element = make(
      "div",
      {},
      this.examples.element,
      this.words.element,
      make("div", { class: "pair" }, this.gridPanel.element, this.topWords.element),
      this.joinedPanel.element,
      this.mixedPanel.element,
    );
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { attention, layer, head, level } = place;
    this.examples.update(context);
    this.words.update(t("look.query"), unitOptions(data.rows(attention, level), sidesOf(attention).rows), place.row);
    const options = {
      look: data.look,
      data,
      level,
      selected: { attention, layer, head },
      attentions: [attention],
      onPick: ({ layer, head }) => this.context.go({ layer, head }),
    };
    if (this.grid) this.grid.update(options);
    else this.grid = new HeadGrid(this.gridBox, options);
    this.gridPanel.update(t("look.headGridCaption", data.model.n_heads, data.nLayers(attention)));
    this.topWords.update(context);
    this.#showJoined(context);
  }

  #showJoined({ data, place }) {
    const { attention, layer, head } = place;
    const { n_heads, d_k, d_model } = data.model;
    const query = data.rows(attention, place.level)[place.row].pieces[0];
    const out = data.attention(attention, layer, "heads");
    const joined = new Float32Array(d_model);
    for (let h = 0; h < n_heads; h += 1) joined.set(out.at(h, query), h * d_k);
    const own = joined.map((x, i) => (Math.floor(i / d_k) === head ? x : 0));
    const rows = [
      { label: t("look.thisHead", head), values: own, side: "attention", groups: n_heads, height: 28 },
      { label: t("look.allHeads"), values: joined, groups: n_heads, bold: true, height: 28 },
    ];
    this.joined.update(rows, {
      label: t("look.concatenatedCaption", n_heads, d_k, d_model),
      hint: "",
      describe: (i) => t("look.concatenatedAt", i + 1, Math.floor(i / d_k) + 1, formatNumber(joined[i])),
    });
    this.joinedPanel.update(t("look.concatenatedCaption", n_heads, d_k, d_model));
    const added = data.sublayer(stackOf(attention), layer, attention === "cross" ? "cross" : "self", "added").at(query);
    this.mixed.update([{ label: "× W_O", values: added, bold: true, height: 28 }], {
      label: t("look.mixedCaption"),
      hint: "",
      describe: (i) => `${i + 1}: ${formatNumber(added[i])}`,
    });
    this.mixedPanel.update(t("look.mixedCaption"));
  }
}
