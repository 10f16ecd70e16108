// One head, large: as a map and as lines between words, with one cell of it worked out.

import { Cell } from "./cell.js";
import { make, table, word } from "./dom.js";
import { Lines } from "./lines.js";
import { HeatMap } from "./map.js";
import { share, shown } from "./numbers.js";
import { Panel } from "./panel.js";
import { sidesOf } from "./seen.js";

/** What both pictures draw of a head: its weights, or its scores before the softmax. */
export function headView({ seen, place, t }, { kind = "weights", change = {} } = {}) {
  const { attention, level } = place;
  const values = kind === "weights" ? seen.weights(place, level, change) : scores(seen, place, level, change.scale);
  const visible = change.mask ? null : seen.visible(place, level);
  return {
    rows: seen.rows(attention, level),
    columns: seen.columns(attention, level),
    sides: sidesOf(attention),
    values,
    visible,
    row: place.row,
    column: place.column,
    label: t.headName(place),
    ...(kind === "weights" ? { floor: 0, ceiling: 1, format: share } : { ...range(values, visible), format: shown }),
  };
}

/** As they are in this look; with the switch, divided where they were not, and not where they were. */
function scores(seen, place, level, switched) {
  if (switched && seen.divides) return seen.scores(place, level, "scores");
  const found = seen.scores(place, level, "scaled");
  return switched ? found.map((x) => x * seen.model.d_k ** -0.5) : found;
}

function range(values, visible) {
  let [floor, ceiling] = [Infinity, -Infinity];
  values.forEach((x, i) => {
    if (visible && !visible[i]) return;
    floor = Math.min(floor, x);
    ceiling = Math.max(ceiling, x);
  });
  return { floor, ceiling };
}

/** All numbers of the map. */
export function headTable(view, t) {
  const head = [t.looksAt, ...view.columns.map((unit) => word(unit.text, view.sides.columns))];
  const rows = view.rows.map((unit, r) => [
    word(unit.text, view.sides.rows),
    ...view.columns.map((_, c) => {
      const i = r * view.columns.length + c;
      return view.visible && !view.visible[i] ? "–" : view.format(view.values[i]);
    }),
  ]);
  return table(view.label, head, rows);
}

/** `below` has room for one thing more beside the cell. */
export class AttentionPair {
  constructor({ onPick, lines = true }) {
    this.map = new HeatMap({ onPick, onPoint: (at) => this.#read(at) });
    this.readout = make("p", { class: "readout number", "aria-live": "polite" });
    this.mapPanel = new Panel("map", this.map.element, this.readout);
    this.lines = lines ? new Lines({ onPick }) : null;
    this.linesPanel = lines ? new Panel("lines", this.lines.element) : null;
    this.cell = new Cell();
    this.pair = make("div", { class: "pair" }, this.mapPanel.element, this.linesPanel?.element);
    this.below = make("div", { class: "pair" }, this.cell.element);
    this.element = make("div", { class: "attention-pair" }, this.pair, this.below);
  }

  update(context, options = {}) {
    const { t } = context;
    this.view = headView(context, options);
    this.t = t;
    this.map.update(this.view);
    this.mapPanel.update(options.caption ?? t.mapCaption, t, () => headTable(this.view, t));
    this.lines?.update(this.view);
    this.linesPanel?.update(t.linesCaption, t);
    this.cell.update(context);
    this.#read(null);
  }

  #read(at) {
    const { rows, columns, values, visible, format } = this.view;
    const { row, column } = at ?? this.view;
    const i = row * columns.length + column;
    const value = visible && !visible[i] ? this.t.hiddenByMask : format(values[i]);
    this.readout.replaceChildren(
      word(rows[row].text, this.view.sides.rows),
      " → ",
      word(columns[column].text, this.view.sides.columns),
      `  ${value}`,
    );
  }
}
