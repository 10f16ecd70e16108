// The sentence and its translation: the part of the page that is visible in all views.

import { link, textFits } from "../address.js";
import { copy } from "../browser.js";
import { byId, isolated, make } from "../dom.js";
import { decimal, percent } from "../format.js";
import { onReconnect } from "../service.js";
import { change, currentModel, lines, onChange, state, translates } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";
import { splitWords } from "../words.js";
import { Alternatives } from "./alternatives.js";
import { SourceText } from "./source_text.js";
import { TranslationRequests } from "./translation_requests.js";
import { TranslationText } from "./translation_text.js";

/** @import { Result } from "./translation_requests.js" */

const EMPTY = { for: { lines: [] }, lines: [], milliseconds: null, waiting: false, done: true, error: null };
// In milliseconds.
const ANNOUNCE_AFTER = 700; // screen readers get the translation, not every keystroke of it
const MESSAGE_FOR = 2_500;
const MAX_WARNINGS = 5;

export class TranslatePanel {
  #source;
  #translation;
  #requests = new TranslationRequests((result) => this.#onResult(result));
  #alternatives = new Alternatives(byId("alternatives"), (line, rank) => this.#select(line, rank));
  /** @type {any} */
  #result = EMPTY;
  #shown = []; // what the translation shows, line by line
  #plainLines = new WeakMap(); // a selected alternative → the line that shows it
  /** @type {Record<string, any>} */
  #tools = {};
  #highlightAgain = () => this.#fromTarget(0, null); // for a word whose alignment becomes known while it is pointed at
  #announceTimer = 0;
  #onWordInfo;

