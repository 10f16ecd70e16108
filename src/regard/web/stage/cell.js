// One cell, worked out: q · k, ÷ √d_k, the mask, the softmax, × v, with the numbers that were computed.

import { make, quoted, word } from "./dom.js";
import { largest, share, shown } from "./numbers.js";
import { Strips } from "./strips.js";

/** The strongest piece pair of a word pair: arithmetic is done on pieces. */
function piecePair(seen, place) {
  const { attention, layer, head } = place;
  const row = seen.rows(attention, place.level)[place.row];
  const column = seen.columns(attention, place.level)[place.column];
  const weights = seen.attention(attention, layer, "weights");
  let best = { i: row.pieces[0], j: column.pieces[0] };
  for (const i of row.pieces) {
    for (const j of column.pieces) if (weights.at(head, i, j) > weights.at(head, best.i, best.j)) best = { i, j };
  }
  return { ...best, row, column, joined: row.pieces.length * column.pieces.length > 1 };
}

/** Everything that makes this one weight. */
export function cellNumbers(seen, place) {
  const { attention, layer, head } = place;
  const { i, j, row, column, joined } = piecePair(seen, place);
  const of = (name) => seen.attention(attention, layer, name);
  const visible = of("visible");
  const scaled = of("scaled").at(head, i);
  const hidden = visible !== null && !(visible.at(i, j) > 0);
  let total = 0;
  scaled.forEach((x, at) => {
    if (visible === null || visible.at(i, at) > 0) total += Math.exp(x);
  });
  return {
    i,
    j,
    row,
    column,
    joined,
    hidden,
    total,
    q: of("q").at(head, i),
    k: of("k").at(head, j),
    v: of("v").at(head, j),
    score: of("scores").at(head, i, j),
    scaled: scaled[j],
    weight: of("weights").at(head, i, j),
    entry: seen.weights(place, place.level)[place.row * seen.columns(attention, place.level).length + place.column],
  };
}

function step(name, formula, result, key) {
  return make(
    "div",
    { class: "sum-step" },
    make("dt", {}, name),
    make(
      "dd",
      { class: "number" },
      make("span", { class: "formula" }, formula),
      make("b", { "data-number": key }, result),
    ),
  );
}

export class Cell {
  constructor() {
    this.title = make("p", { class: "cell-title" });
    this.steps = make("dl", { class: "sum" });
    this.note = make("p", { class: "hint" });
    this.strips = new Strips();
    this.element = make("section", { class: "cell" }, this.title, this.steps, this.note, this.strips.element);
  }

  update({ seen, place, t }) {
    const found = cellNumbers(seen, place);
    const pieces = {
      query: seen.querySide(place.attention).pieces[found.i].text,
      key: seen.keySide(place.attention).pieces[found.j].text,
    };
    this.title.replaceChildren(...t.cellTitle(word(pieces.query), word(pieces.key)));
    this.steps.replaceChildren(...this.#steps(seen, found, t));
    this.note.textContent = found.joined
      ? t.joined(quoted(found.row.text), quoted(found.column.text), share(found.entry))
      : "";
    this.note.hidden = !found.joined;
    this.#strips(seen, found, t);
  }

  #steps(seen, found, t) {
    const { d_k, attention } = seen.model;
    const first = Array.from(found.q.slice(0, 2), (x, i) => `${shown(x)} × ${shown(found.k[i])}`).join(" + ");
    const steps = [];
    if (attention === "additive") steps.push(step("vᵀ tanh(q + k)", t.additiveSum(d_k), shown(found.score), "score"));
    else steps.push(step("q · k", `${first}${d_k > 2 ? t.andMore(d_k - 2) : ""} =`, shown(found.score), "score"));
    if (seen.divides) steps.push(step("÷ √d_k", `${shown(found.score)} ÷ √${d_k} =`, shown(found.scaled), "scaled"));
    if (found.hidden) steps.push(step(t.mask, t.maskHides, "−∞", "mask"));
    const power = ["e", make("sup", {}, found.hidden ? "−∞" : shown(found.scaled)), ` ÷ ${shown(found.total)} =`];
    steps.push(step("softmax", power, share(found.weight), "weight"));
    steps.push(step("× v", t.timesValue(share(found.weight), d_k), "", "times"));
    return steps;
  }

  #strips(seen, found, t) {
    const additive = seen.model.attention === "additive";
    const product = Float32Array.from(found.q, (x, i) => (additive ? Math.tanh(x + found.k[i]) : x * found.k[i]));
    const [top, height] = [Math.max(largest(found.q), largest(found.k), largest(found.v)) || 1, 26];
    const rows = [
      { label: "q", values: found.q, top, height },
      { label: "k", values: found.k, top, height },
      {
        label: additive ? "tanh(q + k)" : "q × k",
        values: product,
        top: largest(product) || 1,
        height,
        side: "attention",
        bold: true,
      },
      { label: "v", values: found.v, top, height },
    ];
    this.strips.update(rows, {
      label: t.cellStrips,
      hint: t.pointAtStrip,
      describe: (
        i,
      ) => (additive
        ? `${i + 1}: tanh(${shown(found.q[i])} + ${shown(found.k[i])}) = ${shown(product[i])}`
        : `${i + 1}: ${shown(found.q[i])} × ${shown(found.k[i])} = ${shown(product[i])}`),
    });
  }
}
