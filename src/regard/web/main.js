// Entry point: builds the page and connects it to the service.

import { startAddress } from "./address.js";
import { byId, make } from "./dom.js";
import { startFrame, startLanguage } from "./frame.js";
import { LookView } from "./look/look_view.js";
import { stepNumber } from "./look/place.js";
import { chooseModel, startModelPicker } from "./model_picker.js";
import { onStatus, request, startHeartbeat } from "./service.js";
import { change, currentModel, onChange, state } from "./state.js";
import { t } from "./texts/texts.js";
import { TrainingView } from "./training/training_view.js";
import { ImageInput } from "./translate/image_input.js";
import { TranslatePanel } from "./translate/translate_panel.js";
import { TranslateView } from "./translate/translate_view.js";
import { TryView } from "./try/try_view.js";

const isFresh = !location.hash;
startLanguage();
startAddress(chooseModel);
startFrame();
startModelPicker();

const translateView = new TranslateView(byId("view-translate"));
new LookView(byId("view-look"));
new TryView(byId("view-try"));
new TrainingView(byId("view-training"));
new ImageInput();
new TranslatePanel({ onWordInfo: (text, aligned) => translateView.showWordInfo(text, aligned) }).start();

/** Loads the list of models; again after a reconnect, since the server may then serve other models. */
async function loadModels() {
  try {
    const { models } = await request("v1/models");
    change({ models });
    const { model, source, target, changes } = chooseModel(state);
    change({ model, source, target, changes });
    byId("connection-error").replaceChildren();
    if (isFresh && !state.text) openExample();
  } catch (error) {
    const retry = make("button", { class: "textlink", onclick: loadModels }, t("again"));
    const message = make("p", { class: "error" }, t("refused", error.code, error.message), " ", retry);
    byId("connection-error").replaceChildren(message);
  }
}

/** A fresh page opens with the sentence that the run suggests; "Look inside" then opens at its head. */
function openExample() {
  const { examples } = currentModel() ?? {};
  if (examples) change({ text: examples.texts[0], place: { step: stepNumber("heads"), ...examples.head } });
}

onStatus((status) => status === "ok" && loadModels());
// A model that was not ready has translated: its training has ended.
onChange(["shownFor"], () => currentModel()?.ready === false && state.shownFor.lines.some(Boolean) && loadModels());
loadModels();
startHeartbeat();
if (state.view === "translate" && !matchMedia("(pointer: coarse)").matches) {
  byId("sentence").focus({ preventScroll: true });
}
