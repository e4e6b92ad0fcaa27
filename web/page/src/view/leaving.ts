/**
 * The section about the data that leave this device: the switch, the limit, all reports, and the
 * button to forget everything.
 */

import { type Amount, type Charge, countAffordableEpochs } from "sottovoce-client";
import { describeListChange } from "../comparison.js";
import { h, setText, setVisible, updateList } from "../dom.js";
import type { State } from "../state.js";
import {
  formatAmount,
  formatBound,
  formatEpochs,
  formatReports,
  LIMIT_SENTENCE,
} from "../words.js";
import { askForConsent } from "./consent.js";
import { type CountedOffer, createLimitField } from "./limit.js";
import { type Actions, createButton, createSection, type View } from "./parts.js";
import { askQuestion, type Question } from "./question.js";
import { createReportsView } from "./reports.js";

/** The actions of this section. */
export interface LeavingOptions extends Actions {
  /**
   * Called when the device begins to take part: the browser should now keep its storage
   * permanently.
   */
  onStart(): void;
  /** Epsilon that this browser has spent with other servers. */
  earlierEpsilon: number;
}

export function createLeavingView(options: LeavingOptions) {
  const toggle = createSwitch(options);
  const line = h("p", { id: "report-state", class: "state", role: "status" });
  const change = h("p", { id: "list-change", class: "note", role: "status" });
  const paid = h("ul", { id: "charges" });
  const budget = createBudgetView(options);
  const reports = createReportsView();
  const lead = h("p", { class: "lead" });
  return {
    element: createSection(
      "leaving",
      "What leaves this device",
      null,
      lead,
      toggle.element,
      line,
      change,
      paid,
      reports.element,
      budget.element,
      createForgetButton(options),
    ),
    update(state: State) {
      toggle.update(state);
      setText(lead, state.agreed ? REPORT_SENTENCE : NOTHING_SENTENCE);
      setText(line, state.reportState);
      setText(change, state.listChange === null ? "" : describeListChange(state.listChange));
      setVisible(change, state.listChange !== null);
      const latest = [...state.charges].sort((a, b) => b.epoch - a.epoch).slice(0, MAX_CHARGES);
      const lines = latest.map(({ purpose: id, ...charge }) => ({
        id,
        text: formatCharge(charge),
      }));
      updateList(paid, lines, ({ text }) => h("li", {}, text));
      setVisible(paid, lines.length > 0);
      budget.update(state);
    },
    showBatch: reports.showBatch,
  };
}

const NOTHING_SENTENCE = "Nothing, until you say so. Then only what is listed here.";
const REPORT_SENTENCE = "Only reports. Each is a hint of four bytes, blurred by chance.";
/** Number of charges that are listed, latest first. The meter counts all of them. */
const MAX_CHARGES = 3;

/** Describe what left this device in an epoch, and its cost. */
function formatCharge({ epoch, reports, epsilon }: Omit<Charge, "purpose">): string {
  return `Epoch ${epoch}: ${formatReports(reports)}, epsilon ${formatBound(reports * epsilon)}`;
}

function createSwitch({ ask, onStart, earlierEpsilon }: LeavingOptions): View {
  let now: State | null = null;
  const change = async () => {
    const { agreed, takingPart, offer: displayedOffer, spentAmount } = now ?? { offer: null };
    if (!displayedOffer) return; // `now` may change while this offer is displayed
    if (agreed) return ask((session) => session.setTakingPart(!takingPart));
    const limit = await askForConsent(displayedOffer, spentAmount, earlierEpsilon, ask);
    if (limit === null) return;
    onStart();
    await ask((session) => session.acceptAndStart(displayedOffer.terms, limit));
  };
  const attributes = { role: "switch", class: "switch", "aria-checked": "false", disabled: true };
  const element = createButton({ id: "take-part", ...attributes }, "Take part", change);
  return {
    element,
    update(state) {
      now = state;
      element.setAttribute("aria-checked", String(state.agreed && state.takingPart));
      element.disabled = state.offer === null;
    },
  };
}

function createForgetButton({ ask, announce }: LeavingOptions): HTMLElement {
  const forget = async () => {
    if (!(await askQuestion(describeForgetting()))) return;
    await ask((session) => session.forget());
    announce("Everything but the ledger is forgotten.");
  };
  const attributes = { id: "forget", class: "button grave wide" };
  return createButton(attributes, "Forget everything", forget);
}

