// The view "Look inside". Its modules are loaded when it is first opened.

import { isolated, make } from "../dom.js";
import { linePicker } from "../line_picker.js";
import { onReconnect } from "../service.js";
import { change, currentModel, onChange, selectedLine, state, translates } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";
import { DependenceSection } from "./dependence_section.js";
import { loadModule } from "./load.js";
import { isTransformerLook } from "./look_data.js";
import { fetchLook, fetchProjection, lookRequest } from "./look_request.js";

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
  #request = null; // the body of the request that #look answers
  #linked = false; // whether the look to come belongs to a place of its own: that of an address, or of an example
  #timer = 0;
  #controller = null;

  /** @param {HTMLElement} element */
  constructor(element) {
    element.append(linePicker(), this.#note, this.#depends.element, this.#box);
    onChange(
      ["view", "text", "line", "models", "model", "target", "chosen"],
      ({ changed }) => {
        this.#linked ||= changed.has("place");
        this.#schedule(changed.has("text") && !this.#linked ? TYPING_PAUSE : 0);
      },
    );
    onChange(["place"], () => this.#followAddress());
    onChange(["shown", "shownFor"], () => this.#compare());
    onReconnect(() => this.#schedule(0));
    onLanguage(() => this.#schedule(0));
    this.#schedule(0);
  }

  #schedule(/** @type {number} */ delay) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (state.view !== "look") return;
    const body = lookRequest();
    if (!body) return this.#showNote(t(translates() ? "look.blank" : "predict.look.blank"), true);
    this.#timer = setTimeout(() => this.#load(body), delay);
  }

  async #load(body) {
    const controller = (this.#controller = new AbortController());
    const waiting = setTimeout(() => this.#showNote(t("look.waiting")), SHOW_WAITING_AFTER);
    try {
      const look = await fetchLook(body, controller.signal);
      const { LookPanel, RecordedPanel } = await loadModule(
        isTransformerLook(look) ? "look_panel.js" : "recorded_panel.js",
      );
      if (controller.signal.aborted) return;
      this.#showNote("");
      this.#show(LookPanel ?? RecordedPanel, look, body);
      this.#compare();
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

  #show(Panel, look, body) {
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
    this.#request = body;
    this.#depends.update(translates() ? body : null);
  }

  /** Notes it if the translation above differs from the one shown here, for example because of quantised weights. */
  #compare() {
    if (this.#box.hidden || !this.#request || JSON.stringify(lookRequest()) !== JSON.stringify(this.#request)) return;
    if (!this.#look.target) return this.#showNote(""); // no translation to compare with
    const { text } = this.#look.target;
    const otherEngine = currentModel()?.engine === "ctranslate2"; // the look is computed with PyTorch
    const differs = this.#comparable() && state.shown[selectedLine().index] !== text;
    this.#showNote(differs ? t(otherEngine ? "look.otherEngine" : "look.other", isolated(text)) : "");
  }

  /** Whether the translation above is the model's own, of the same text by the same model. */
  #comparable() {
    const { text, model, target, translation } = this.#request;
    const { shownFor } = state;
    return translation === null && shownFor.model === model && shownFor.target === target &&
      shownFor.lines[selectedLine().index]?.trim() === text;
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

/** What the panel can ask of the service: the examples of the run, and the look at another sentence. */
function panelService() {
  const request = lookRequest();
  return {
    examples: currentModel()?.examples ?? null,
    fetchLook: (/** @type {string} */ text) =>
      fetchLook({ .../** @type {any} */ (request), text, translation: null }, new AbortController().signal),
    fetchProjection,
  };
}
