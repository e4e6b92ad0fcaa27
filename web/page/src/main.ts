/**
 * Begins: looks what this browser can do, starts the workers, and shows the page.
 */

import { Client } from "sottovoce-client";
import { connect } from "sottovoce-client/workers";
import type { DeskCalls, DeskTold } from "./desk.js";
import type { Ask } from "./session.js";
import { Session, troubleOf } from "./session.js";
import { type Page, showPage, showSentence } from "./view/page.js";

const KEY = /^[0-9a-f]{64}$/u;
/** Under which name this browser keeps it. */
const KEPT = "sottovoce-key";
/** Seconds between two looks for news. */
const PACE = 5;
/** Epochs. */
const LONGEST_CURVE = 60;

function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content.trim() ?? "";
}

/** The key that this browser began with; the page's own word counts at the first visit only. */
function pinnedKey(named: string): string {
  const kept = localStorage.getItem(KEPT);
  if (kept !== null && KEY.test(kept)) return kept;
  localStorage.setItem(KEPT, named);
  return named;
}

async function start(): Promise<void> {
  const lacking = await missing();
  if (lacking !== null) return showSentence(lacking);
  const named = meta("sottovoce-key");
  if (!KEY.test(named))
    return showSentence(
      "This page does not say whose word it trusts: its server is not set up yet. Nothing was sent.",
    );
  await begin(named, pinnedKey(named));
}

/** The workers, the page, and what goes between them. */
async function begin(named: string, key: string): Promise<void> {
  const worker = (name: string) => new Worker(script("/page/worker.js"), { type: "module", name });
  // Where the address names another server than the one that this browser began with, there is
  // nobody to ask: nothing is fetched and nothing is sent.
  const offline = named !== key;
  // A database for each server: what is for one can never be sent to another.
  const name = `sottovoce-${key.slice(0, 16)}`;
  const opening = Client.open({
    ...{ proxy: location.origin, key, name, offline, limit: 0, paused: true },
    ...{ pace: PACE, past: LONGEST_CURVE, worker },
    news: (news) => void session.then((each) => each.hear(news)),
    pastRelease: (epoch, release) => void desk("past", epoch, release),
  });
  const desk = connect<DeskCalls>(worker("desk"), (told) => page.hear(told as DeskTold));
  void fetchPanel().then((panel) => desk("panel", panel));
  const clock = () => Date.now() / 1000;
  const session = opening.then(
    (client) => new Session(client, desk, (event) => page.hear(event), clock),
  );
  const ask: Ask = async (work) => work(await session);
  const page: Page = showPage({
    ask,
    statement: meta("sottovoce-statement"),
    notice: meta("sottovoce-notice"),
    otherKey: offline,
    begun: () => void navigator.storage?.persist?.(),
    beginAnew: () => void beginAnew(ask, named),
  });
  follow(page);
  await session.then(keepForOffline, (error) => showSentence(troubleOf(error).text));
}

/** The time, and whether there is a network. */
function follow(page: Page): void {
  const tell = () => page.online(navigator.onLine);
  for (const event of ["online", "offline"]) window.addEventListener(event, tell);
  tell();
  setInterval(() => page.tick(Date.now() / 1000), 1000);
}

/** Public and the same for everybody, asked for before anything is known of whoever came. */
async function fetchPanel(): Promise<unknown> {
  const answer = await fetch("/page/panel.json", { credentials: "omit" }).catch(() => null);
  return answer?.ok ? answer.json().catch(() => null) : null;
}

async function beginAnew(ask: Ask, named: string): Promise<void> {
  await ask((session) => session.forget());
  localStorage.setItem(KEPT, named);
  location.reload();
}

function keepForOffline(): void {
  navigator.serviceWorker?.register(script("/sw.js")).catch((error: unknown) => {
    console.warn("The page cannot be kept for use offline:", error);
  });
}

void start();

/** What to say where something is missing that this page cannot do without; null if all is there. */
async function missing(): Promise<string | null> {
  if (!window.isSecureContext || crypto.subtle === undefined) {
    return (
      "This page needs a secure connection: without one a browser does not let it check signatures " +
      "or seal reports. Open it over https. Nothing was sent."
    );
  }
  if (!(await canStore())) {
    return (
      "This browser does not let the page store anything, perhaps because this is a private window. " +
      "Without a record of what was spent, nothing may be reported. Nothing was sent."
    );
  }
  return (await canVerifyAndSeal()) ? null : outdated;
}

const outdated =
  "This browser cannot check Ed25519 signatures or seal with X25519 yet. A newer one can: Chrome 137, " +
  "Firefox 130, Safari 17, or later. Nothing was sent.";

function canStore(): Promise<boolean> {
  return new Promise((resolve) => {
    try {
      localStorage.getItem(KEPT);
      const opening = indexedDB.open("sottovoce-probe");
      opening.onerror = () => resolve(false);
      opening.onsuccess = () => {
        opening.result.close();
        indexedDB.deleteDatabase("sottovoce-probe");
        resolve(true);
      };
    } catch {
      resolve(false);
    }
  });
}

async function canVerifyAndSeal(): Promise<boolean> {
  try {
    await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
    await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
    return typeof Worker === "function";
  } catch {
    return false;
  }
}

/** The only two scripts that this page ever starts, named in the one policy that may start them. */
type Script = "/page/worker.js" | "/sw.js";

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(path: string): string },
  ): { createScriptURL(path: string): string };
}

const OWN: readonly string[] = ["/page/worker.js", "/sw.js"] satisfies Script[];

function own(path: string): string {
  if (!OWN.includes(path)) throw new TypeError(`${path} is no script of this page`);
  return path;
}

const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
const policy = trustedTypes?.createPolicy("sottovoce", { createScriptURL: own });

/** An address that the browser will accept as a script's. */
function script(path: Script): string {
  return policy?.createScriptURL(path) ?? own(path);
}
