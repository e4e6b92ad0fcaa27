/**
 * `<sottovoce-consent>`: asks once whether a visitor takes part. Then it says how it stands, and has the
 * buttons to pause, to go on and to forget.
 */

import type { News, Offer, Short } from "sottovoce-client";
import { button, h } from "./dom.js";
import type { Opened, Standing } from "./page.js";
import { Piece, page } from "./piece.js";
import { changesOf, rowsOf, type Words } from "./texts.js";

export class Consent extends Piece {
  /** What the visitor opened by a button, if anything. */
  #opened: Opened = null;
  /** As long as it stays, so do the elements, and the focus. */
  #shown = "";

  protected override async update(words: Words): Promise<void> {
    const { news } = page;
    const standing = page.standing(this.#opened);
    const offer = news && (news.asked ?? news.offer);
    const about = standing === "asking" ? [offer?.terms, news?.terms, news?.limit] : [];
    const shown = JSON.stringify([standing, about, Object.values(words.texts)]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const content =
      news !== null && offer !== null && standing === "asking"
        ? this.#question(news, offer, await page.short(offer), words)
        : this.#choices(standing, words);
    const hadFocus = this.root.activeElement !== null;
    this.root.replaceChildren(...content);
    // Whoever pressed a button is not thrown back to the beginning of the page.
    if (hadFocus) this.root.querySelector<HTMLElement>("[tabindex]")?.focus();
  }

  #question(news: News, offer: Offer, short: Short, { texts, lang }: Words): HTMLElement[] {
    const { terms: accepted, limit } = news;
    const changes = accepted === null ? [] : changesOf(accepted, offer.terms, texts, lang);
    const rows = rowsOf(offer, limit, texts, lang);
    const isNew = accepted === null;
    return [
      h(
        "section",
        { part: "consent", "aria-labelledby": "title" },
        h("p", { part: "title", id: "title", tabindex: "-1" }, isNew ? texts.ask : texts.askAgain),
        isNew ? null : h("p", { part: "sentence" }, texts.changed),
        isNew ? null : h("ul", { part: "changes" }, ...changes.map((each) => h("li", {}, each))),
        ...texts.short(short).map((each) => h("p", { part: "sentence" }, each)),
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
          button("no", texts.no, () => this.#open(null, () => page.refuse(offer))),
          button("yes", isNew ? texts.yes : texts.agree, () =>
            this.#open(null, () => page.accept(offer)),
          ),
        ),
      ),
    ];
  }

  #choices(standing: Standing, { texts }: Words): HTMLElement[] {
    if (standing === "nothing" || standing === "asking") return [];
    const forgetting = () => this.#open("forgetting");
    const asking = () => this.#open("asking");
    const pause = [button("pause", texts.pause, () => page.pause(true))];
    const buttons = {
      apart: [button("ask", texts.takePart, asking)],
      waits: [button("ask", texts.look, asking)],
      paused: [button("pause", texts.goOn, () => page.pause(false))],
      takesPart: pause,
      noToken: pause,
      over: [],
      forgetting: [button("no", texts.cancel, () => this.#open(null))],
    }[standing];
    const forget =
      standing === "forgetting"
        ? button("forget", texts.forget, () => this.#open(null, () => page.forget()))
        : button("forget", texts.forget, forgetting);
    return [
      h(
        "section",
        { part: "choices", "aria-label": texts.choices },
        h("p", { part: "state", role: "status", tabindex: "-1" }, texts[standing]),
        h("div", { part: "buttons" }, ...buttons, forget),
      ),
    ];
  }

  async #open(what: Opened, before: () => unknown = () => {}): Promise<void> {
    await before();
    this.#opened = what;
    await this.refresh();
  }
}
