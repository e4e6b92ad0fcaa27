/**
 * `<sottovoce-consent>`: asks a visitor once for consent. Afterwards it shows the state, with
 * buttons to pause, to resume and to forget.
 */

import type { PromiseSummary, Terms } from "sottovoce-client";
import { createButton, h } from "./dom.js";
import type { Dialog, DisplayState, Question } from "./page.js";
import { page, SharedElement } from "./piece.js";
import { fillIn, formatNumber, type LocalizedTexts, listChanges, listRows } from "./texts.js";

/**
 * A yes counts only after a question was displayed for this time. Nobody could read it faster.
 */
const READING_MILLISECONDS = 1000;

/** The element that asks for consent. */
export class Consent extends SharedElement {
  /** The dialog that the visitor opened by a button, or null. */
  #dialog: Dialog = null;
  /** Key of the displayed content. While it does not change, the elements and the focus stay. */
  #content = "";
  /** Key of the displayed question; null if there is none. */
  #question: string | null = null;
  /** The yes button of the displayed question. */
  #yes: HTMLElement | null = null;
  #readingTimer = 0;

  protected override async update(words: LocalizedTexts): Promise<void> {
    const state = page.findState(this.#dialog);
    const question = state === "asking" ? page.question : null;
    const { terms = null, spentEpsilon } = page.news ?? {};
    // All values on which the sentences depend.
    const { otherEpsilon } = page;
    const asked =
      question &&
      JSON.stringify([question.offer.terms, question.limit, terms, spentEpsilon, otherEpsilon]);
    // A service that asks for no reports has no question.
    const canAsk = page.question !== null || !page.news?.manifest;
    const content = JSON.stringify([state, asked, canAsk, Object.values(words.texts)]);
    if (content === this.#content) return;
    this.#content = content;
    const isReplaced = this.#question !== null && asked !== null && asked !== this.#question;
    this.#question = asked;
    // The question that is still displayed must not be accepted any more.
    clearTimeout(this.#readingTimer);
    this.#yes?.setAttribute("aria-disabled", "true");
    const elements = question
      ? this.#createQuestion(question, terms, await page.summarize(question), isReplaced, words)
      : this.#createChoices(state, canAsk, words);
    const hadFocus = this.root.activeElement !== null;
    this.root.replaceChildren(...elements);
    this.#yes = this.root.querySelector<HTMLElement>("[part~=yes]");
    const enable = () => this.#yes?.removeAttribute("aria-disabled");
    this.#readingTimer = window.setTimeout(enable, READING_MILLISECONDS);
    // Keep the focus near the button that was pressed, not at the beginning of the page.
    if (hadFocus) this.root.querySelector<HTMLElement>("[tabindex]")?.focus();
  }

  #createQuestion(
    question: Question,
    accepted: Terms | null,
    summary: PromiseSummary,
    isReplaced: boolean,
    { texts, lang }: LocalizedTexts,
  ): HTMLElement[] {
    const { offer, limit } = question;
    const changes = accepted === null ? [] : listChanges(accepted, offer.terms, texts, lang);
    const rows = listRows(offer, limit, texts, lang);
    const isNew = accepted === null;
    const sentences = [
      ...texts.formatSummary(summary),
      ...(page.otherEpsilon > 0
        ? [fillIn(texts.others, formatNumber(page.otherEpsilon, lang))]
        : []),
    ];
    return [
      h(
        "section",
        { part: "consent", "aria-labelledby": "title" },
        isReplaced ? h("p", { part: "state", role: "status" }, texts.questionChanged) : null,
        h("p", { part: "title", id: "title", tabindex: "-1" }, isNew ? texts.ask : texts.askAgain),
        isNew ? null : h("p", { part: "sentence" }, texts.changedTerms),
        isNew
          ? null
          : h("ul", { part: "changes" }, ...changes.map((change) => h("li", {}, change))),
        ...sentences.map((sentence) => h("p", { part: "sentence" }, sentence)),
        h(
          "details",
          { part: "details" },
          h("summary", {}, texts.details),
          h("p", {}, offer.terms.accounts ? texts.meaningOfAccount : texts.meaning),
          h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
        ),
        h(
          "div",
          { part: "buttons" },
          createButton("no", texts.refuse, () => this.#switchTo(null, () => page.refuse(offer))),
          createButton(
            "yes",
            isNew ? texts.accept : texts.agree,
            () => this.#switchTo(null, () => this.#accept(question)),
            { "aria-disabled": "true" },
          ),
        ),
      ),
    ];
  }

  #createChoices(state: DisplayState, canAsk: boolean, { texts }: LocalizedTexts): HTMLElement[] {
    if (state === "nothing" || state === "asking") return [];
    const askToForget = () => this.#switchTo("forgetting");
    const askForConsent = () => this.#switchTo("asking");
    const pause = [createButton("pause", texts.pause, () => page.pause(true))];
    const buttons = {
      notParticipating: canAsk ? [createButton("ask", texts.takePart, askForConsent)] : [],
      termsChanged: [createButton("ask", texts.look, askForConsent)],
      paused: [createButton("pause", texts.goOn, () => page.pause(false))],
      takesPart: pause,
      noToken: pause,
      allSpent: [],
      forgetting: [createButton("no", texts.cancel, () => this.#switchTo(null))],
    }[state];
    const forget =
      state === "forgetting"
        ? createButton("forget", texts.forget, () => this.#switchTo(null, () => page.forget()))
        : createButton("forget", texts.forget, askToForget);
    return [
      h(
        "section",
        { part: "choices", "aria-label": texts.choices },
        h("p", { part: "state", role: "status", tabindex: "-1" }, texts[state]),
        h("div", { part: "buttons" }, ...buttons, forget),
      ),
    ];
  }

  async #accept(question: Question): Promise<void> {
    if (await page.accept(question)) this.dispatchEvent(new Event("consented"));
  }

  async #switchTo(dialog: Dialog, action: () => unknown = () => {}): Promise<void> {
    await action();
    this.#dialog = dialog;
    await this.refresh();
  }
}
