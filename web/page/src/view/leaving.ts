/** What leaves this device: the switch, the budget, every report, and the way out. */
import type { LeftDevice } from "sottovoce-client";
import { h, say } from "../dom.js";
import type { Ask, State } from "../messages.js";
import { budgetView } from "./budget.js";
import { asked, type Question } from "./dialog.js";
import { reportsView } from "./reports.js";
import { askForConsent } from "./terms.js";
import { section, type View } from "./view.js";

/** What the section can do beside asking. */
export interface LeavingOptions {
  ask: Ask;
  /** Tells a screen reader what an action did. */
  announce(text: string): void;
  /** Taking part begins: now it matters that the browser keeps the ledger. */
  begun(): void;
  /** Seconds over which the moment of sending is drawn. */
  jitter: number;
}

/** The section, which is told of batches too. */
export interface LeavingView extends View {
  showBatch(batch: LeftDevice | null): void;
}

/** The third section. */
export function leavingView(options: LeavingOptions): LeavingView {
  const toggle = switchView(options);
  const line = h("p", { id: "report-state", class: "state", role: "status" });
  const budget = budgetView(options);
  const reports = reportsView();
  return {
    element: section(
      "leaving",
      "What leaves this device",
      "Nothing, until you say so. Then only what is listed here.",
      toggle.element,
      line,
      budget.element,
      reports.element,
      forgetButton(options),
    ),
    update(state) {
      toggle.update(state);
      say(line, state.line);
      budget.update(state);
    },
    showBatch: reports.showBatch,
  };
}

function switchView({ ask, begun, jitter }: LeavingOptions): View {
  let now: State | null = null;
  const change = async () => {
    if (now === null || now.offer === null) return;
    if (now.agreed) return void (await ask({ kind: "takePart", on: !now.takingPart }));
    const shown = now.offer; // another one may come while this is read
    const limit = await askForConsent(shown, now.gone, jitter);
    if (limit === null) return;
    begun();
    await ask({ kind: "agree", terms: shown.terms, limit });
  };
  const button = h(
    "button",
    {
      id: "take-part",
      type: "button",
      role: "switch",
      class: "switch",
      "aria-checked": "false",
      disabled: true,
      onclick: () => void change(),
    },
    "Take part",
  );
  return {
    element: button,
    update(state) {
      now = state;
      button.setAttribute("aria-checked", String(state.agreed && state.takingPart));
      button.disabled = state.manifest === null;
    },
  };
}

function forgetButton({ ask, announce }: LeavingOptions): HTMLElement {
  const forget = async () => {
    if (!(await asked(forgetting()))) return;
    await ask({ kind: "forget" });
    announce("Everything but the ledger is forgotten.");
  };
  return h(
    "button",
    { id: "forget", type: "button", class: "button grave wide", onclick: () => void forget() },
    "Forget everything on this device",
  );
}

function forgetting(): Question {
  return {
    id: "forget-dialog",
    title: "Forget everything?",
    content: [
      h(
        "p",
        {},
        h("strong", {}, "Goes: "),
        "your films, a batch that waits, the list of reports above, and the model. Taking part is switched off.",
      ),
      h(
        "p",
        {},
        h("strong", {}, "Stays: "),
        "the ledger, which is how much you have spent and in which epochs. It names no film. Reports that left cannot be called back, so what they cost must not be forgotten either: else it could be spent twice.",
      ),
      h("p", {}, "The page then fetches the public model again, as for anybody who opens it."),
    ],
    yes: "Forget everything",
    no: "Keep it",
    grave: true,
  };
}
