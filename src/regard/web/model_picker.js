// Selects the model: by its languages, or by its name if several models have the same languages.

import { byId, make } from "./dom.js";
import { languageName } from "./format.js";
import { parseHeadKey } from "./look/head_key.js";
import { change, currentModel, onChange, state } from "./state.js";
import { onLanguage, t } from "./texts/texts.js";

/** @import { Head } from "./look/head_key.js" */
/** @import { Model } from "./state.js" */

/**
 * Completes a part of the state: a model that exists and fits the languages, a target language of that model, and only
 * heads that it has.
 * @param {Record<string, any>} values
 * @returns {Record<string, any>}
 */
export function chooseModel(values) {
  const { models } = state;
  if (!models.length) return values;
  const chosen = models.find(({ name }) => name === values.model) ??
    models.find(({ source, targets }) => source === values.source && targets.includes(values.target)) ??
    models.find(({ source }) => values.source && source === values.source) ??
    models.find(({ targets }) => targets.includes(values.target)) ??
    models[0];
  const target = chosen.targets.includes(values.target) ? values.target : (chosen.targets[0] ?? null);
  const changes = values.changes ?? state.changes;
  const off = changes.off.filter((key) => hasHead(chosen, parseHeadKey(key)));
  return { ...values, model: chosen.name, source: chosen.source, target, changes: { ...changes, off } };
}

/**
 * Whether a model has this head; true if it does not state its sizes.
 * @param {Model} model
 * @param {Head} head
 */
function hasHead({ config }, { attention, layer, head }) {
  const nLayers = attention === "encoder" ? config?.n_encoder_layers : config?.n_decoder_layers;
  return layer < (nLayers ?? Infinity) && head < (config?.n_heads ?? Infinity);
}

export function startModelPicker() {
  onChange(["models", "model", "target"], show);
  onLanguage(show);
  show();
}

function show() {
  const model = currentModel();
  byId("source-name").textContent = model?.source ? languageName(model.source) : "";
  byId("target-name").textContent = state.target ? languageName(state.target) : "";
  byId("sentence").lang = model?.source ?? "";
  byId("words").lang = state.target ?? "";
  byId("pair").replaceChildren(...(model ? pickers(model) : []));
}

/** @param {Model} model */
function pickers(model) {
  const focused = document.activeElement?.id;
  const elements = [];
  if (model.source && state.target) {
    const sources = unique(state.models.map(({ source }) => source).filter(Boolean));
    const targets = unique(
      state.models.filter(({ source }) => source === model.source).flatMap(({ targets }) => targets),
    );
    elements.push(
      picker(
        "pair-from",
        "pair.from",
        named(sources),
        model.source,
        (source) => pick({ source, target: state.target }),
      ),
      swapButton(model),
      picker("pair-to", "pair.to", named(targets), state.target, (target) => pick({ source: model.source, target })),
    );
  }
  const sameLanguages = state.models.filter(({ source, targets }) =>
    !state.target || !source || (source === model.source && targets.includes(state.target))
  );
  if (sameLanguages.length > 1 || !elements.length) {
    const names = sameLanguages.map(({ name }) => [name, name]);
    elements.push(
      picker("pair-model", "pair.model", names, model.name, (name) => pick({ model: name, target: state.target })),
    );
  }
  queueMicrotask(() => focused?.startsWith("pair-") && byId(focused)?.focus());
  return elements;
}

/** A list to choose from; plain text if there is only one option. */
function picker(id, label, options, selected, onPick) {
  if (options.length === 1) return make("span", { id, class: "only", title: t(label) }, options[0][1]);
  const list = make("select", { id, "aria-label": t(label), onchange: () => onPick(list.value) });
  list.append(...options.map(([value, name]) => make("option", { value }, name)));
  list.value = selected;
  return list;
}

/**
 * Swaps the languages if there is a model for the other direction; a plain arrow otherwise.
 * @param {Model} model
 */
function swapButton(model) {
  const reverse = state.models.find(({ source, targets }) => source === state.target && targets.includes(model.source));
  if (!reverse) return make("span", { "aria-hidden": "true" }, "→");
  const onclick = () => {
    const text = [...byId("words").children].map((line) => line.textContent).join("\n");
    const values = chooseModel({ source: reverse.source, target: model.source });
    change({ ...values, text, chosen: {}, line: 0 }, { addHistory: true });
  };
  const label = t("pair.swap");
  return make("button", { class: "quiet", id: "pair-swap", "aria-label": label, title: label, onclick }, "⇄");
}

/** The text stays, unless it is no input for a model of this task. */
function pick(/** @type {Record<string, any>} */ values) {
  const chosen = chooseModel(values);
  const taskOf = (/** @type {string | null} */ model) => state.models.find(({ name }) => name === model)?.task;
  const text = taskOf(chosen.model) === taskOf(state.model) ? state.text : "";
  change({ ...chosen, text, chosen: {}, importance: false }, { addHistory: true });
}

const unique = (values) => [...new Set(values)];
const named = (codes) => codes.map((code) => [code, languageName(code)]);
