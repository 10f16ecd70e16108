// "Which heads matter?": the service silences one head after the other over the validation text; the wall shows the cost.

import { make } from "./dom.js";
import { keyOf } from "./looking.js";
import { ask, onReturn } from "./service.js";
import { onChange, state } from "./state.js";
import { number, onLanguage, t } from "./texts.js";

const PATIENCE = 200;
const PAUSE = 1_000; // milliseconds before a question that took too long is asked again

export class HeadsThatMatter {
  element = make("div", { class: "matter" });
  #button = make("button", { class: "textlink", onclick: () => this.#toggle() });
  #said = make("p", { class: "note", role: "status" });
  #onColours;
  #found = null; // { heads, n_sentences } of the model that is in use
  #shown = false;
  #controller = null; // as long as we ask
  #waiting = false;

  /** `onColours(Map of head → 0…1, or null)` */
  constructor(onColours) {
    this.#onColours = onColours;
    this.element.append(this.#button, this.#said);
    onChange(["model"], () => this.#forget());
    onReturn(() => this.#controller || this.#forget()); // whoever asks just now, asks on
    onLanguage(() => this.#show());
    this.#show();
  }

  #forget() {
    this.#controller?.abort();
    this.#controller = null;
    this.#waiting = false;
    this.#found = null;
    this.#shown = false;
    this.#show();
    this.#onColours(null);
  }

  async #toggle() {
    if (this.#controller || !state.model) return;
    if (!this.#found && !(await this.#ask(state.model))) return;
    this.#shown = !this.#shown;
    this.#show();
    this.#onColours(this.#shown && this.#found ? coloursOf(this.#found.heads) : null);
  }

  async #ask(model) {
    const controller = (this.#controller = new AbortController());
    const patience = setTimeout(() => controller.signal.aborted || this.#wait(true), PATIENCE);
    let error = null;
    try {
      this.#found = await measured(model, controller.signal);
    } catch (caught) {
      error = caught;
    }
    clearTimeout(patience);
    if (controller.signal.aborted) return false;
    this.#controller = null;
    this.#wait(false);
    if (error) {
      this.#said.textContent = error.status === 404 ? t("try.matter.none") : t("refused", error.code, error.message);
    }
    return !error;
  }

  #wait(waiting) {
    this.#waiting = waiting;
    this.#show();
  }

  #show() {
    const shown = this.#shown && this.#found;
    this.#button.textContent = t(shown ? "try.matter.hide" : "try.matter");
    this.#button.setAttribute("aria-pressed", String(Boolean(shown)));
    this.#said.textContent = this.#waiting ? t("try.matter.waiting") : shown ? sayOf(this.#found) : "";
  }
}

/** The service's table of heads. For a large model that takes longer than it lets a question wait; it goes on meanwhile, and so do we. */
async function measured(model, signal) {
  for (;;) {
    try {
      return await ask(`v1/heads?model=${encodeURIComponent(model)}`, { signal });
    } catch (error) {
      if (error.status !== 504) throw error;
      await new Promise((done) => setTimeout(done, PAUSE));
      signal.throwIfAborted();
    }
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
