// Step 4: queries, keys and values, and where they come from.

import { make, setAttribute } from "../../dom.js";
import { formatNumber } from "../../format.js";
import { t } from "../../texts/texts.js";
import { ATTENTION_KINDS, sidesOf } from "../look_data.js";
import { norm } from "../math.js";
import { Panel } from "../panel.js";
import { MatrixProduct } from "../matrix_product.js";
import { VectorBars } from "../vector_bars.js";

/** @import { StepContext } from "../look_panel.js" */
/** @import { VectorRow } from "../vector_bars.js" */

/** Where Q, K and V come from in the three kinds of attention, as a table. */
class QkvSources {
  constructor() {
    this.body = make("tbody");
    this.head = make("tr");
    this.caption = make("caption", { class: "visually-hidden" });
    this.element = make("table", { class: "sources" }, this.caption, make("thead", {}, this.head), this.body);
  }

  update({ data, place, go }) {
    this.caption.textContent = t("look.sourcesCaption");
    this.head.replaceChildren(make("td"), ...["Q", "K", "V"].map((cell) => make("th", { scope: "col" }, cell)));
    this.body.replaceChildren(
      ...ATTENTION_KINDS.map((kind) => {
        const name = make(
          "button",
          { type: "button", class: "plain", onclick: () => go({ attention: kind }) },
          t(`look.attentionNames.${data.nameOf(kind)}`),
        );
        const row = make(
          "tr",
          {},
          make("th", { scope: "row" }, name),
          t(`look.qkvSources.${kind}`).map(([text, side]) => make("td", { class: `of-${side}` }, text)),
        );
        setAttribute(row, "data-here", kind === place.attention);
        return row;
      }),
    );
  }
}

export class QkvStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.sources = new QkvSources();
    this.product = new MatrixProduct();
    this.queries = new VectorBars({ onPick: (row) => this.#pick("row", row) });
    this.keys = new VectorBars({ onPick: (column) => this.#pick("column", column) });
    this.values = new VectorBars({ onPick: (column) => this.#pick("column", column) });
    this.panels = [this.queries, this.keys, this.values].map((vectors) => new Panel("qkv", vectors.element));
    this.element = make(
      "div",
      {},
      make("div", { class: "table-scroll", tabindex: 0 }, this.sources.element),
      this.product.element,
      make("div", { class: "three" }, this.panels.map((panel) => panel.element)),
    );
  }

  #pick(what, index) {
    this.context.go({ [what]: index });
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { attention, layer, head, level } = place;
    const sides = sidesOf(attention);
    this.sources.update(context);
    this.product.update(context);
    /** @type {[VectorBars, "q" | "k" | "v", import("../../words.js").Unit[], string, number][]} */
    const kinds = [
      [this.queries, "q", data.rows(attention, level), sides.rows, place.row],
      [this.keys, "k", data.columns(attention, level), sides.columns, place.column],
      [this.values, "v", data.columns(attention, level), sides.columns, place.column],
    ];
    kinds.forEach(([vectors, name, units, side, chosen], i) => {
      const vectorsOfHead = data.attention(attention, layer, name);
      const rows = units.map((unit, at) => ({
        label: unit.text,
        side,
        values: vectorsOfHead.at(head, unit.pieces[0]),
        note: formatNumber(norm(vectorsOfHead.at(head, unit.pieces[0]))),
        bold: at === chosen,
        special: unit.special,
      }));
      vectors.update(rows, {
        label: t("look.qkvNames")[i],
        hint: "",
        describe: (at) => `${name} ${at + 1}: ${rows[chosen].label} ${formatNumber(rows[chosen].values[at])}`,
      });
      this.panels[i].update(t("look.qkvNames")[i]);
    });
    setAttribute(this.element, "aria-label", t("look.sourcesCaption"));
  }
}
