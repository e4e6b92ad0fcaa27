/** The whole page: its sections and notices. */

import { h, setText, setVisible } from "../dom.js";
import type { Ask } from "../session.js";
import type { Event, State, Trouble } from "../state.js";
import { toTrouble } from "../trouble.js";
import { splitSentences } from "../words.js";
import { askForNewTerms } from "./consent.js";
import { createAdviceView, createFilmsView } from "./films.js";
import { createLeavingView } from "./leaving.js";
import { createButton, createDetails } from "./parts.js";
import { askQuestion, type Question } from "./question.js";
import { createTogetherView } from "./together.js";

/** The options of the page. */
export interface PageOptions {
  ask: Ask;
  /** The operator's own words about privacy, or "". */
  statement: string;
  /** Notice for visitors about this service, such as that it is a demo, or "". */
  notice: string;
  /**
   * Whether the page names another verification key than the one that this browser stored first.
   */
  hasOtherKey: boolean;
  /** Whether that other key is the one of a restarted demo. */
  isNewDemo: boolean;
  /** Epsilon that this browser has spent with other servers that used this address before. */
  earlierEpsilon: number;
  /** Called when the device begins to take part. */
  onStart(): void;
  /** Delete the data of the first server, and start with the current one. */
  startAgain(): void;
}

/** The displayed page. */
export interface Page {
  handleEvent(event: Event): void;
  setOnline(online: boolean): void;
  tick(now: number): void;
}

/** Display the page. */
export function showPage({ ask: askWorker, ...options }: PageOptions): Page {
  let state: State | null = null;
  let choiceTrouble: Trouble | null = null;
  let isOnline = true;
  const refresh = () => noticeView.update(choiceTrouble ?? state?.trouble ?? null, state, isOnline);
  const ask = reportFailures(askWorker, (trouble) => {
    choiceTrouble = trouble;
    refresh();
  });
  const announcement = h("p", { id: "spoken", class: "visually-hidden", role: "status" });
  const announce = (text: string) => setText(announcement, text);
  const noticeView = createNotices({ ...options, ask });
  const films = createFilmsView({ ask, announce });
  const advice = createAdviceView({ ask, announce });
  const leaving = createLeavingView({ ...options, ask, announce });
  const together = createTogetherView(options);
  document.body.replaceChildren(
    createHeader(options.notice),
    noticeView.element,
    h(
      "main",
      {},
      h("div", { class: "device" }, films.element, advice.element, films.suggested),
      leaving.element,
      together.element,
    ),
    announcement,
  );

  return {
    handleEvent(event) {
      if (event.kind === "batch") leaving.showBatch(event.batch);
      if (event.kind === "curve")
        for (const view of [advice, together]) view.showCurve(event.curve);
      if (event.kind !== "state") return;
      state = event.state;
      for (const view of [films, advice, leaving, together]) view.update(event.state);
      refresh();
      together.tick(Date.now() / 1000);
    },
    setOnline(online) {
      isOnline = online;
      refresh();
    },
    tick: together.tick,
  };
}

/**
 * Report the trouble of every failed call. If a call that succeeds is a choice of the owner, remove
 * the trouble of earlier calls.
 */
function reportFailures(ask: Ask, onTrouble: (trouble: Trouble | null) => void): Ask {
  return async (work, isChoice = true) => {
    try {
      const answer = await ask(work);
      if (isChoice) onTrouble(null);
      return answer;
    } catch (error) {
      onTrouble(toTrouble(error));
      throw new ReportedError();
    }
  };
}

/** An error that the page has displayed already. */
class ReportedError extends Error {}
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof ReportedError) event.preventDefault();
});

/** Create the header. Of the operator's notice, the first sentence is always visible. */
function createHeader(notice = ""): HTMLElement {
  const lead = "What you watch stays on your device, and you still get films that fit.";
  const [first = "", ...others] = splitSentences(notice);
  const noticeElement =
    others.length === 0
      ? h("p", { id: "operator-notice" }, first)
      : createDetails("operator-notice", first, h("p", {}, others.join(" ")));
  return h(
    "header",
    {},
    h("h1", {}, "sottovoce"),
    h("p", {}, lead),
    notice !== "" && noticeElement,
  );
}

