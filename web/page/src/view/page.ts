/** The whole page, put together. */

import { h, say } from "../dom.js";
import type { Ask, Event, Request, RequestOf, State, Trouble } from "../messages.js";
import { Failed } from "../work/trouble.js";
import { adviceView } from "./advice.js";
import { filmsView } from "./films.js";
import { leavingView } from "./leaving.js";
import { notices } from "./notices.js";
import { themeSwitch } from "./theme.js";
import { togetherView } from "./together.js";

/** What the page is made with. */
export interface PageOptions {
  ask: Ask;
  statement: string;
  /** What visitors should know about this service, such as that it is a demo; "": nothing. */
  notice: string;
  otherKey: boolean;
  /** Seconds over which the moment of sending is drawn. */
  jitter: number;
  begun(): void;
  beginAnew(): void;
}

/** What happens to it from outside. */
export interface Page {
  hear(event: Event): void;
  online(online: boolean): void;
  tick(now: number): void;
}

/** Builds it into the body. */
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
      h("div", { class: "device" }, films.element, advice.element),
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

/** Tells of every question that failed, until one goes well again. */
function withFailures(ask: Ask, tell: (trouble: Trouble | null) => void): Ask {
  return async <K extends Request["kind"]>(request: RequestOf<K>) => {
    try {
      const answer = await ask(request);
      if (request.kind !== "search") tell(null);
      return answer;
    } catch (error) {
      if (error instanceof Failed) tell(error.trouble);
      throw error;
    }
  };
}

function header(): HTMLElement {
  return h(
    "header",
    {},
    h(
      "div",
      {},
      h("h1", {}, "sottovoce"),
      h(
        "p",
        {},
        "Films for you, learnt from everybody in a whisper. What you have seen stays on this device.",
      ),
    ),
    themeSwitch(),
  );
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
