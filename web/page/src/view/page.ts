/**
 * The whole page, put together: its sections, its notices, its colours.
 */

import { button, h, say, show } from "../dom.js";
import type { Ask } from "../session.js";
import { troubleOf } from "../session.js";
import type { Event, State, Trouble } from "../state.js";
import { asked, askForNewTerms, type Question } from "./consent.js";
import { adviceView, filmsView } from "./films.js";
import { leavingView } from "./leaving.js";
import { togetherView } from "./together.js";

export interface PageOptions {
  ask: Ask;
  statement: string;
  /** What visitors should know about this service, such as that it is a demo; "": nothing. */
  notice: string;
  /** Whether the page names another key than the one this browser began with. */
  otherKey: boolean;
  begun(): void;
  /** Gives up what belongs to the first server and begins with the present one. */
  beginAnew(): void;
}

export interface Page {
  hear(event: Event): void;
  online(online: boolean): void;
  tick(now: number): void;
}

export function showPage({ ask: askWorker, ...options }: PageOptions): Page {
  let state: State | null = null;
  let failed: Trouble | null = null;
  let isOnline = true;
  const refresh = () => news.update(failed ?? state?.trouble ?? null, state, isOnline);
  const ask = withFailures(askWorker, (trouble) => {
    failed = trouble;
    refresh();
  });
  const spoken = h("p", { id: "spoken", class: "visually-hidden", role: "status" });
  const announce = (text: string) => say(spoken, text);
  const news = notices({ ...options, ask });
  const films = filmsView({ ask, announce });
  const advice = adviceView({ ask, announce });
  const leaving = leavingView({ ...options, ask, announce });
  const together = togetherView(options);
  document.body.replaceChildren(
    header(),
    news.element,
    h(
      "main",
      {},
      h("div", { class: "device" }, films.element, advice.element, films.suggested),
      leaving.element,
      together.element,
    ),
    footer(),
    spoken,
  );

  return {
    hear(event) {
      if (event.kind === "batch") leaving.showBatch(event.batch);
      if (event.kind === "curve")
        for (const view of [advice, together]) view.showCurve(event.curve);
      if (event.kind !== "state") return;
      state = event.state;
      for (const view of [films, advice, leaving, together]) view.update(event.state);
      refresh();
      together.tick(Date.now() / 1000);
    },
    online(online) {
      isOnline = online;
      refresh();
    },
    tick: together.tick,
  };
}

/** Tells of everything that failed, until a choice goes well again. */
function withFailures(ask: Ask, tell: (trouble: Trouble | null) => void): Ask {
  return async (work, isChoice = true) => {
    try {
      const answer = await ask(work);
      if (isChoice) tell(null);
      return answer;
    } catch (error) {
      tell(troubleOf(error));
      throw new Failed();
    }
  };
}

/** What was told on the page already. */
class Failed extends Error {}
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof Failed) event.preventDefault();
});

function header(): HTMLElement {
  const lead =
    "What you watch tells a lot about you: here it stays on your device, and you still get films that fit.";
  return h("header", {}, h("h1", {}, "sottovoce"), h("p", {}, lead));
}

function footer(): HTMLElement {
  return h(
    "footer",
    {},
    h(
      "p",
      {},
      `This page asks nobody but ${location.host}, which sent it: no cookie, no third party.`,
    ),
  );
}

/** A sentence instead of a page that cannot work. */
export function showSentence(text: string): void {
  document.body.replaceChildren(
    header(),
    h("main", {}, h("p", { id: "sentence", class: "sentence", role: "alert" }, text)),
  );
}

/** What is said aloud; everything else needs patience only. */
const TITLES: Readonly<Partial<Record<Trouble["kind"], string>>> = {
  untrusted: "The server's word could not be trusted.",
  terms: "The server wants other terms.",
  storage: "This device cannot go on as it should.",
};

const OFFLINE = "Offline: recommendations go on, nothing is sent.";

/** The one place for bad news: an alert where trust is at stake, a status where patience is enough. */
function notices(options: PageOptions) {
  let trouble: Trouble | null = null;
  let now: State | null = null;
  const agree = async () => {
    const shown = now?.asked ?? null; // those that are shown, whatever comes meanwhile
    if (now === null || shown === null) return;
    const { limit } = now;
    const worse = trouble?.terms?.worse ?? [];
    if (!(await askForNewTerms(worse, shown, now, options.ask))) return;
    await options.ask((session) => session.acceptTerms(shown.terms, limit));
  };
  const title = h("strong", {});
  const text = h("span", { id: "alert-text" });
  const look = button({ id: "accept-terms" }, "Look at the new terms …", agree);
  const alert = h("div", { id: "alert", class: "notice alert", role: "alert" });
  const status = h("p", { id: "status", class: "notice quiet", role: "status" });
  return {
    element: h("div", { class: "notices" }, options.otherKey && otherKey(options), alert, status),
    update(told: Trouble | null, state: State | null, online: boolean) {
      now = state;
      trouble = online ? told : null;
      const loud = trouble !== null && isLoud(trouble) ? trouble : null;
      say(title, loud === null ? "" : (TITLES[loud.kind] ?? ""));
      say(text, loud?.text ?? "");
      show(look, trouble?.kind === "terms");
      if (loud !== null && alert.childElementCount === 0) alert.append(title, " ", text, " ", look);
      if (loud === null) alert.replaceChildren();
      say(status, quietText(trouble, online));
    },
  };
}

function isLoud({ kind }: Trouble): boolean {
  return kind in TITLES;
}

function quietText(trouble: Trouble | null, online: boolean): string {
  if (!online) return OFFLINE;
  return trouble === null || isLoud(trouble) ? "" : trouble.text;
}

function otherKey({ beginAnew }: PageOptions): HTMLElement {
  const begin = async () => {
    if (await asked(beginning())) beginAnew();
  };
  return h(
    "div",
    { id: "other-key", class: "notice alert", role: "alert" },
    h("strong", {}, "This address now names another server."),
    " Its key is not the one that this browser began with, so somebody may be pretending to be the server you know. Nothing is fetched from it and nothing is sent. Recommendations go on with the last model that could be trusted. ",
    button({ id: "begin-anew" }, "Begin anew …", begin),
  );
}

function beginning(): Question {
  return {
    id: "begin-anew-dialog",
    title: "Begin anew with this server?",
    content: [
      h(
        "p",
        {},
        "Do so only if you know why the key is another one: for instance because the operator told you that everything was set up afresh.",
      ),
      h(
        "p",
        {},
        "What you chose for the first server is forgotten, but for its ledger. With the new one you do not take part until you say so.",
      ),
    ],
    yes: "Begin anew",
    no: "Leave it as it is",
    grave: true,
  };
}
