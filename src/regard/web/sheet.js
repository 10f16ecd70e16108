// The sentence and its translation: the part of the page that stays with the reader through all views.

import { fits, link } from "./address.js";
import { Alternatives } from "./alternatives.js";
import { byId, copy, make, quoted } from "./dom.js";
import { Sentence } from "./sentence.js";
import { onReturn } from "./service.js";
import { change, lines, onChange, state } from "./state.js";
import { number, onLanguage, percent, t } from "./texts.js";
import { Translating } from "./translating.js";
import { Translation } from "./translation.js";
import { wordsOf } from "./words.js";

const EMPTY = { of: { lines: [] }, lines: [], milliseconds: null, waiting: false, done: true, error: null };
const QUIET = 700; // milliseconds after which a translation is read aloud; not every letter of it

export class Sheet {
  #sentence;
  #translation;
  #translating = new Translating((result) => this.#arrived(result));
  #alternatives = new Alternatives(byId("alternatives"), (line, place) => this.#take(line, place));
  #result = EMPTY;
  #shown = []; // what stands in the translation, line by line
  #plain = new WeakMap(); // a chosen alternative → what stands for it
  #tools = {};
  #again = () => {}; // marks the word that is pointed at, for when its partners become known
  #speaking = 0;
  #onReading;

