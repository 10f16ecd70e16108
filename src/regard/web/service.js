// Requests to the service. A request waits until the server is back, a key is entered, or its signal is aborted.

import { loadSetting, saveSetting } from "./browser.js";

/** @typedef {"ok" | "busy" | "training" | "failed" | "offline"} Status */
/** @typedef {{ body?: any, signal?: AbortSignal }} RequestOptions */

// All in milliseconds.
const HEARTBEAT = 5_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 4_000;
const FORGET_AFTER = 1_000; // how long a status is kept after its request was aborted
// Errors that retrying soon cannot fix: the service has to be restarted, or the training has to end.
/** @type {Record<string, [Status, number]>} */
const LONG_WAITS = { engine_failed: ["failed", 30_000], not_ready: ["training", 10_000] };
const MODEL_PATHS = ["v1/translate", "v1/predict", "v1/look"]; // if one of these succeeds, the training is over

/** An error response of the service: its code, and a message for the user. */
export class ServiceError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @type {Set<(status: Status) => void>} */
const statusListeners = new Set();
/** @type {Set<() => void>} */
const reconnectListeners = new Set();
/** @type {Status} */
let status = "ok";
/** @type {Map<string, Status>} */
const problems = new Map(); // paths that cannot answer at the moment, and why; other paths may work
let nRequests = 0; // in progress
let anyAborted = false;
/** @type {Set<() => void>} */
const wakeCalls = new Set(); // end the waits that are under way
/** @type {Promise<void> | null} */
let reconnected = null; // while the server is offline
/** @type {(rejected: boolean) => Promise<string | null>} */
let promptForKey = () => Promise.resolve(null);

/**
 * Calls `listener` when the status of the server changes.
 * @param {(status: Status) => void} listener
 */
export const onStatus = (listener) => statusListeners.add(listener);

/**
 * Calls `listener` when the server is back; it may serve other models now.
 * @param {() => void} listener
 */
export const onReconnect = (listener) => reconnectListeners.add(listener);

/**
 * Sets the function that asks the user for an API key. Concurrent requests share one prompt.
 * @param {(rejected: boolean) => Promise<string | null>} prompt `rejected`: the previous key was not accepted
 */
export function setKeyPrompt(prompt) {
  let pending = null;
  promptForKey = (rejected) => {
    pending ??= prompt(rejected).finally(() => (pending = null));
    return pending;
  };
}

/**
 * The JSON response. Throws a ServiceError, or an AbortError if `signal` is aborted.
 * @param {string} path
 * @param {RequestOptions} [options] with a body it is a POST
 * @returns {Promise<any>}
 */
export async function request(path, options = {}) {
  nRequests += 1;
  try {
    return await sendUntilAnswered(path, options);
  } finally {
    nRequests -= 1;
    anyAborted ||= Boolean(options.signal?.aborted);
    if (anyAborted && !nRequests) setTimeout(forgetProblems, FORGET_AFTER);
  }
}

/** Once no request waits for an answer any more, its problem is not shown any more. */
function forgetProblems() {
  if (nRequests || status === "offline") return;
  anyAborted = false;
  problems.clear();
  setStatus("ok");
}

/**
 * @param {string} path
 * @param {RequestOptions} options
 */
async function sendUntilAnswered(path, { body, signal }) {
  let wait = FIRST_WAIT;
  let longWait = null;
  for (;;) {
    const key = loadSetting("key", "sessionStorage");
    const response = await send(path, body, key, signal);
    if (response === null) {
      await untilReconnected(signal);
    } else if (response.status === 503 && (longWait = LONG_WAITS[(await errorOf(response)).code])) {
      const [problem, pause] = longWait;
      problems.set(path, problem);
      setStatus(problem);
      await untilWoken(pause, signal);
    } else if (response.status === 503 || response.status === 429) {
      const retryAfter = Number(response.headers.get("Retry-After")) * 1000;
      if (wait > FIRST_WAIT) setStatus("busy");
      await sleep(Math.max(wait, Math.min(retryAfter || 0, LONGEST_WAIT * 2)), signal);
      wait = Math.min(wait * 2, LONGEST_WAIT);
    } else if (response.status === 401) {
      await askForKey(key, await errorOf(response), signal);
    } else {
      problems.delete(path);
      if (response.ok && MODEL_PATHS.includes(path)) {
        for (const [other, problem] of problems) if (problem === "training") problems.delete(other);
      }
      setStatus([...problems.values()][0] ?? "ok");
      if (!response.ok) throw await errorOf(response);
      return response.json();
    }
  }
}

/** Checks every few seconds whether the server is still there, as long as the page is visible. */
export function startHeartbeat() {
  setInterval(() => document.visibilityState === "visible" && status !== "offline" && send("livez"), HEARTBEAT);
  for (const event of ["online", "focus"]) window.addEventListener(event, wakeAll);
}

/**
 * One request; null if the server cannot be reached.
 * @param {string} path
 * @param {any} [body]
 * @param {string | null} [key]
 * @param {AbortSignal} [signal]
 */
async function send(path, body, key, signal) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  /** @type {RequestInit} */
  const init = { method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  try {
    const response = await fetch(path, init);
    if (status === "offline") {
      problems.clear(); // the server was restarted
      for (const listener of reconnectListeners) listener();
      setStatus("ok");
    }
    return response;
  } catch (error) {
    if (signal?.aborted) throw error;
    setStatus("offline");
    return null;
  }
}

/** @param {Status} now */
function setStatus(now) {
  if (now === status) return;
  status = now;
  for (const listener of statusListeners) listener(now);
  wakeAll();
  if (now === "offline") untilReconnected();
}

/**
 * All requests share one loop that polls the server.
 * @param {AbortSignal} [signal]
 */
function untilReconnected(signal) {
  reconnected ??= (async () => {
    for (let wait = FIRST_WAIT; status === "offline"; wait = Math.min(wait * 1.5, LONGEST_WAIT)) {
      await untilWoken(wait);
      await send("livez");
    }
    reconnected = null;
  })();
  return Promise.race([reconnected, aborted(signal)]);
}

/**
 * Waits until the status changes, the user comes back to the page, or time is up.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
async function untilWoken(milliseconds, signal) {
  let wake = null;
  const woken = new Promise((resolve) => wakeCalls.add(wake = () => resolve(null)));
  await Promise.race([sleep(milliseconds, signal), woken]).finally(() => wakeCalls.delete(wake));
}

function wakeAll() {
  for (const wake of wakeCalls) wake();
}

/**
 * Asks for a key and stores it, unless another request has done so in the meantime. Throws `error` if none is given.
 * @param {string | null} rejectedKey
 * @param {ServiceError} error
 * @param {AbortSignal} [signal]
 */
async function askForKey(rejectedKey, error, signal) {
  if (loadSetting("key", "sessionStorage") !== rejectedKey) return;
  const key = await Promise.race([promptForKey(Boolean(rejectedKey)), aborted(signal)]);
  if (!key) throw error;
  saveSetting("key", key, "sessionStorage");
}

/** @param {Response} response */
async function errorOf(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // Not a response of the service (a proxy's, perhaps); the HTTP status is all there is.
  }
  const { code = `http_${response.status}`, message = response.statusText || String(response.status) } = Object(error);
  return new ServiceError(response.status, code, message);
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
function sleep(milliseconds, signal) {
  return Promise.race([new Promise((resolve) => setTimeout(resolve, milliseconds)), aborted(signal)]);
}

/**
 * Rejects when the signal is aborted, and never resolves.
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
function aborted(signal) {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
