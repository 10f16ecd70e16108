// Look inside: the stage, on the line that the reader looks at. It is fetched when it is first opened, not before.

import { make, quoted } from "./dom.js";
import { linePicker } from "./line_picker.js";
import { look, question } from "./looking.js";
import { onReturn } from "./service.js";
import { stageModule } from "./stage_module.js";
import { change, lookedAt, model, onChange, state } from "./state.js";
import { onLanguage, t } from "./texts.js";

const PAUSE = 250; // milliseconds without a keystroke
const PATIENCE = 200;

export class LookView {
  #said = make("p", { class: "note", role: "status" });
  #box = make("div", { class: "stage-box" });
  #stage = null;
  #found = null;
  #asked = null; // the question that the stage answers
  #timer = 0;
  #controller = null;

  constructor(element) {
    element.append(linePicker(), this.#said, this.#box);
    onChange(
      ["view", "text", "line", "model", "target", "chosen"],
      ({ changed }) => this.#want(changed.has("text") ? PAUSE : 0),
    );
    onChange(["place"], () => this.#follow());
    onChange(["shown", "shownOf"], () => this.#compare());
    onReturn(() => this.#want(0));
    onLanguage(() => {
      this.#stage?.setLanguage(state.language);
      this.#want(0);
    });
    this.#want(0);
  }

  #want(pause) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (state.view !== "look") return;
    const body = question();
    if (!body) return this.#say(t("look.blank"), true);
    this.#timer = setTimeout(() => this.#run(body), pause);
  }

  async #run(body) {
    const controller = (this.#controller = new AbortController());
    const patience = setTimeout(() => this.#say(t("look.waiting")), PATIENCE);
    try {
      const found = await look(body, controller.signal);
      const { Stage } = await stageModule("stage.js");
      if (controller.signal.aborted) return;
      this.#say("");
      this.#show(Stage, found, body);
      this.#compare();
    } catch (error) {
      if (!controller.signal.aborted) this.#say(`${t("look.failed")} ${t("refused", error.code, error.message)}`, true);
    } finally {
      clearTimeout(patience);
    }
  }

  #show(Stage, found, asked) {
    if (this.#stage && this.#found !== found) this.#stage.setLook(found);
    if (!this.#stage) {
      const onPlace = (place) => this.#placed(place);
      this.#stage = new Stage(this.#box, { look: found, language: state.language, place: state.place, onPlace });
      this.#placed(this.#stage.place, false);
    }
    this.#found = found;
    this.#asked = asked;
  }

  /** The translation above may have come about otherwise, by rounded weights for one; where it differs, the reader has to know. */
  #compare() {
    if (this.#box.hidden || !this.#asked || JSON.stringify(question()) !== JSON.stringify(this.#asked)) return;
    const { text } = this.#found.target;
    const rounded = model()?.engine === "ctranslate2";
    this.#say(
      this.#comparable() && state.shown[lookedAt().number] !== text
        ? t(rounded ? "look.rounded" : "look.other", quoted(text))
        : "",
    );
  }

  /** Whether what stands above is the model's own translation of the very text that the stage shows. */
  #comparable() {
    const { text, model: name, target, translation } = this.#asked;
    const { shownOf: of } = state;
    return translation === null && of.model === name && of.target === target &&
      of.lines[lookedAt().number]?.trim() === text;
  }

  #say(text, instead = false) {
    this.#said.textContent = text;
    this.#box.hidden = instead;
  }

  /** The reader has moved: the address follows, and a new stop can be taken back. */
  #placed({ stop, attention, layer, head, level }, step = stop !== state.place.stop) {
    change({ place: { stop, attention, layer, head, level } }, { step });
  }

  /** The address has changed (back, forward, a link): the stage follows. */
  #follow() {
    if (!this.#stage) return;
    const wanted = { stop: 1, ...state.place };
    const now = this.#stage.place;
    if (Object.entries(wanted).some(([name, value]) => now[name] !== value)) this.#stage.go(wanted);
  }
}
