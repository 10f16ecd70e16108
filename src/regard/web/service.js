// The service, asked with patience: a question waits until the server is back, a key is there, or nobody wants to know any more.

import { keep, kept } from "./dom.js";

const HEARTBEAT = 5_000; // milliseconds between two looks whether the server is there
const FIRST_WAIT = 500;
const LONGEST_WAIT = 4_000;
// What asking again does not mend: somebody has to start the service again, or the training has to end. Milliseconds
const OF_A_MODEL = ["v1/translate", "v1/look"]; // where one of them answers, the training is over
const GIVEN_UP = 1_000; // milliseconds after which nobody has asked again
const LASTING = { engine_failed: ["failed", 30_000], not_ready: ["training", 10_000] };

/** The service's own refusal: a code, and words for the reader. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const listeners = new Set();
const returned = new Set(); // who wants to know that the server was away
let asking = 0; // questions that wait for their answers
let givenUp = false; // whether somebody did not wait for one
let server = "there"; // or "busy", "training", "failed", "gone"
const troubles = new Map(); // paths that are not answered → why: "training" or "failed"; others may still be answered
const waiting = new Set(); // who waits for anything to change
let back = null; // a promise while the server is away
let askForKey = () => Promise.resolve(null);

/** Call `then("there" | "busy" | "training" | "failed" | "gone")` when that has changed. */
export const onServer = (then) => listeners.add(then);

/** Call `then()` when the server is back: it may have come back with other models. */
export const onReturn = (then) => returned.add(then);

/** Who asks the reader for a key: an async function, told whether one was refused, that gives the key or null. */
export function keyFrom(asker) {
  let asking = null; // several questions may need the key at once; the reader is asked once
  askForKey = (refused) => {
    asking ??= asker(refused).finally(() => (asking = null));
    return asking;
  };
}

/** The JSON answer to a question. Throws a Refusal, or an AbortError when `signal` says so. */
export async function ask(path, question = {}) {
  asking += 1;
  try {
    return await askUntilAnswered(path, question);
  } finally {
    asking -= 1;
    givenUp ||= Boolean(question.signal?.aborted);
    if (givenUp && !asking) setTimeout(forgetTroubles, GIVEN_UP);
  }
}

/** What nobody waits for any more is nobody's trouble. */
function forgetTroubles() {
  if (asking || server === "gone") return;
  givenUp = false;
  troubles.clear();
  tell("there");
}

async function askUntilAnswered(path, { body, signal }) {
  let wait = FIRST_WAIT;
  let lasting = null;
  for (;;) {
    const used = kept("key", "sessionStorage");
    const response = await reach(path, body, used, signal);
    if (response === null) {
      await untilBack(signal);
    } else if (response.status === 503 && (lasting = LASTING[(await refusal(response)).code])) {
      const [why, pause] = lasting;
      troubles.set(path, why);
      tell(why);
      await untilNews(pause, signal);
    } else if (response.status === 503 || response.status === 429) {
      const after = Number(response.headers.get("Retry-After")) * 1000;
      if (wait > FIRST_WAIT) tell("busy");
      await sleep(Math.max(wait, Math.min(after || 0, LONGEST_WAIT * 2)), signal);
      wait = Math.min(wait * 2, LONGEST_WAIT);
    } else if (response.status === 401) {
      await newKey(used, await refusal(response), signal);
    } else {
      troubles.delete(path);
      if (response.ok && OF_A_MODEL.includes(path)) {
        for (const [other, why] of troubles) why === "training" && troubles.delete(other);
      }
      tell([...troubles.values()][0] ?? "there");
      if (!response.ok) throw await refusal(response);
      return response.json();
    }
  }
}

/** Look now and then whether the server is still there, as long as somebody looks at the page. */
export function watch() {
  setInterval(() => document.visibilityState === "visible" && server !== "gone" && reach("livez"), HEARTBEAT);
  for (const event of ["online", "focus"]) window.addEventListener(event, tellNews);
}

/** The response, or null when there is no server. */
async function reach(path, body, key, signal) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const asked = { method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store" };
  if (body !== undefined) asked.body = JSON.stringify(body);
  try {
    const response = await fetch(path, asked);
    if (server === "gone") {
      troubles.clear(); // it was started again
      for (const then of returned) then();
      tell("there");
    }
    return response;
  } catch (error) {
    if (signal?.aborted) throw error;
    tell("gone");
    return null;
  }
}

function tell(now) {
  if (now === server) return;
  server = now;
  for (const then of listeners) then(now);
  tellNews();
  if (now === "gone") untilBack();
}

/** One loop for all who wait. */
function untilBack(signal) {
  back ??= (async () => {
    for (let wait = FIRST_WAIT; server === "gone"; wait = Math.min(wait * 1.5, LONGEST_WAIT)) {
      await untilNews(wait);
      await reach("livez");
    }
    back = null;
  })();
  return Promise.race([back, gaveUp(signal)]);
}

/** Until something has changed, or the reader is back, or time is up. */
async function untilNews(milliseconds, signal) {
  let told = null;
  const news = new Promise((done) => waiting.add(told = done));
  await Promise.race([sleep(milliseconds, signal), news]).finally(() => waiting.delete(told));
}

function tellNews() {
  for (const done of waiting) done();
}

async function newKey(used, error, signal) {
  if (kept("key", "sessionStorage") !== used) return; // somebody else has asked in the meantime
  const key = await Promise.race([askForKey(Boolean(used)), gaveUp(signal)]);
  if (!key) throw error;
  keep("key", key, "sessionStorage");
}

async function refusal(response) {
  let told = null;
  try {
    told = (await response.json()).error;
  } catch {
    // Not an answer of ours; the status has to do.
  }
  const { code = `http_${response.status}`, message = response.statusText || String(response.status) } = Object(told);
  return new Refusal(response.status, code, message);
}

function sleep(milliseconds, signal) {
  return Promise.race([new Promise((done) => setTimeout(done, milliseconds)), gaveUp(signal)]);
}

function gaveUp(signal) {
  return new Promise((_, fail) => {
    if (signal?.aborted) fail(signal.reason);
    signal?.addEventListener("abort", () => fail(signal.reason), { once: true });
  });
}