  /** `onReading(text or null)` when a word and its partners are pointed at. */
  constructor({ onReading }) {
    this.#onReading = onReading;
    const onText = (text) => change({ text, chosen: {} });
    this.#sentence = new Sentence(byId("sentence"), byId("echo"), {
      onText,
      onWord: (...at) => this.#fromSource(...at),
    });
    this.#translation = new Translation(byId("words"), {
      onWord: (...at) => this.#fromTarget(...at),
      describe: (line, word) => this.#reading(line, this.#sourcesOf(line, word), [word]),
    });
    this.#buildFeet();
    onChange(["text", "model", "target"], ({ changed }) => this.#want(!changed.has("text")));
    onChange(["chosen"], () => this.#show());
    onChange(["view"], () => this.#showTools());
    onLanguage(() => this.#show());
    onReturn(() => this.#want(true));
  }

  /** Show the sentence of the state and ask for its translation. */
  start() {
    this.#want(true);
  }

  #want(atOnce) {
    this.#sentence.set(state.text);
    if (state.model) this.#translating.want(state.text, state.model, state.target, atOnce);
    this.#tools.clear.hidden = !state.text;
  }

  #arrived(result) {
    const old = this.#result.lines;
    const milliseconds = result.milliseconds ?? (result.done && !result.error ? null : this.#result.milliseconds);
    // Until the new translation is there, the old one stays: a page that blinks can not be read.
    const of = { ...result.of, lines: result.lines.map((line, place) => (line ? result.of.lines[place] : null)) };
    this.#result = {
      ...result,
      of,
      milliseconds,
      lines: result.lines.map((line, place) => line ?? old[place] ?? null),
    };
    this.#show();
    clearTimeout(this.#speaking);
    if (result.done) this.#speaking = setTimeout(() => (byId("spoken").textContent = state.shown.join("\n")), QUIET);
  }

  #show() {
    this.#shown = this.#result.lines.map((line, place) => this.#chosenOf(line, place));
    this.#translation.show(this.#shown);
    change({ shown: this.#shown.map(({ text }) => text), shownOf: this.#result.of });
    this.#alternatives.show(this.#result.lines, state.chosen);
    this.#showTools();
    this.#showRemarks();
    this.#again();
  }

  #chosenOf(line, place) {
    const chosen = line?.alternatives?.[(state.chosen[place]?.place ?? 0) - 1];
    if (!chosen) return line ?? { text: "", words: [] };
    if (!this.#plain.has(chosen)) this.#plain.set(chosen, { text: chosen.text, words: [] });
    return this.#plain.get(chosen);
  }

  #take(line, place) {
    const { of } = this.#result; // while a new text is on its way, the old one's alternatives still stand there
    if (of.lines[line] !== lines()[line] || of.model !== state.model || of.target !== state.target) return;
    const { [line]: _old, ...others } = state.chosen;
    const taken = this.#result.lines[line]?.alternatives[place - 1];
    change({ chosen: taken ? { ...others, [line]: { place, text: taken.text } } : others });
  }

  // Partners

  #alignmentOf(line) {
    const found = this.#result.lines[line];
    if (!found?.alignment || this.#shown[line] !== found) return [];
    const told = wordsOf(lines()[line] ?? "").length;
    return found.source_words?.length === told ? found.alignment : [];
  }

  #sourcesOf(line, word) {
    return this.#alignmentOf(line).filter(([, target]) => target === word).map(([source]) => source);
  }

  #fromTarget(line, word) {
    this.#again = () => this.#fromTarget(line, word);
    if (word === null) return this.#mark(0, [], []);
    this.#mark(line, this.#sourcesOf(line, word), [word]);
  }

  #fromSource(line, word) {
    this.#again = () => this.#fromSource(line, word);
    if (word === null) return this.#mark(0, [], []);
    const targets = this.#alignmentOf(line).filter(([source]) => source === word).map(([, target]) => target);
    this.#mark(line, [word], targets);
  }

  #mark(line, sources, targets) {
    this.#sentence.mark(line, sources);
    this.#translation.mark(line, targets);
    this.#onReading(sources.length + targets.length ? this.#reading(line, sources, targets) : null);
  }

  /** A word, its partners and the model's confidence, as a line of text. */
  #reading(line, sources, targets) {
    const left = wordsOf(lines()[line] ?? "");
    const right = wordsOf(this.#shown[line]?.text ?? "");
    const words = this.#shown[line]?.words ?? [];
    const sure = targets.map((place) => words[place]?.probability).filter((one) => one !== null && one !== undefined);
    return t("reading", {
      from: together(sources.map((place) => left[place]?.text)),
      to: together(targets.map((place) => right[place]?.text)),
      sure: sure.length === 1 ? percent(sure[0]) : null,
    });
  }

  // Below the panes

  #buildFeet() {
    const tools = this.#tools;
    const button = (
      name,
      onclick,
    ) => (tools[name] = make("button", { class: "quiet", "data-text": name, onclick }, t(name)));
    button("clear", () => {
      change({ text: "", chosen: {} });
      byId("sentence").focus();
    });
    button("alternatives", () => this.#alternatives.toggle());
    button("copy", () => this.#copied(state.shown.join("\n"), "copied"));
    button("share", () => this.#copied(link(), fits() ? "shared" : "shared.short"));
    tools.alternatives.setAttribute("aria-controls", "alternatives");
    tools.time = make("span", { class: "time" });
    tools.said = make("span", { class: "said", role: "status" });
    byId("source-foot").prepend(tools.clear);
    byId("target-foot").prepend(tools.time, tools.alternatives, tools.copy, tools.share, tools.said);
  }

  async #copied(text, key) {
    const done = await copy(text);
    this.#tools.said.textContent = t(done ? key : "copy.failed");
    setTimeout(() => (this.#tools.said.textContent = ""), 2_500);
  }

  #showTools() {
    const { waiting, milliseconds, lines: found } = this.#result;
    const tools = this.#tools;
    const any = this.#shown.some(({ text }) => text);
    tools.time.textContent = waiting
      ? t("translating")
      : any && milliseconds !== null
      ? t("milliseconds", number(milliseconds, milliseconds < 10 ? 1 : 0))
      : "";
    byId("sheet").classList.toggle("blank", !any);
    tools.copy.hidden = !any;
    tools.share.hidden = !state.text.trim();
    tools.alternatives.hidden = !found.some((line) => line?.alternatives?.length);
    tools.alternatives.setAttribute("aria-expanded", this.#alternatives.open);
  }

  #showRemarks() {
    const { lines: found, error } = this.#result;
    const warned = found.flatMap((line, place) => (line?.warnings ?? []).map((warning) => ({ warning, place })));
    const said = warned.slice(0, 5).map(({ warning, place }) =>
      (found.length > 1 ? t("in.line", place + 1) : "") + t(`warning.${warning}`)
    );
    const parts = found.reduce((most, line) => Math.max(most, line?.n_parts ?? 0), 0);
    if (parts > 1) said.push(t("parts", parts));
    byId("remarks").replaceChildren(
      ...(error ? [make("p", { class: "wrong", role: "alert" }, t("refused", error.code, error.message))] : []),
      ...said.map((line) => make("p", {}, line)),
    );
  }
}

const together = (words) => (words.length ? quoted(words.join(" ")) : "");
