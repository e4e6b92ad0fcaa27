/** `<sottovoce-list n="5" href="/articles/{id}">`: what is recommended, and why. */

import type { Recommendation } from "sottovoce-client";
import { h } from "./dom.js";
import { Piece, page } from "./piece.js";
import { reasonOf, type Words } from "./texts.js";

const USUAL = 5;

export class List extends Piece {
  /** As long as it stays, so do the elements, and the focus. */
  #shown = "";

  protected override async update({ texts, lang }: Words): Promise<void> {
    const n = Math.max(1, Math.trunc(Number(this.getAttribute("n"))) || USUAL);
    const found = await page.recommend(n);
    const href = this.getAttribute("href");
    const rows = found?.map((each) => ({
      title: each.title,
      why: reasonOf(each, texts, lang),
      to: href && addressOf(href, each),
    }));
    const state = page.hasFailed || page.hasTrouble || rows ? texts.empty : texts.waiting;
    const shown = JSON.stringify([rows, state, texts.list]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    if (!rows?.length) {
      this.root.replaceChildren(h("p", { part: "state", role: "status" }, state));
      return;
    }
    const items = rows.map(({ title, why, to }) =>
      h(
        "li",
        { part: "item" },
        to ? h("a", { part: "link", href: to }, title) : h("span", { part: "link" }, title),
        why && h("span", { part: "reason" }, why),
      ),
    );
    // By name, since a list without marks is none to some screen readers.
    const list = { part: "list", role: "list", "aria-label": texts.list };
    this.root.replaceChildren(h("ol", list, ...items));
  }
}

function addressOf(href: string, { id }: Recommendation): string {
  return href.replaceAll("{id}", encodeURIComponent(id));
}