  /**
   * @param {{ onWordInfo: (text: string | null, aligned: boolean) => void }} callbacks called when a word is pointed at,
   *   and whether words are aligned: not all models do
   */
  constructor({ onWordInfo }) {
    this.#onWordInfo = onWordInfo;
    this.#source = new SourceText(byId("sentence"), byId("mirror"), {
      onText: (text) => change({ text, chosen: {} }),
      onWord: (line, word) => this.#fromSource(line, word),
    });
    this.#translation = new TranslationText(byId("words"), {
      onWord: (line, word) => this.#fromTarget(line, word),
      describe: (line, word) => this.#wordInfo(line, this.#sourcesOf(line, word), [word]),
    });
    this.#buildTools();
    onChange(["text", "models", "model", "target"], ({ changed }) => this.#translate(!changed.has("text")));
    onChange(["chosen"], () => this.#show());
    onChange(["view"], () => this.#showTools());
    onLanguage(() => this.#show());
    onReconnect(() => this.#translate(true));
  }

  /** Shows the text of the state and requests its translation. */
  start() {
    this.#translate(true);
  }

  #translate(/** @type {boolean} */ immediately) {
    this.#source.set(state.text);
    if (currentModel()) this.#requests.translate(state.text, state.model, state.target, immediately);
    this.#tools.clear.hidden = !state.text;
  }

  /** Until the new translation is there, the old one stays, so that the page does not flicker. */
  #onResult(/** @type {Result} */ result) {
    const old = this.#result.lines;
    const milliseconds = result.milliseconds ?? (result.done && !result.error ? null : this.#result.milliseconds);
    this.#result = {
      ...result,
      for: { ...result.for, lines: result.lines.map((line, i) => (line ? result.for.lines[i] : null)) },
      milliseconds,
      lines: result.lines.map((line, i) => line ?? (result.error && !translates() ? null : old[i]) ?? null),
    };
    this.#show();
    clearTimeout(this.#announceTimer);
    if (!result.done) return;
    const announce = () => (byId("live-region").textContent = state.shown.join("\n"));
    this.#announceTimer = setTimeout(announce, ANNOUNCE_AFTER);
  }

  #show() {
    change({ chosen: this.#resolvedChoice() });
    this.#shown = this.#result.lines.map((line, index) => this.#lineToShow(line, index));
    this.#translation.show(this.#shown);
    change({ shown: this.#shown.map(({ text }) => text), shownFor: this.#result.for });
    this.#alternatives.show(this.#result.lines, state.chosen);
    this.#showTools();
    this.#showMessages();
    this.#highlightAgain();
  }

  /** The selected alternatives with their texts, as far as they are known; without those that do not exist. */
  #resolvedChoice() {
    return Object.fromEntries(
      Object.entries(state.chosen).flatMap(([index, chosen]) => {
        const line = Number(index);
        if (!this.#isCurrent(line)) return [[line, chosen]];
        const text = this.#result.lines[line].alternatives[chosen.rank - 1]?.text;
        return text === undefined ? [] : [[line, { rank: chosen.rank, text }]];
      }),
    );
  }

  /** Whether what is shown of a line is not that of an older text or another model. */
  #isCurrent(/** @type {number} */ line) {
    const { for: translated } = this.#result;
    return translated.lines[line] === lines()[line] && translated.model === state.model &&
      translated.target === state.target && Boolean(this.#result.lines[line]?.alternatives);
  }

  #lineToShow(line, index) {
    const chosen = line?.alternatives?.[(state.chosen[index]?.rank ?? 0) - 1];
    if (!chosen) return line ?? { text: "", words: [] };
    if (!this.#plainLines.has(chosen)) this.#plainLines.set(chosen, { text: chosen.text, words: [] });
    return this.#plainLines.get(chosen);
  }

  /** Selects an alternative, unless it belongs to an older text that is still shown. */
  #select(line, rank) {
    if (!this.#isCurrent(line)) return;
    const { [line]: _previous, ...others } = state.chosen;
    const selected = this.#result.lines[line]?.alternatives[rank - 1];
    change({ chosen: selected ? { ...others, [line]: { rank, text: selected.text } } : others });
  }

  // Word alignment

  #alignmentOf(line) {
    const result = this.#result.lines[line];
    if (!result?.alignment || this.#shown[line] !== result) return [];
    const nWords = splitWords(lines()[line] ?? "").length;
    return result.source_words?.length === nWords ? result.alignment : [];
  }

  #sourcesOf(line, word) {
    return this.#alignmentOf(line).filter(([, target]) => target === word).map(([source]) => source);
  }

  #fromTarget(line, word) {
    this.#highlightAgain = () => this.#fromTarget(line, word);
    if (word === null) return this.#highlight(0, [], []);
    this.#highlight(line, this.#sourcesOf(line, word), [word]);
  }

  #fromSource(line, word) {
    this.#highlightAgain = () => this.#fromSource(line, word);
    if (word === null) return this.#highlight(0, [], []);
    const targets = this.#alignmentOf(line).filter(([source]) => source === word).map(([, target]) => target);
    this.#highlight(line, [word], targets);
  }

  #highlight(line, sources, targets) {
    this.#source.highlight(line, sources);
    this.#translation.highlight(line, targets);
    const { lines: results } = this.#result;
    const aligned = !results.some((line) => line?.words.length) || results.some((line) => line?.alignment.length);
    this.#onWordInfo(sources.length + targets.length ? this.#wordInfo(line, sources, targets) : null, aligned);
  }

  /** A word, the words aligned with it, and the model's confidence, as one line of text. */
  #wordInfo(line, sources, targets) {
    const sourceWords = splitWords(lines()[line] ?? "");
    const targetWords = splitWords(this.#shown[line]?.text ?? "");
    const probabilities = targets.map((word) => this.#shown[line]?.words?.[word]?.probability)
      .filter((probability) => probability !== null && probability !== undefined);
    return t("word.info", {
      from: joined(sources.map((word) => sourceWords[word]?.text)),
      to: joined(targets.map((word) => targetWords[word]?.text)),
      confidence: probabilities.length === 1 ? percent(probabilities[0]) : null,
    });
  }

  // Below the sentence and the translation

  #buildTools() {
    const tools = this.#tools;
    const addButton = (name, onclick) => {
      tools[name] = make("button", { class: "quiet", "data-text": name, onclick }, t(name));
    };
    addButton("clear", () => {
      change({ text: "", chosen: {} });
      byId("sentence").focus();
    });
    addButton("alternatives", () => this.#alternatives.toggle());
    addButton("copy", () => this.#copy(state.shown.join("\n"), "copied"));
    addButton("share", () => this.#copy(link(), textFits() ? "shared" : "shared.short"));
    tools.alternatives.setAttribute("aria-controls", "alternatives");
    tools.time = make("span", { class: "time" });
    tools.message = make("span", { class: "tool-message", role: "status" });
    byId("source-tools").prepend(tools.clear);
    byId("target-tools").prepend(tools.time, tools.alternatives, tools.copy, tools.share, tools.message);
  }

  async #copy(text, key) {
    const copied = await copy(text);
    this.#tools.message.textContent = t(copied ? key : "copy.failed");
    setTimeout(() => (this.#tools.message.textContent = ""), MESSAGE_FOR);
  }

  #showTools() {
    const { waiting, milliseconds, lines: results } = this.#result;
    const tools = this.#tools;
    const any = this.#shown.some(({ text }) => text);
    const hasTime = any && milliseconds !== null;
    const time = hasTime ? t("milliseconds", decimal(milliseconds, milliseconds < 10 ? 1 : 0)) : "";
    tools.time.textContent = waiting ? t("translating") : time;
    byId("translate-panel").classList.toggle("blank", !any);
    tools.copy.hidden = !any;
    tools.share.hidden = !state.text.trim();
    tools.alternatives.hidden = !results.some((line) => line?.alternatives?.length);
    tools.alternatives.setAttribute("aria-expanded", this.#alternatives.open);
  }

  #showMessages() {
    const { lines: results, error } = this.#result;
    const warnings = results.flatMap((line, index) => (line?.warnings ?? []).map((warning) => ({ warning, index })));
    const messages = warnings.slice(0, MAX_WARNINGS).map(({ warning, index }) =>
      (results.length > 1 ? t("in.line", index + 1) : "") + t(`warning.${warning}`)
    );
    const nParts = Math.max(0, ...results.map((line) => line?.n_parts ?? 0));
    if (nParts > 1) messages.push(t("parts", nParts));
    byId("messages").replaceChildren(
      ...(error ? [make("p", { class: "error", role: "alert" }, t("refused", error.code, error.message))] : []),
      ...messages.map((message) => make("p", {}, message)),
    );
  }
}

const joined = (words) => (words.length ? isolated(words.join(" ")) : "");
