/** The start of the page: checks the browser, starts the workers, and shows the page. */

import { Client } from "sottovoce-client";
import { connect } from "sottovoce-client/workers";
import { findMissing } from "./capabilities.js";
import type { DeskCalls, DeskMessage } from "./desk.js";
import { noteSpending, sumEarlierSpending } from "./earlier.js";
import { isKey, type Named, type Pin, pinKey, replaceKey } from "./pinning.js";
import { trustScript } from "./scripts.js";
import type { Ask } from "./session.js";
import { Session } from "./session.js";
import { toTrouble } from "./trouble.js";
import { type Page, showPage, showSentence } from "./view/page.js";

/** Seconds between two looks for news. */
const PACE_SECONDS = 5;
/** Maximum number of epochs of the learning curve. */
const MAX_CURVE_EPOCHS = 60;

function readMeta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content.trim() ?? "";
}

async function start(): Promise<void> {
  const problem = await findMissing();
  if (problem !== null) return showSentence(problem);
  const pageKey = readMeta("sottovoce-key");
  if (!isKey(pageKey))
    return showSentence(
      "This page does not say whose word it trusts: its server is not set up yet. Nothing was sent.",
    );
  const page = { key: pageKey, isDemo: readMeta("sottovoce-demo") !== "" };
  await startPage(page, pinKey(localStorage, page, location.hostname));
}

/** Start the workers and the page, and connect them. */
async function startPage(named: Named, { key, isNewDemo }: Pin): Promise<void> {
  const worker = () => new Worker(trustScript("/page/worker.js"), { type: "module" });
  // If the address names another server than the one with which this browser began, the client
  // stays offline. Only the page itself was fetched from the other server.
  const offline = named.key !== key;
  // Each server has its own database, so that data for one server cannot be sent to another.
  const name = `sottovoce-${key.slice(0, 16)}`;
  const opening = Client.open({
    ...{ proxy: location.origin, key, name, offline, limit: 0, paused: true },
    ...{ pace: PACE_SECONDS, pastModels: MAX_CURVE_EPOCHS, worker },
    news: (news) => void session.then((current) => current.handleNews(news)),
    pastRelease: (epoch, release) => void desk("addModel", epoch, release),
  });
  const deskWorker = worker();
  deskWorker.postMessage("desk");
  const desk = connect<DeskCalls>(deskWorker, (message) =>
    page.handleEvent(message as DeskMessage),
  );
  if (!offline) void fetchPanel().then((panel) => desk("setPanel", panel));
  const clock = () => Date.now() / 1000;
  const tabs = new BroadcastChannel(`films of ${name}`);
  const notifyTabs = () => tabs.postMessage(null);
  const session = opening.then(
    (client) => new Session(client, desk, (event) => page.handleEvent(event), clock, notifyTabs),
  );
  tabs.onmessage = () => void session.then((current) => current.handleTab());
  const ask: Ask = async (work) => work(await session);
  const page: Page = showPage({
    ask,
    statement: readMeta("sottovoce-statement"),
    notice: readMeta("sottovoce-notice"),
    hasOtherKey: offline,
    isNewDemo,
    onStart: () => void navigator.storage?.persist?.(),
    earlierEpsilon: sumEarlierSpending(localStorage, key),
    startAgain: () => void startAgain(ask, key, named),
  });
  watchPage(page);
  const register = () => offline || registerServiceWorker();
  await session.then(register, (error) => showSentence(toTrouble(error).text));
}

/** Tell the page the time every second, and every change of the network. */
function watchPage(page: Page): void {
  const update = () => page.setOnline(navigator.onLine);
  for (const event of ["online", "offline"]) window.addEventListener(event, update);
  update();
  setInterval(() => page.tick(Date.now() / 1000), 1000);
}

/**
 * Fetch the panel; null if there is none. It is public and the same for everybody, and it is
 * fetched before the page knows anything about the visitor.
 */
async function fetchPanel(): Promise<unknown> {
  const answer = await fetch("/page/panel.json", { credentials: "omit" }).catch(() => null);
  return answer?.ok ? answer.json().catch(() => null) : null;
}

/** Delete the data of one server except its ledger, and begin with another server. */
async function startAgain(ask: Ask, key: string, named: Named): Promise<void> {
  await ask((session) => session.forget());
  noteSpending(localStorage, key, await ask(async (session) => session.spentEpsilon));
  replaceKey(localStorage, named);
  location.reload();
}

function registerServiceWorker(): void {
  navigator.serviceWorker?.register(trustScript("/sw.js")).catch((error: unknown) => {
    console.warn("The page cannot be kept for use offline:", error);
  });
}

void start();
