// The page, put together.

import { start as startAddress } from "./address.js";
import { byId, make } from "./dom.js";
import { settle, start as startPairs } from "./pairs.js";
import { ask, onServer, watch } from "./service.js";
import { Sheet } from "./sheet.js";
import { start as startShell } from "./shell.js";
import { change, model, onChange, state } from "./state.js";
import { startLanguage, t } from "./texts.js";
import { LookView } from "./view_look.js";
import { TrainingView } from "./view_training.js";
import { TranslateView } from "./view_translate.js";
import { TryView } from "./view_try.js";

startLanguage();
startAddress(settle);
startShell();
startPairs();

const translate = new TranslateView(byId("view-translate"));
new LookView(byId("view-look"));
new TryView(byId("view-try"));
new TrainingView(byId("view-training"));
new Sheet({ onReading: (text) => translate.read(text) }).start();

/** What the service offers; asked again when it comes back, for it may have come back with other models. */
async function meet() {
  try {
    const { models } = await ask("v1/models");
    change({ models });
    const { model: name, source, target, changes } = settle(state);
    change({ model: name, source, target, changes });
    byId("unmet").replaceChildren();
  } catch (error) {
    const again = make("button", { class: "textlink", onclick: meet }, t("again"));
    byId("unmet").replaceChildren(make("p", { class: "wrong" }, t("refused", error.code, error.message), " ", again));
  }
}

onServer((now) => now === "there" && meet());
onChange(["shownOf"], () => model()?.ready === false && state.shownOf.lines.some(Boolean) && meet()); // its training has ended
meet();
watch();
if (state.view === "translate" && !matchMedia("(pointer: coarse)").matches) {
  byId("sentence").focus({ preventScroll: true });
}