function describeForgetting(): Question {
  return {
    id: "forget-dialog",
    title: "Forget everything?",
    content: [
      h(
        "p",
        {},
        h("strong", {}, "Goes: "),
        "your films, a batch that waits, the list of reports above, the model, and your consent with its limit. To take part again, you are asked again.",
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
    isFinal: true,
  };
}

/** Create the view of the spent epsilon and the limit. */
function createBudgetView(options: Actions): View {
  const text = h("p", { id: "budget-text", class: "note" });
  const meter = h("div", {
    id: "budget",
    class: "meter",
    role: "meter",
    "aria-label": "Spent of the limit",
    "aria-valuemin": 0,
  });
  const change = createLimitChange(options);
  const element = h("div", { class: "limit" }, meter, text, change.element);
  return {
    element,
    update(state) {
      const { agreed, spentEpsilon, limit, offer } = state;
      setVisible(element, agreed);
      if (!agreed || offer === null) return;
      updateMeter(meter, spentEpsilon, limit);
      setText(text, formatBudget(state, offer));
      change.update(state);
    },
  };
}

function updateMeter(meter: HTMLElement, spentEpsilon: number, limit: number): void {
  const share = Math.min(1, spentEpsilon / limit);
  meter.style.setProperty("--share", String(share));
  meter.setAttribute("aria-valuemax", String(Math.max(limit, spentEpsilon)));
  meter.setAttribute("aria-valuenow", String(spentEpsilon));
  meter.setAttribute("aria-valuetext", `${formatBound(spentEpsilon)} of ${formatBound(limit)}`);
  meter.classList.toggle("full", share >= 1);
}

/** Describe the spent epsilon, and for how many epochs the rest of the limit is enough. */
export function formatBudget(
  { spentEpsilon, spentAmount, limit }: Budget,
  offer: CountedOffer,
): string {
  const spentSentence = `Spent ${formatBound(spentEpsilon)} of your limit of ${formatBound(limit)}`;
  if (offer.turns === 0) return `${spentSentence}.`; // the terms allow no more epochs, even if some of the limit is left
  const epochsLeft = countAffordableEpochs(limit, spentAmount, offer.terms, offer.turns);
  const more = formatEpochs(epochsLeft).replace(" ", " more ");
  return `${spentSentence}: ${epochsLeft === 0 ? "not enough for another epoch" : `enough for ${more}`}.`;
}

type Budget = Pick<State, "spentEpsilon" | "spentAmount" | "limit">;

/** Describe in how many of the allowed epochs this device took part. */
export function formatLifetime(epochs: number, terms: { epochs: number }): string {
  return `This device took part in ${formatAmount(epochs)} of ${formatEpochs(terms.epochs)} that the terms allow.`;
}

/**
 * Create the collapsible section in which the limit can be changed. Its content is not updated
 * while it is open.
 */
function createLimitChange({ ask, announce }: Actions): View {
  const summary = h("summary", {}, "Change the limit");
  const lifetime = h("p", { class: "note" });
  const meaning = h("p", { class: "note" }, LIMIT_SENTENCE);
  const form = h("div", {});
  const element = h("details", { id: "limit-change" }, summary, lifetime, meaning, form);
  const saveLimit = async (limit: number) => {
    await ask((session) => session.setLimit(limit));
    element.open = false;
    summary.focus();
    announce(`The limit is ${formatBound(limit)} now.`);
  };
  let displayed = "";
  return {
    element,
    update({ limit, spentAmount, offer, epochs }) {
      setText(lifetime, offer === null ? "" : formatLifetime(epochs, offer.terms));
      const { epsilon, reports } = offer?.terms ?? {};
      const current = `${limit} ${spentAmount} ${epsilon} ${reports} ${offer?.turns}`;
      if (offer === null || current === displayed || element.open) return;
      displayed = current;
      form.replaceChildren(...createLimitForm({ value: limit, spentAmount, offer }, saveLimit));
    },
  };
}

function createLimitForm(
  from: { value: number; spentAmount: Amount; offer: CountedOffer },
  saveLimit: (limit: number) => Promise<void>,
): Node[] {
  const field = createLimitField({ id: "limit", ...from });
  const save = () => {
    const limit = field.read();
    if (limit !== null) void saveLimit(limit);
  };
  return [field.element, createButton({ id: "limit-save" }, "Set the limit", save)];
}
