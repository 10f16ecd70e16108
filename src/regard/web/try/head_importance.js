// "Which heads matter?": the service switches off one head at a time over the validation text; the grid shows the effect.

import { make } from "../dom.js";
import { formatNumber } from "../format.js";
import { headKey } from "../look/head_key.js";
import { onReconnect, request } from "../service.js";
import { change, currentModel, onChange, state, translates } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";

// In milliseconds.
const SHOW_WAITING_AFTER = 200;
const RETRY_AFTER = 1_000;

export class HeadImportance {
  element = make("div", { class: "head-importance" });
  #button = make("button", { class: "textlink", onclick: () => change({ importance: !state.importance }) });
  #note = make("p", { class: "note", role: "status" });
  #onImportance;
  #result = null; // of the model in use
  #controller = null; // while a request is under way
  #isWaiting = false;

  /** @param {(importance: Map<string, number> | null) => void} onImportance head key → 0 … 1; null hides it */
  constructor(onImportance) {
    this.#onImportance = onImportance;
    this.element.append(this.#button, this.#note);
    onChange(["model"], () => this.#reset());
    onChange(["view", "model", "models", "importance"], () => this.#update());
    onReconnect(() => this.#controller || this.#reset()); // a request that is under way goes on
    onLanguage(() => this.#show());
    this.#show();
  }

  #reset() {
    this.#controller?.abort();
    this.#controller = null;
    this.#isWaiting = false;
    this.#result = null;
    this.#show();
    this.#onImportance(null);
  }

  /** Shows or hides the importance of heads, as the state says; it is measured when it is first shown. */
  async #update() {
    if (state.importance && !this.#result) {
      const isReady = state.view === "try" && currentModel() && translates();
      if (!isReady || this.#controller || !(await this.#load(currentModel().name))) return;
    }
    this.#show();
    this.#onImportance(state.importance && this.#result ? relativeImportance(this.#result.heads) : null);
  }

  async #load(/** @type {string} */ model) {
    const controller = (this.#controller = new AbortController());
    const waiting = setTimeout(() => controller.signal.aborted || this.#setWaiting(true), SHOW_WAITING_AFTER);
    let error = null;
    try {
      this.#result = await requestHeads(model, controller.signal);
    } catch (caught) {
      error = caught;
    }
    clearTimeout(waiting);
    if (controller.signal.aborted) return false;
    this.#controller = null;
    this.#setWaiting(false);
    if (error) {
      change({ importance: false });
      this.#note.textContent = error.status === 404 ? t("try.matter.none") : t("refused", error.code, error.message);
    }
    return !error;
  }

  #setWaiting(/** @type {boolean} */ waiting) {
    this.#isWaiting = waiting;
    this.#show();
  }

  #show() {
    const shown = state.importance && this.#result;
    this.#button.textContent = t(shown ? "try.matter.hide" : "try.matter");
    this.#button.setAttribute("aria-pressed", String(Boolean(shown)));
    this.#note.textContent = this.#isWaiting ? t("try.matter.waiting") : shown ? summaryOf(this.#result) : "";
  }
}

/** Repeats the request on a timeout: for a large model the service needs longer, and goes on in the meantime. */
async function requestHeads(/** @type {string} */ model, /** @type {AbortSignal} */ signal) {
  for (;;) {
    try {
      return await request(`v1/heads?model=${encodeURIComponent(model)}`, { signal });
    } catch (error) {
      if (error.status !== 504) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_AFTER));
      signal.throwIfAborted();
    }
  }
}

/** The rise of the loss without each head, relative to the largest; a head without which the loss falls has 0. */
function relativeImportance(heads) {
  const largest = Math.max(...heads.map(({ loss_rise }) => loss_rise), 1e-9);
  return new Map(heads.map((head) => [headKey(head), Math.max(0, head.loss_rise) / largest]));
}

function summaryOf({ heads, baseline, n_sentences: n }) {
  const worst = heads.reduce((a, b) => (b.loss_rise > a.loss_rise ? b : a));
  const losses = [baseline.loss, baseline.loss + worst.loss_rise].map((loss) => formatNumber(loss, 3));
  return t("try.matter.summary", n, t("try.head", worst), ...losses);
}
