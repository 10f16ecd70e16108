// Looking inside is for one sentence: where the text has several lines, the reader says which.

import { make } from "./dom.js";
import { change, lines, lookedAt, onChange } from "./state.js";
import { onLanguage, t } from "./texts.js";

/** A small "line 2 of 5" with a step back and on; it hides itself when there is but one line. */
export function linePicker() {
  const said = make("span", { role: "status" });
  const back = make("button", { class: "quiet", onclick: () => go(-1) }, "‹");
  const on = make("button", { class: "quiet", onclick: () => go(1) }, "›");
  const element = make("div", { class: "line-picker" }, back, said, on);
  const show = () => {
    const full = filled();
    const place = full.indexOf(lookedAt().number);
    element.hidden = full.length < 2;
    said.textContent = t("line.of", place + 1, full.length);
    back.disabled = place <= 0;
    on.disabled = place >= full.length - 1;
    back.setAttribute("aria-label", t("line.before"));
    on.setAttribute("aria-label", t("line.after"));
  };
  onChange(["text", "line"], show);
  onLanguage(show);
  show();
  return element;
}

const filled = () => lines().flatMap((line, place) => (line.trim() ? [place] : []));

function go(by) {
  const full = filled();
  change({ line: full[full.indexOf(lookedAt().number) + by] ?? 0 });
}