/** Display a sentence instead of a page that cannot work here. */
export function showSentence(text: string): void {
  document.body.replaceChildren(
    createHeader(),
    h("main", {}, h("p", { id: "sentence", class: "sentence", role: "alert" }, text)),
  );
}

/** Titles of the kinds of trouble that are alerts. All other kinds only need patience. */
const ALERT_TITLES: Readonly<Partial<Record<Trouble["kind"], string>>> = {
  untrusted: "The server's word could not be trusted.",
  terms: "The server wants other terms.",
  storage: "This device cannot go on as it should.",
};

const OFFLINE_SENTENCE = "Offline: recommendations go on, nothing is sent.";

/**
 * Create the place for notices: an alert for the kinds of trouble in `ALERT_TITLES`, else a status.
 */
function createNotices(options: PageOptions) {
  let trouble: Trouble | null = null;
  let now: State | null = null;
  const acceptNewTerms = async () => {
    const displayed = now?.newOffer ?? null; // the offer may change meanwhile
    if (now === null || displayed === null) return;
    const { limit } = now;
    if (!(await askForNewTerms(displayed, now, options.ask))) return;
    await options.ask((session) => session.acceptTerms(displayed.terms, limit));
  };
  const title = h("strong", {});
  const text = h("span", { id: "alert-text" });
  const look = createButton({ id: "accept-terms" }, "Look at the new terms …", acceptNewTerms);
  const alert = h("div", { id: "alert", class: "notice alert", role: "alert" });
  const status = h("p", { id: "status", class: "notice quiet", role: "status" });
  return {
    element: h(
      "div",
      { class: "notices" },
      options.hasOtherKey &&
        (options.isNewDemo ? createNewDemoNotice(options) : createOtherKeyNotice(options)),
      alert,
      status,
    ),
    update(newTrouble: Trouble | null, state: State | null, online: boolean) {
      now = state;
      trouble = online ? newTrouble : null;
      const alertTrouble = trouble !== null && isAlert(trouble) ? trouble : null;
      setText(title, alertTrouble === null ? "" : (ALERT_TITLES[alertTrouble.kind] ?? ""));
      setText(text, alertTrouble?.text ?? "");
      setVisible(look, trouble?.kind === "terms" && now?.newOffer !== null);
      if (alertTrouble !== null && alert.childElementCount === 0)
        alert.append(title, " ", text, " ", look);
      if (alertTrouble === null) alert.replaceChildren();
      setText(status, formatStatus(trouble, online));
    },
  };
}

function isAlert({ kind }: Trouble): boolean {
  return kind in ALERT_TITLES;
}

function formatStatus(trouble: Trouble | null, online: boolean): string {
  if (!online) return OFFLINE_SENTENCE;
  return trouble === null || isAlert(trouble) ? "" : trouble.text;
}

function createNewDemoNotice({ startAgain }: PageOptions): HTMLElement {
  return h(
    "div",
    { id: "new-demo", class: "notice quiet", role: "status" },
    h("strong", {}, "This is a new demo."),
    " The one that you know is over, so nothing is sent. If you begin again, your films and your choices for that one are forgotten; what you spent is kept. ",
    createButton({ id: "begin-again" }, "Begin again", startAgain),
  );
}

function createOtherKeyNotice({ startAgain }: PageOptions): HTMLElement {
  const confirm = async () => {
    if (await askQuestion(describeStartAgain())) startAgain();
  };
  return h(
    "div",
    { id: "other-key", class: "notice alert", role: "alert" },
    h("strong", {}, "This address now names another server."),
    " Its key is not the one that this browser began with, so somebody may be pretending to be the server you know. This page itself came from there; it asks for nothing more, and no report is sent. Recommendations go on with the last model that could be trusted. ",
    createButton({ id: "begin-anew" }, "Begin anew …", confirm),
  );
}

function describeStartAgain(): Question {
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
        "What you chose for the first server is forgotten, except for its ledger. With the new one you do not take part until you say so.",
      ),
      h(
        "p",
        {},
        "The new server has a ledger of its own, which begins at 0. Its figures do not count what you spent with the first one; what can be learnt from both adds up. The page says how much that is.",
      ),
    ],
    yes: "Begin anew",
    no: "Leave it as it is",
    isFinal: true,
  };
}
