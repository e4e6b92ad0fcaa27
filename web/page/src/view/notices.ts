/** The one place for bad news: loud where trust is at stake, quiet where patience is enough. */
import { h, say, show } from "../dom.js";
import type { Ask, State, Trouble } from "../messages.js";
import { asked, type Question } from "./dialog.js";
import { askForNewTerms } from "./terms.js";

/** What the notices can do beside asking. */
export interface NoticesOptions {
  ask: Ask;
  /** Gives up what belongs to the first server and begins with the present one. */
  beginAnew(): void;
  /** Whether the page names another key than the one this browser began with. */
  otherKey: boolean;
  /** Seconds over which the moment of sending is drawn. */
  jitter: number;
}

/** What the notices are told. */
export interface Notices {
  element: HTMLElement;
  update(trouble: Trouble | null, state: State | null, online: boolean): void;
}

/** What is said aloud; everything else needs patience only. */
const TITLES: Readonly<Partial<Record<Trouble["kind"], string>>> = {
  untrusted: "The server's word could not be trusted.",
  terms: "The server wants other terms.",
  storage: "This device cannot go on as it should.",
};

const OFFLINE = "Offline: recommendations go on, nothing is sent.";

/** An alert for trust, a status for the rest. */
export function notices(options: NoticesOptions): Notices {
  let trouble: Trouble | null = null;
  let now: State | null = null;
  const agree = async () => {
    const shown = now?.asked ?? null; // those that are shown, whatever comes meanwhile
    if (now === null || shown === null) return;
    const worse = trouble?.terms?.worse ?? [];
    if (!(await askForNewTerms(worse, shown, now, options.jitter))) return;
    await options.ask({ kind: "acceptTerms", terms: shown.terms });
  };
  const title = h("strong", {});
  const text = h("span", { id: "alert-text" });
  const button = h(
    "button",
    { id: "accept-terms", type: "button", class: "button small", onclick: () => void agree() },
    "Look at the new terms …",
  );
  const alert = h("div", { id: "alert", class: "notice alert", role: "alert" });
  const status = h("p", { id: "status", class: "notice quiet", role: "status" });
  return {
    element: h("div", { class: "notices" }, options.otherKey && otherKey(options), alert, status),
    update(told, state, online) {
      now = state;
      trouble = online ? told : null;
      const loud = trouble !== null && isLoud(trouble) ? trouble : null;
      say(title, loud === null ? "" : (TITLES[loud.kind] ?? ""));
      say(text, loud?.text ?? "");
      show(button, trouble?.kind === "terms");
      if (loud !== null && alert.childElementCount === 0)
        alert.append(title, " ", text, " ", button);
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

function otherKey({ beginAnew }: NoticesOptions): HTMLElement {
  const begin = async () => {
    if (await asked(beginning())) beginAnew();
  };
  return h(
    "div",
    { id: "other-key", class: "notice alert", role: "alert" },
    h("strong", {}, "This address now names another server."),
    " Its key is not the one that this browser began with, so somebody may be pretending to be the server you know. Nothing is fetched from it and nothing is sent. Recommendations go on with the last model that could be trusted. ",
    h(
      "button",
      { id: "begin-anew", type: "button", class: "button small", onclick: () => void begin() },
      "Begin anew …",
    ),
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
