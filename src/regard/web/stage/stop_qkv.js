// Stop 4: what asks, what is asked, what is handed over, and where each comes from.

import { make, put } from "./dom.js";
import { norm, shown } from "./numbers.js";
import { Panel } from "./panel.js";
import { sidesOf, USES } from "./seen.js";
import { Strips } from "./strips.js";

/** The three uses of attention as a table; the one that is open is marked. */
class Sources {
  constructor() {
    this.body = make("tbody");
    this.head = make("tr");
    this.caption = make("caption", { class: "unseen" });
    this.element = make("table", { class: "sources" }, this.caption, make("thead", {}, this.head), this.body);
  }

  update({ place, t, go }) {
    this.caption.textContent = t.sourcesCaption;
    this.head.replaceChildren(...["", "Q", "K", "V"].map((cell) => make("th", { scope: "col" }, cell)));
    this.body.replaceChildren(
      ...USES.map((use) => {
        const name = make(
          "button",
          { type: "button", class: "plain", onclick: () => go({ attention: use }) },
          t.uses[use],
        );
        const row = make(
          "tr",
          {},
          make("th", { scope: "row" }, name),
          t.comesFrom[use].map(([text, side]) => make("td", { class: `of-${side}` }, text)),
        );
        put(row, "data-here", use === place.attention);
        return row;
      }),
    );
  }
}

export class QkvStop {
  constructor(context) {
    this.context = context;
    this.sources = new Sources();
    this.queries = new Strips({ onPick: (row) => this.#pick("row", row) });
    this.keys = new Strips({ onPick: (column) => this.#pick("column", column) });
    this.values = new Strips({ onPick: (column) => this.#pick("column", column) });
    this.panels = [this.queries, this.keys, this.values].map((strips) => new Panel("qkv", strips.element));
    this.element = make(
      "div",
      {},
      this.sources.element,
      make("div", { class: "three" }, this.panels.map((panel) => panel.element)),
    );
  }

  #pick(what, index) {
    this.context.go({ [what]: index });
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { attention, layer, head, level } = place;
    const sides = sidesOf(attention);
    this.sources.update(context);
    const kinds = [
      [this.queries, "q", seen.rows(attention, level), sides.rows, place.row],
      [this.keys, "k", seen.columns(attention, level), sides.columns, place.column],
      [this.values, "v", seen.columns(attention, level), sides.columns, place.column],
    ];
    kinds.forEach(([strips, name, units, side, chosen], i) => {
      const found = seen.attention(attention, layer, name);
      const rows = units.map((unit, at) => ({
        label: unit.text,
        side,
        values: found.at(head, unit.pieces[0]),
        note: shown(norm(found.at(head, unit.pieces[0]))),
        bold: at === chosen,
        special: unit.special,
      }));
      strips.update(rows, {
        label: t.qkvNames[i],
        hint: "",
        describe: (at) => `${name} ${at + 1}: ${rows[chosen].label} ${shown(rows[chosen].values[at])}`,
      });
      this.panels[i].update(t.qkvNames[i], t);
    });
    put(this.element, "aria-label", t.sourcesCaption);
  }
}
