// The view "Look inside". Its modules are loaded when it is first opened.

import { isolated, make } from "../dom.js";
import { linePicker } from "../line_picker.js";
import { onReconnect } from "../service.js";
import { change, currentModel, onChange, selectedLine, state, translates } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";
import { DependenceSection } from "./dependence_section.js";
import { loadModule } from "./load.js";
import { isTransformerLook } from "./look_data.js";
import { fetchLook, fetchLookAt, fetchProjection, lookRequest, shownTranslation } from "./look_request.js";

// In milliseconds.
const TYPING_PAUSE = 250;
const SHOW_WAITING_AFTER = 200;

export class LookView {
  #note = make("p", { class: "note", role: "status" });
  #box = make("div", { class: "look-box" });
  #depends = new DependenceSection();
  #panel = null;
  #panels = new Map(); // class → panel: one for each kind of model
  #look = null;
  #linked = false; // whether the look to come belongs to a place of its own: that of an address, or of an example
  /** @type {string | null} */
  #translation = null; // that was looked at last; null for the model's own
  #timer = 0;
  #controller = null;

  /** @param {HTMLElement} element */
  constructor(element) {
    element.append(linePicker(), this.#note, this.#box, this.#depends.element);
    onChange(
      ["view", "text", "line", "models", "model", "target", "chosen"],
      ({ changed }) => {
        this.#linked ||= changed.has("place");
        this.#schedule(changed.has("text") && !this.#linked ? TYPING_PAUSE : 0);
      },
    );
    onChange(["place"], () => this.#followAddress());
    onChange(["shown", "shownFor"], () => this.#followTranslation());
    onReconnect(() => this.#schedule(0));
    onLanguage(() => this.#schedule(0));
    this.#schedule(0);
  }

  #schedule(/** @type {number} */ delay) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (state.view !== "look") return;
    if (!lookRequest()) return this.#showNote(t(translates() ? "look.blank" : "predict.look.blank"), true);
    const isUnknown = state.chosen[selectedLine().index]?.text === null; // an alternative that a link names
    if (!isUnknown) this.#timer = setTimeout(() => this.#load(), delay);
  }

  async #load() {
    const body = /** @type {NonNullable<ReturnType<typeof lookRequest>>} */ (lookRequest());
    const translation = (this.#translation = translates() ? shownTranslation() : null);
    const controller = (this.#controller = new AbortController());
    const waiting = setTimeout(() => this.#showNote(t("look.waiting")), SHOW_WAITING_AFTER);
    try {
      const look = await fetchLookAt(body, translation, controller.signal);
      const { LookPanel, RecordedPanel } = await loadModule(
        isTransformerLook(look) ? "look_panel.js" : "recorded_panel.js",
      );
      if (controller.signal.aborted) return;
      this.#showNote(ownTranslationNote(look));
      this.#show(LookPanel ?? RecordedPanel, look);
      this.#depends.update(translates() ? { ...body, translation: look.target.given ? look.target.text : null } : null);
    } catch (error) {
      if (controller.signal.aborted) return;
      this.#linked = false;
      this.#showNote(
        `${t(translates() ? "look.failed" : "predict.look.failed")} ${t("refused", error.code, error.message)}`,
        true,
      );
    } finally {
      clearTimeout(waiting);
    }
  }

  #show(Panel, look) {
    const known = this.#panels.get(Panel);
    const element = known?.element ?? make("div");
    if (this.#box.firstChild !== element) this.#box.replaceChildren(element);
    if (known && (this.#look !== look || this.#linked)) known.setLook(look, this.#linked ? state.place : null);
    if (!known) {
      const onPlace = (place) => change({ place }, { addHistory: place.step !== state.place.step });
      this.#panels.set(Panel, new Panel(element, { look, place: state.place, onPlace, service: panelService }));
    }
    this.#panel = this.#panels.get(Panel);
    this.#linked = false;
    change({ place: this.#panel.place });
    this.#look = look;
  }

  /** The look is at the translation that is on the screen, also if that arrives later. */
  #followTranslation() {
    const translation = translates() ? shownTranslation() : null;
    if (translation !== null && translation !== this.#translation) this.#schedule(0);
  }

  #showNote(text, hidePanel = false) {
    this.#note.textContent = text;
    this.#box.hidden = hidePanel;
    if (hidePanel) this.#depends.update(null);
  }

  /** After back, forward or a link. */
  #followAddress() {
    if (this.#panel && !this.#linked) this.#panel.show(state.place);
  }
}

/** Says so if the translation on the screen is not the one that the model itself finds. */
function ownTranslationNote(look) {
  const isChosen = selectedLine().index in state.chosen;
  return look.own === undefined || isChosen ? "" : t("look.own", isolated(look.own));
}

/** What the panel can ask of the service: the examples of the run, and the look at another sentence. */
function panelService() {
  const request = lookRequest();
  return {
    examples: currentModel()?.examples ?? null,
    engine: currentModel()?.engine ?? null,
    fetchLook: (/** @type {string} */ text) =>
      fetchLook({ .../** @type {any} */ (request), text }, new AbortController().signal),
    fetchProjection,
  };
}
