// "Look inside" and "Try it" show one line: if the text has several, this picker selects it.

import { make } from "./dom.js";
import { change, lines, onChange, selectedLine } from "./state.js";
import { onLanguage, t } from "./texts/texts.js";

/** "Line 2 of 5" between buttons for the previous and the next line; hidden if there is only one. */
export function linePicker() {
  const label = make("span", { role: "status" });
  const previous = make("button", { class: "quiet", onclick: () => go(-1) }, "‹");
  const next = make("button", { class: "quiet", onclick: () => go(1) }, "›");
  const element = make("div", { class: "line-picker" }, previous, label, next);
  const show = () => {
    const filled = filledLines();
    const position = filled.indexOf(selectedLine().index);
    element.hidden = filled.length < 2;
    label.textContent = t("line.of", position + 1, filled.length);
    previous.disabled = position <= 0;
    next.disabled = position >= filled.length - 1;
    previous.setAttribute("aria-label", t("line.previous"));
    next.setAttribute("aria-label", t("line.next"));
  };
  onChange(["text", "line"], show);
  onLanguage(show);
  show();
  return element;
}

/** The indices of the lines that are not blank. */
const filledLines = () => lines().flatMap((line, index) => (line.trim() ? [index] : []));

function go(/** @type {number} */ direction) {
  const filled = filledLines();
  change({ line: filled[filled.indexOf(selectedLine().index) + direction] ?? 0 });
}
