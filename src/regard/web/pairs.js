// Which model translates: picked by its languages, or by its name where that is all there is to tell models apart.

import { byId, make } from "./dom.js";
import { headOf } from "./looking.js";
import { change, model, onChange, state } from "./state.js";
import { languageName, t } from "./texts.js";

/** Complete a state: a model that exists and suits the languages as well as any, a target and silent heads that it has. */
export function settle(wanted) {
  const { models } = state;
  if (!models.length) return wanted;
  const suits = (one) => one.source === wanted.source && one.targets.includes(wanted.target);
  const found = models.find((one) => one.name === wanted.model) ??
    models.find(suits) ??
    models.find((one) => wanted.source && one.source === wanted.source) ??
    models.find((one) => one.targets.includes(wanted.target)) ??
    models[0];
  const target = found.targets.includes(wanted.target) ? wanted.target : (found.targets[0] ?? null);
  const changes = wanted.changes ?? state.changes;
  const off = changes.off.filter((key) => has(found, headOf(key)));
  return { ...wanted, model: found.name, source: found.source, target, changes: { ...changes, off } };
}

/** Whether a model has this head; where it does not tell its sizes, it may. */
function has({ n_heads: heads, n_encoder_layers: encoder, n_decoder_layers: decoder }, { attention, layer, head }) {
  return layer < ((attention === "encoder" ? encoder : decoder) ?? Infinity) && head < (heads ?? Infinity);
}

/** Show the pickers, and keep them right. */
export function start() {
  onChange(["models", "model", "target", "language"], show);
  show();
}

function show() {
  const now = model();
  byId("source-name").textContent = now?.source ? languageName(now.source) : "";
  byId("target-name").textContent = state.target ? languageName(state.target) : "";
  byId("sentence").lang = now?.source ?? "";
  byId("words").lang = state.target ?? "";
  byId("pair").replaceChildren(...(now ? pickers(now) : []));
}

function pickers(now) {
  const focused = document.activeElement?.id;
  const shown = [];
  if (now.source && state.target) {
    const sources = unique(state.models.map((one) => one.source).filter(Boolean));
    const targets = unique(state.models.filter((one) => one.source === now.source).flatMap((one) => one.targets));
    shown.push(
      picker("pair-from", "pair.from", named(sources), now.source, (source) => pick({ source, target: state.target })),
    );
    shown.push(arrow(now));
    shown.push(
      picker("pair-to", "pair.to", named(targets), state.target, (target) => pick({ source: now.source, target })),
    );
  }
  const rivals = state.models.filter((one) =>
    !state.target || !one.source || (one.source === now.source && one.targets.includes(state.target))
  );
  if (rivals.length > 1 || !shown.length) {
    const names = rivals.map(({ name }) => [name, name]);
    shown.push(
      picker("pair-model", "pair.model", names, now.name, (name) => pick({ model: name, target: state.target })),
    );
  }
  queueMicrotask(() => focused?.startsWith("pair-") && byId(focused)?.focus());
  return shown;
}

/** A list to choose from; where there is no choice, the name alone. */
function picker(id, label, options, chosen, onPick) {
  if (options.length === 1) return make("span", { id, class: "only", title: t(label) }, options[0][1]);
  const list = make("select", { id, "aria-label": t(label), onchange: () => onPick(list.value) });
  list.append(...options.map(([value, name]) => make("option", { value }, name)));
  list.value = chosen;
  return list;
}

/** Between the languages; a button where there is a model for the other direction. */
function arrow(now) {
  const back = state.models.find((one) => one.source === state.target && one.targets.includes(now.source));
  if (!back) return make("span", { "aria-hidden": "true" }, "→");
  const swap = () => {
    const text = [...byId("words").children].map((line) => line.textContent).join("\n");
    change({ ...settle({ source: back.source, target: now.source }), text, chosen: {}, line: 0 }, { step: true });
  };
  return make("button", {
    class: "quiet",
    id: "pair-swap",
    "aria-label": t("pair.swap"),
    title: t("pair.swap"),
    onclick: swap,
  }, "⇄");
}

const pick = (wanted) => change({ ...settle(wanted), chosen: {} }, { step: true });
const unique = (values) => [...new Set(values)];
const named = (codes) => codes.map((code) => [code, languageName(code)]);
