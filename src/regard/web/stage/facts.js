// What the texts mention: sizes of this model, and numbers of the row that the reader looks at.

import { quoted } from "./dom.js";
import { count, share, shown, softmax } from "./numbers.js";
import { sideOfStack, stackOf } from "./seen.js";

/** The largest weight of the reader's row, with the division by √d_k and without. */
function rowPeaks(seen, { attention, layer, head, row, level }) {
  const query = seen.rows(attention, level)[row].pieces[0];
  const scores = seen.attention(attention, layer, "scores").at(head, query);
  const visible = seen.attention(attention, layer, "visible")?.at(query) ?? null;
  const root = Math.sqrt(seen.model.d_k);
  const peak = (values) => share(Math.max(...softmax(values, visible)));
  return { with_root: peak(scores.map((x) => x / root)), without_root: peak(scores) };
}

export function factsOf(seen, place) {
  const { model, look } = seen;
  const side = sideOfStack(stackOf(place.attention));
  const row = seen.rows(place.attention, place.level)[place.row].text;
  return {
    ...model,
    ...rowPeaks(seen, place),
    size: count(side === "source" ? model.n_src_symbols : model.n_tgt_symbols),
    size_target: count(model.n_tgt_symbols),
    root_model: shown(Math.sqrt(model.d_model)),
    root_k: shown(Math.sqrt(model.d_k)),
    waves: model.positions === "sinusoidal",
    kind: model.attention,
    divides: seen.divides,
    post: model.norm === "post",
    relu: model.activation === "relu",
    row: quoted(row),
    it: /^(it|es|sie|er)$/i.test(row.replace("▁", "")),
    n_rows: seen.querySide(place.attention).pieces.length,
    n_source: look.source.pieces.length,
    n_layers: seen.nLayers(place.attention),
    smoothing: model.label_smoothing ?? null,
    smoothed: model.label_smoothing === null
      ? ""
      : shown(1 - model.label_smoothing + model.label_smoothing / model.n_tgt_symbols, 3),
    shared: count(model.n_tgt_symbols * model.d_model * (model.tie === "all" ? 2 : 1)),
    beam: look.beam?.width ?? 1,
  };
}
