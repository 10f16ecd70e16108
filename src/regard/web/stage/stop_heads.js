// Stop 8: the heads side by side, what each looks at, joined and mixed by W_O.

import { Choice, unitOptions } from "./choice.js";
import { make, put, quoted, table, word } from "./dom.js";
import { argmax, entropy, share, shown } from "./numbers.js";
import { Panel } from "./panel.js";
import { sidesOf, stackOf } from "./seen.js";
import { bar } from "./stop_attention.js";
import { Strips } from "./strips.js";
import { Wall } from "./wall.js";

/** For one word: every head's favourite. */
class Favourites {
  constructor() {
    this.body = make("div", { class: "bars favourites" });
    this.panel = new Panel("favourites", this.body);
    this.element = this.panel.element;
  }

  update(context) {
    const { seen, place, t } = context;
    const { attention, level, row } = place;
    const columns = seen.columns(attention, level);
    const side = sidesOf(attention).columns;
    const found = [];
    for (let layer = 0; layer < seen.nLayers(attention); layer += 1) {
      for (let head = 0; head < seen.model.n_heads; head += 1) {
        const line = seen.weights({ attention, layer, head }, level).subarray(
          row * columns.length,
          (row + 1) * columns.length,
        );
        found.push({ layer, head, best: argmax(line), weight: line[argmax(line)], entropy: entropy(line) });
      }
    }
    this.body.replaceChildren(...found.map((one) => this.#line(one, columns, side, context)));
    const asked = quoted(seen.rows(attention, level)[row].text);
    this.panel.update(
      t.favouritesCaption(asked),
      t,
      () =>
        table(
          t.favouritesCaption(asked),
          [t.head, t.looksMostAt, t.weight, t.entropy],
          found.map((
            one,
          ) => [
            t.layerHead(one.layer, one.head),
            word(columns[one.best].text, side),
            share(one.weight),
            shown(one.entropy),
          ]),
        ),
    );
  }

  #line({ layer, head, best, weight }, columns, side, { place, t, go }) {
    const line = make(
      "button",
      { type: "button", class: "bar-line plain", onclick: () => go({ layer, head }) },
      make("span", { class: "number" }, t.layerHead(layer, head)),
      word(columns[best].text, side),
      bar(weight),
    );
    put(line, "aria-pressed", layer === place.layer && head === place.head ? "true" : "false");
    return line;
  }
}

export class HeadsStop {
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
    this.wallPlace = make("div");
    this.wallPanel = new Panel("wall", this.wallPlace);
    this.favourites = new Favourites();
    this.joined = new Strips();
    this.joinedPanel = new Panel("joined", this.joined.element);
    this.mixed = new Strips();
    this.mixedPanel = new Panel("mixed", this.mixed.element);
    this.element = make(
      "div",
      {},
      this.words.element,
      make("div", { class: "pair" }, this.wallPanel.element, this.favourites.element),
      this.joinedPanel.element,
      this.mixedPanel.element,
    );
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { attention, layer, head, level } = place;
    this.words.update(t.whoLooks, unitOptions(seen.rows(attention, level), sidesOf(attention).rows), place.row);
    const options = {
      look: seen.look,
      seen,
      language: t.code,
      level,
      selected: { attention, layer, head },
      attentions: [attention],
      onPick: (where) => this.context.go({ layer: where.layer, head: where.head }),
    };
    if (this.wall) this.wall.update(options);
    else this.wall = new Wall(this.wallPlace, options);
    this.wallPanel.update(t.wallCaption(seen.model.n_heads, seen.nLayers(attention)), t);
    this.favourites.update(context);
    this.#join(context);
  }

  #join({ seen, place, t }) {
    const { attention, layer, head } = place;
    const { n_heads, d_k, d_model } = seen.model;
    const query = seen.rows(attention, place.level)[place.row].pieces[0];
    const out = seen.attention(attention, layer, "heads");
    const joined = new Float32Array(d_model);
    for (let h = 0; h < n_heads; h += 1) joined.set(out.at(h, query), h * d_k);
    const own = joined.map((x, i) => (Math.floor(i / d_k) === head ? x : 0));
    const rows = [
      { label: t.thisHead(head), values: own, side: "attention", groups: n_heads, height: 28 },
      { label: t.joinedLabel, values: joined, groups: n_heads, bold: true, height: 28 },
    ];
    this.joined.update(rows, {
      label: t.joinedCaption(n_heads, d_k, d_model),
      hint: "",
      describe: (i) => t.joinedAt(i + 1, Math.floor(i / d_k) + 1, shown(joined[i])),
    });
    this.joinedPanel.update(t.joinedCaption(n_heads, d_k, d_model), t);
    const added = seen.sublayer(stackOf(attention), layer, attention === "cross" ? "cross" : "self", "added").at(query);
    this.mixed.update([{ label: "× W_O", values: added, bold: true, height: 28 }], {
      label: t.mixedCaption,
      hint: "",
      describe: (i) => `${i + 1}: ${shown(added[i])}`,
    });
    this.mixedPanel.update(t.mixedCaption, t);
  }
}
