// A weight as a bar with its number.

import { make, numberElement } from "../dom.js";
import { formatWeight } from "../format.js";

/**
 * @param {number} value
 * @param {string} [side] for the colour
 */
export function bar(value, side = "attention") {
  const fill = make("span", { class: `bar-fill of-${side}` });
  fill.style.width = `${(100 * Math.min(1, value)).toFixed(1)}%`;
  return make(
    "span",
    { class: "bar" },
    make("span", { class: "bar-track" }, fill),
    numberElement(value, formatWeight(value), { class: "number" }),
  );
}
