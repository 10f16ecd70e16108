// One head in detail: its weights as a heat map and as lines, and the calculation of one cell.

import { make, table, wordElement } from "../dom.js";
import { formatNumber, formatWeight } from "../format.js";
import { t } from "../texts/texts.js";
import { AttentionLines } from "./attention_lines.js";
import { Cell } from "./cell.js";
import { HeatMap } from "./heat_map.js";
import { sidesOf } from "./look_data.js";
import { Panel } from "./panel.js";

/** @import { Unit } from "../words.js" */
/** @import { SoftmaxChange } from "./look_data.js" */
/** @import { StepContext } from "./look_panel.js" */

/**
 * What is drawn of a head.
 * @typedef {object} HeadView
 * @property {Unit[]} rows
 * @property {Unit[]} columns
 * @property {{ rows: string, columns: string }} sides the languages
 * @property {Float32Array} values row-major
 * @property {Float32Array | null} visible 0 where the mask hides the key
 * @property {number} row the selected cell
 * @property {number} column
 * @property {string} label
 * @property {number} min the value without colour
 * @property {number} max the value in full colour
 * @property {(value: number) => string} format
 */

/**
 * The weights of a head, or its scores before the softmax.
 * @param {StepContext} context
 * @param {{ kind?: string, change?: SoftmaxChange }} [options]
 * @returns {HeadView}
 */
export function headView({ data, place }, { kind = "weights", change = {} } = {}) {
  const { attention, level } = place;
  const values = kind === "weights" ? data.weights(place, level, change) : scoresOf(data, place, level, change.scale);
  const visible = change.mask ? null : data.visible(place, level);
  return {
    rows: data.rows(attention, level),
    columns: data.columns(attention, level),
    sides: sidesOf(attention),
    values,
    visible,
    row: place.row,
    column: place.column,
    label: t("look.headName", place),
    ...(kind === "weights"
      ? { min: 0, max: 1, format: formatWeight }
      : { ...range(values, visible), format: formatNumber }),
  };
}

/** The scores of the look, or with the other choice about the division by √d_k. */
function scoresOf(data, place, level, switched) {
  if (switched && data.divides) return data.scores(place, level, "scores");
  const scores = data.scores(place, level, "scaled");
  return switched ? scores.map((x) => x * data.model.d_k ** -0.5) : scores;
}

function range(values, visible) {
  let [min, max] = [Infinity, -Infinity];
  values.forEach((x, i) => {
    if (visible && !visible[i]) return;
    min = Math.min(min, x);
    max = Math.max(max, x);
  });
  return { min, max };
}

/**
 * All numbers of the heat map.
 * @param {HeadView} view
 */
export function headTable(view) {
  const head = [t("look.attendsTo"), ...view.columns.map((unit) => wordElement(unit.text, view.sides.columns))];
  const rows = view.rows.map((unit, r) => [
    wordElement(unit.text, view.sides.rows),
    ...view.columns.map((_, c) => {
      const i = r * view.columns.length + c;
      return view.visible && !view.visible[i] ? "–" : view.format(view.values[i]);
    }),
  ]);
  return table(view.label, head, rows);
}

/** `below` has space for another element beside the cell. */
export class HeadDetail {
  /** @param {{ onPick: (cell: { row: number, column?: number }) => void, lines?: boolean }} options */
  constructor({ onPick, lines = true }) {
    this.map = new HeatMap({ onPick, onPoint: (at) => this.#showValue(at) });
    this.readout = make("p", { class: "readout number", "aria-live": "polite" });
    this.mapPanel = new Panel("map", this.map.element, this.readout);
    this.lines = lines ? new AttentionLines({ onPick }) : null;
    this.linesPanel = lines ? new Panel("lines", this.lines.element) : null;
    this.cell = new Cell();
    this.pair = make("div", { class: "pair" }, this.mapPanel.element, this.linesPanel?.element);
    this.below = make("div", { class: "pair" }, this.cell.element);
    this.element = make("div", { class: "head-detail" }, this.pair, this.below);
  }

  /**
   * @param {StepContext} context
   * @param {{ kind?: string, change?: SoftmaxChange, caption?: string }} [options]
   */
  update(context, options = {}) {
    this.view = headView(context, options);
    this.map.update(this.view);
    this.mapPanel.update(options.caption ?? t("look.mapCaption"), () => headTable(this.view));
    this.lines?.update(this.view);
    this.linesPanel?.update(t("look.linesCaption"));
    this.cell.update(context);
    this.#showValue(null);
  }

  #showValue(at) {
    const { rows, columns, values, visible, format } = this.view;
    const { row, column } = at ?? this.view;
    const i = row * columns.length + column;
    const value = visible && !visible[i] ? t("look.hiddenByMask") : format(values[i]);
    this.readout.replaceChildren(
      wordElement(rows[row].text, this.view.sides.rows),
      " → ",
      wordElement(columns[column].text, this.view.sides.columns),
      `  ${value}`,
    );
  }
}
