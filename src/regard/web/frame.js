// The frame around all views: tabs, the page's language, the theme, and the notice about the server.

import { loadSetting, saveSetting } from "./browser.js";
import { byId, make } from "./dom.js";
import { onStatus, setKeyPrompt } from "./service.js";
import { change, currentModel, onChange, state, translates, VIEWS } from "./state.js";
import { language, languages, onLanguage, setLanguage, t, translateElements } from "./texts/texts.js";

const THEMES = ["auto", "light", "dark"];
const THEME_SIGNS = { auto: "◐", light: "○", dark: "●" };
// Elements whose texts are others for a model that does not translate: its id, the attribute, and the key of the text.
const TASK_TEXTS = [
  ["skip", "text", "skip"],
  ["tab-translate", "text", "view.translate"],
  ["translate-panel", "label", "panel"],
  ["sentence", "label", "sentence"],
  ["sentence", "placeholder", "placeholder"],
  ["words", "label", "words"],
];

export function startFrame() {
  startTabs();
  startLanguageButtons();
  startTheme();
  startNotice();
  setKeyPrompt(promptForKey);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("sentence").focus();
  });
}

/** Uses the language that was chosen before, or the first of the browser's languages that there is. */
export function startLanguage() {
  onLanguage(() => {
    document.documentElement.lang = language();
    translateElements(document);
  });
  const wanted = [loadSetting("language"), ...navigator.languages.map((code) => code.slice(0, 2))];
  setLanguage(wanted.find((code) => languages().includes(code)) ?? "en");
}

function startTabs() {
  for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => change({ view }, { addHistory: true }));
  document.querySelector("[role=tablist]").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const now = VIEWS.indexOf(state.view);
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -now, End: VIEWS.length - 1 - now };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const view = VIEWS[(now + moves[event.key] + VIEWS.length) % VIEWS.length];
    change({ view }, { addHistory: true });
    byId(`tab-${view}`).focus();
  });
  onChange(["models", "model"], showTaskTexts);
  onChange(["view"], showTabs);
  onLanguage(showTabs);
  showTabs();
}

function showTaskTexts() {
  const isStory = currentModel()?.is_one_input;
  for (const [id, attribute, key] of TASK_TEXTS) {
    const ofTask = isStory && id === "sentence" ? `story.${key}` : `predict.${key}`;
    byId(id).dataset[attribute] = translates() ? key : ofTask;
  }
  translateElements(document);
  showTabs();
}

function showTabs() {
  document.body.dataset.view = state.view;
  document.title = `${byId(`tab-${state.view}`).textContent} · regard`;
  for (const view of VIEWS) {
    const selected = view === state.view;
    byId(`tab-${view}`).setAttribute("aria-selected", String(selected));
    byId(`tab-${view}`).tabIndex = selected ? 0 : -1;
    byId(`view-${view}`).hidden = !selected;
  }
}

function startLanguageButtons() {
  const show = () => {
    for (const code of languages()) byId(`language-${code}`).setAttribute("aria-pressed", String(code === language()));
  };
  for (const code of languages()) {
    byId(`language-${code}`).addEventListener("click", () => {
      saveSetting("language", code);
      setLanguage(code);
    });
  }
  onLanguage(show);
  show();
}

function startTheme() {
  const button = byId("theme");
  let theme = loadSetting("theme");
  if (!THEMES.includes(theme)) theme = "auto";
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = THEME_SIGNS[theme];
    button.title = t(`theme.${theme}`);
    button.setAttribute("aria-label", t(`theme.${theme}`));
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    saveSetting("theme", theme === "auto" ? null : theme);
    show();
  });
  onLanguage(show);
  show();
}

function startNotice() {
  let status = "ok";
  const show = () => {
    byId("notice").hidden = status === "ok";
    byId("notice").textContent = status === "ok" ? "" : t(`server.${status}`);
  };
  onStatus((now) => {
    status = now;
    show();
  });
  onLanguage(show);
}

/**
 * Asks the user for an API key; null if the dialog is cancelled.
 * @param {boolean} rejected whether the last key was not accepted
 * @returns {Promise<string | null>}
 */
function promptForKey(rejected) {
  return new Promise((resolve) => {
    const field = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
    const buttons = make(
      "div",
      { class: "row" },
      make("button", { class: "main", value: "use" }, t("key.ok")),
      make("button", { value: "", formnovalidate: true }, t("key.cancel")),
    );
    const form = make(
      "form",
      { method: "dialog" },
      make("h2", { id: "key-title" }, t("key.title")),
      rejected ? make("p", { class: "error", role: "alert" }, t("key.rejected")) : null,
      make("label", { for: "key" }, t("key.label")),
      field,
      make("p", { class: "explanation" }, t("key.why")),
      buttons,
    );
    const dialog = make("dialog", { "aria-labelledby": "key-title" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "use" ? field.value.trim() || null : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
