// "Which heads matter?": the service silences one head after the other over the validation text; the wall shows the cost.

import { make } from "./dom.js";
import { keyOf } from "./looking.js";
import { ask } from "./service.js";
import { onChange, state } from "./state.js";
import { number, onLanguage, t } from "./texts.js";

const PATIENCE = 200;

export class HeadsThatMatter {
  element = make("div", { class: "matter" });
  #button = make("button", { class: "textlink", onclick: () => this.#toggle() });
  #said = make("p", { class: "note", role: "status" });
  #onColours;
  #found = null; // { heads, n_sentences } of the model that is in use
  #shown = false;
  #asking = false;

  /** `onColours(Map of head → 0…1, or null)` */
  constructor(onColours) {
    this.#onColours = onColours;
    this.element.append(this.#button, this.#said);
    onChange(["model"], () => this.#forget());
    onLanguage(() => this.#show());
    this.#show();
  }

  #forget() {
    this.#found = null;
    this.#shown = false;
    this.#show();
    this.#onColours(null);
  }

  async #toggle() {
    if (this.#asking) return;
    if (!this.#found && !(await this.#ask(state.model))) return;
    this.#shown = !this.#shown;
    this.#show();
    this.#onColours(this.#shown && this.#found ? coloursOf(this.#found.heads) : null);
  }

  async #ask(model) {
    this.#asking = true;
    const patience = setTimeout(() => (this.#said.textContent = t("try.matter.waiting")), PATIENCE);
    try {
      const found = await ask(`v1/heads?model=${encodeURIComponent(model)}`);
      if (model === state.model) this.#found = found;
      return this.#found !== null;
    } catch (error) {
      this.#said.textContent = error.status === 404 ? t("try.matter.none") : t("refused", error.code, error.message);
      return false;
    } finally {
      clearTimeout(patience);
      this.#asking = false;
    }
  }

  #show() {
    const shown = this.#shown && this.#found;
    this.#button.textContent = t(shown ? "try.matter.hide" : "try.matter");
    this.#button.setAttribute("aria-pressed", String(Boolean(shown)));
    this.#said.textContent = shown ? sayOf(this.#found) : "";
  }
}

/** How much is lost without a head, against the head that costs most. A head that only disturbs costs nothing. */
function coloursOf(heads) {
  const most = Math.max(...heads.map(({ loss_rise: rise }) => rise), 1e-9);
  return new Map(heads.map((head) => [keyOf(head), Math.max(0, head.loss_rise) / most]));
}

function sayOf({ heads, n_sentences: n }) {
  const worst = heads.reduce((one, other) => (other.loss_rise > one.loss_rise ? other : one));
  return t("try.matter.said", n, t("try.head", worst), number(-100 * worst.accuracy_drop, 1));
}
