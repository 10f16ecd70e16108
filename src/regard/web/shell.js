// What stands around every view: tabs, the page's language, its theme, and the word that the server is away.

import { byId, keep, kept, make } from "./dom.js";
import { keyFrom, onServer } from "./service.js";
import { change, onChange, state, VIEWS } from "./state.js";
import { onLanguage, speak, t } from "./texts.js";

const THEMES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "○", dark: "●" };

/** Bring all of it to life. */
export function start() {
  startTabs();
  startTongues();
  startTheme();
  startNotice();
  keyFrom(askForKey);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("sentence").focus();
  });
}

function startTabs() {
  for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => change({ view }, { step: true }));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const steps = {
      ArrowRight: 1,
      ArrowLeft: -1,
      Home: -VIEWS.indexOf(state.view),
      End: VIEWS.length - 1 - VIEWS.indexOf(state.view),
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const view = VIEWS[(VIEWS.indexOf(state.view) + steps[event.key] + VIEWS.length) % VIEWS.length];
    change({ view }, { step: true });
    byId(`tab-${view}`).focus();
  });
  onChange(["view", "language"], showTabs);
  showTabs();
}

function showTabs() {
  document.body.dataset.view = state.view;
  document.title = `${t(`view.${state.view}`)} · regard`;
  for (const view of VIEWS) {
    const chosen = view === state.view;
    byId(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    byId(`tab-${view}`).tabIndex = chosen ? 0 : -1;
    byId(`view-${view}`).hidden = !chosen;
  }
}

function startTongues() {
  const show = () =>
    ["en", "ko"].forEach((one) => byId(`tongue-${one}`).setAttribute("aria-pressed", String(one === state.language)));
  for (const one of ["en", "ko"]) byId(`tongue-${one}`).addEventListener("click", () => speak(one));
  onLanguage(show);
  show();
}

function startTheme() {
  const button = byId("theme");
  const theme = () => (THEMES.includes(kept("theme")) ? kept("theme") : "auto");
  const show = (chosen) => {
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = SIGNS[chosen];
    button.title = t(`theme.${chosen}`);
    button.setAttribute("aria-label", t(`theme.${chosen}`));
  };
  let chosen = theme();
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    keep("theme", chosen === "auto" ? null : chosen);
    show(chosen);
  });
  onLanguage(() => show(chosen));
  show(chosen);
}

function startNotice() {
  let server = "there";
  const show = () => {
    byId("notice").hidden = server === "there";
    byId("notice").textContent = server === "there" ? "" : t(server);
  };
  onServer((now) => {
    server = now;
    show();
  });
  onLanguage(show);
}

/** Ask the reader for a key; null when they would rather not. */
function askForKey(refused) {
  return new Promise((done) => {
    const field = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
    const dialog = make(
      "dialog",
      { "aria-labelledby": "key-title" },
      make(
        "form",
        { method: "dialog" },
        make("h2", { id: "key-title" }, t("key.title")),
        refused ? make("p", { class: "wrong", role: "alert" }, t("key.refused")) : null,
        make("label", { for: "key" }, t("key.label")),
        field,
        make("p", { class: "why" }, t("key.why")),
        make(
          "div",
          { class: "row" },
          make("button", { class: "main", value: "use" }, t("key.ok")),
          make("button", { value: "", formnovalidate: true }, t("key.cancel")),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(dialog.returnValue === "use" ? field.value.trim() || null : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
