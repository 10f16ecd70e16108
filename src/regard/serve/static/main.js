// The page, put together.

import { start as startAddress } from "./address.js";
import { byId } from "./dom.js";
import { settle, start as startPairs } from "./pairs.js";
import { ask, onThere, watch } from "./service.js";
import { Sheet } from "./sheet.js";
import { start as startShell } from "./shell.js";
import { change, state } from "./state.js";
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
    const { model, source, target } = settle(state);
    change({ model, source, target });
  } catch (error) {
    byId("remarks").textContent = t("refused", error.code, error.message);
  }
}

onThere((there) => there && meet());
meet();
watch();
if (!matchMedia("(pointer: coarse)").matches) byId("sentence").focus({ preventScroll: true });
