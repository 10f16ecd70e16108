// The state of the page. Each part of the page listens for the keys that it shows.

export const VIEWS = ["translate", "look", "try", "training"];

/**
 * What "Try it" changes in the model; off holds head keys such as "encoder.0.3".
 * @typedef {{ off: string[], scale: boolean, mask: boolean, positions: string }} Changes
 */
/** @type {Changes} */
export const UNCHANGED = Object.freeze({ off: [], scale: true, mask: true, positions: "normal" });

/**
 * A row of /v1/models.
 * @typedef {object} Model
 * @property {string} name
 * @property {string | null} [task] null while it trains
 * @property {string | null} source
 * @property {string[]} targets
 * @property {string} engine
 * @property {boolean} training whether its run is known
 * @property {boolean} ready
 * @property {{ texts: string[], head: any } | null} [examples] sentences to look at
 * @property {Record<string, any>} [config] of its architecture
 * @property {Record<string, any> | null} [image] the size of the images that it reads
 * @property {boolean} [is_one_input] whether a text of several lines is one input
 */

/**
 * @typedef {object} State
 * @property {string} view
 * @property {string} text
 * @property {number} line index of the line that "Look inside" and "Try it" show
 * @property {Model[]} models
 * @property {string | null} model name of the model in use
 * @property {string | null} source language code; null if the model does not state it
 * @property {string | null} target
 * @property {Record<string, any>} place step, attention, layer, head and level of "Look inside"
 * @property {Changes} changes
 * @property {boolean} depends whether "Look inside" shows what each word depends on
 * @property {boolean} importance whether "Try it" shows which heads matter
 * @property {string[]} shown the translation, line by line
 * @property {{ lines: (string | null)[], model?: string, target?: string }} shownFor what `shown` translates; a line is
 *   null while the translation shown is still that of an older text
 * @property {Record<number, { rank: number, text: string | null }>} chosen line → the alternative that was selected; its
 *   text is null until it is known
 */
/** @type {State} */
export const state = {
  view: "translate",
  text: "",
  line: 0,
  models: [],
  model: null,
  source: null,
  target: null,
  place: {},
  changes: UNCHANGED,
  depends: false,
  importance: false,
  shown: [],
  shownFor: { lines: [] },
  chosen: {},
};

/** @typedef {{ changed: Set<string>, addHistory: boolean }} ChangeEvent */
/** @type {{ keys: string[], listener: (event: ChangeEvent) => void }[]} */
const listeners = [];

/**
 * Calls `listener` whenever one of these keys has changed.
 * @param {(keyof State)[]} keys
 * @param {(event: ChangeEvent) => void} listener
 */
export function onChange(keys, listener) {
  listeners.push({ keys, listener });
}

/**
 * Changes some keys and notifies the listeners.
 * @param {Partial<State>} values
 * @param {{ addHistory?: boolean }} [options] addHistory: the back button undoes this change
 */
export function change(values, { addHistory = false } = {}) {
  const changed = new Set(Object.keys(values).filter((key) => !isEqual(state[key], values[key])));
  if (!changed.size) return;
  Object.assign(state, values);
  for (const { keys, listener } of listeners) {
    if (keys.some((key) => changed.has(key))) listener({ changed, addHistory });
  }
}

const isEqual = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

/**
 * The inputs in a text: its lines, which only a line feed ends, or all of it, such as a story.
 * @param {string} text
 */
export const inputsOf = (text) => (currentModel()?.is_one_input ? [text] : text.split("\n"));

/** The lines of the text, as the service counts them. */
export const lines = () => inputsOf(state.text);

/** The line that is looked into: the selected one, or the first that is not blank (index −1 if there is none). */
export function selectedLine() {
  const all = lines();
  const index = all[state.line]?.trim() ? state.line : all.findIndex((line) => line.trim());
  return { index, text: index < 0 ? "" : all[index].trim() };
}

/** The model in use, or null before the service has answered. */
export const currentModel = () => state.models.find(({ name }) => name === state.model) ?? null;

/** Whether the model in use translates, as far as is known; a model of another task predicts. */
export const translates = () => (currentModel()?.task ?? "translation") === "translation";
