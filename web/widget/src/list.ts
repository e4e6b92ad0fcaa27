/** `<sottovoce-list n="5" href="/articles/{id}">`: recommendations with their reasons. */

import type { Recommendation } from "sottovoce-client";
import { h } from "./dom.js";
import { page, SharedElement } from "./piece.js";
import { formatReason, formatStart, type LocalizedTexts } from "./texts.js";

const DEFAULT_ITEMS = 5;

/** The element that lists recommendations. */
export class List extends SharedElement {
  /** Key of the displayed content. While it does not change, the elements and the focus stay. */
  #content = "";

  protected override async update({ texts, lang }: LocalizedTexts): Promise<void> {
    const n = Math.max(1, Math.trunc(Number(this.getAttribute("n"))) || DEFAULT_ITEMS);
    const recommendations = await page.recommend(n);
    const href = this.getAttribute("href");
    const rows = recommendations?.map((item) => ({
      title: item.title,
      reason: formatReason(item, texts, lang),
      address: href && fillAddress(href, item),
    }));
    const state = page.hasFailed || page.hasTrouble || rows ? texts.empty : texts.waiting;
    const start = page.news?.manifest?.start;
    const source = start ? formatStart(start, texts, lang) : null;
    const content = JSON.stringify([rows, state, texts.list, source]);
    if (content === this.#content) return;
    this.#content = content;
    if (!rows?.length) {
      this.root.replaceChildren(h("p", { part: "state", role: "status" }, state));
      return;
    }
    const items = rows.map(({ title, reason, address }) =>
      h(
        "li",
        { part: "item" },
        address
          ? h("a", { part: "link", href: address }, title)
          : h("span", { part: "link" }, title),
        reason && h("span", { part: "reason" }, reason),
      ),
    );
    // The role is explicit, because some screen readers do not treat a list without marks as a
    // list.
    const list = { part: "list", role: "list", "aria-label": texts.list };
    this.root.replaceChildren(h("ol", list, ...items));
    if (source) {
      const [summary, details] = source;
      this.root.append(h("details", { part: "details" }, h("summary", {}, summary), details));
    }
  }
}

function fillAddress(href: string, { id }: Recommendation): string {
  return href.replaceAll("{id}", encodeURIComponent(id));
}
