/** Begins: looks what this browser can do, starts the worker, and shows the page. */
import { connect, Failed, type Line } from "./connection.js";
import type { Ask } from "./messages.js";
import { missing } from "./needs.js";
import { recall, remember } from "./remembered.js";
import { script } from "./scripts.js";
import { type Page, showPage, showSentence } from "./view/page.js";
import { applyTheme } from "./view/theme.js";

const KEY = /^[0-9a-f]{64}$/u;
const HOUR = 3600;

function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content.trim() ?? "";
}

/** The key that this browser began with; the page's own word counts at the first visit only. */
function pinnedKey(named: string): string {
  const kept = recall("key");
  if (kept !== null && KEY.test(kept)) return kept;
  remember("key", named);
  return named;
}

async function start(): Promise<void> {
  applyTheme();
  const lacking = await missing();
  if (lacking !== null) return showSentence(lacking);
  const named = meta("sottovoce-key");
  if (!KEY.test(named))
    return showSentence(
      "This page does not say whose word it trusts: its server is not set up yet. Nothing was sent.",
    );
  await begin(named, pinnedKey(named));
}

/** Seconds over which the moment of sending is drawn: an hour, unless the page says less. */
function jitterOf(named: string): number {
  const seconds = named === "" ? Number.NaN : Number(named);
  return seconds >= 0 && seconds <= HOUR ? seconds : HOUR;
}

async function begin(named: string, key: string): Promise<void> {
  const jitter = jitterOf(meta("sottovoce-jitter"));
  const worker: Line = new Worker(script("/page/worker.js"), { type: "module" });
  const ask = connect(worker, (event) => page.hear(event));
  const page: Page = showPage({
    ask,
    statement: meta("sottovoce-statement"),
    notice: meta("sottovoce-notice"),
    jitter,
    otherKey: named !== key,
    begun: () => void navigator.storage?.persist?.(),
    beginAnew: () => void beginAnew(ask, named),
  });
  try {
    // A database for each server: what is for one can never be sent to another.
    const name = `sottovoce-${key.slice(0, 16)}`;
    await ask({ kind: "open", proxy: location.origin, key, name, jitter });
  } catch (error) {
    return showSentence(error instanceof Failed ? error.trouble.text : String(error));
  }
  follow(ask, page, named === key);
  keepForOffline();
}

/**
 * Tells worker and page what the world is like. Where the address names another server than the one
 * that this browser began with, there is nobody to ask: nothing is fetched and nothing is sent.
 */
function follow(ask: Ask, page: Page, sameServer: boolean): void {
  const tell = () => {
    page.online(navigator.onLine);
    const visible = document.visibilityState === "visible";
    void ask({ kind: "conditions", visible, online: navigator.onLine && sameServer });
  };
  for (const event of ["online", "offline"]) window.addEventListener(event, tell);
  document.addEventListener("visibilitychange", tell);
  tell();
  setInterval(() => page.tick(Date.now() / 1000), 1000);
}

async function beginAnew(ask: Ask, named: string): Promise<void> {
  await ask({ kind: "forget" });
  remember("key", named);
  location.reload();
}

function keepForOffline(): void {
  navigator.serviceWorker?.register(script("/sw.js")).catch((error: unknown) => {
    console.warn("The page cannot be kept for use offline:", error);
  });
}

// What failed is on the page already.
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof Failed) event.preventDefault();
});
void start();
