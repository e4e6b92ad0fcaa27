/**
 * `<sottovoce-list n="5" href="/articles/{id}">` lists recommendations with their reasons.
 * `<sottovoce-similar item="T-01">` lists items like another one.
 */

import type { Recommendation } from "sottovoce-client";
import { h } from "./dom.js";
import { page, SharedElement } from "./piece.js";
import { formatReason, formatStart, type LocalizedTexts } from "./texts.js";

const DEFAULT_ITEMS = 5;

/** An item of a list, as a page can display it. */
export interface ListedItem extends Omit<Recommendation, "score"> {
  /** Address of the item, by the attribute `href`; null without one. */
  readonly link: string | null;
  /** The reasons as a sentence in the language of the element, or null. */
  readonly reason: string | null;
}

/**
 * Displays the items of a list: adds children to its element, for instance. It is called when it is
 * the first one, and whenever the list changes; without items there is nothing to display.
 */
export type Render = (items: readonly ListedItem[]) => void;

/** An element that lists items, or calls a function of the page with them. */
abstract class ItemList extends SharedElement {
  /** Key of the displayed content. While it does not change, the elements and the focus stay. */
  #content = "";
  #render: Render | null = null;

  constructor() {
    super();
    // A property that was set before the script ran would hide the accessor.
    const { render } = this;
    if (Object.hasOwn(this, "render")) {
      Reflect.deleteProperty(this, "render");
      this.#render = render;
    }
  }

  /** The function that displays the items instead of the element. */
  get render(): Render | null {
    return this.#render;
  }

  set render(render: Render | null) {
    // Frameworks set another function whenever they render. Calling each would never end.
    const isOther = !render !== !this.#render;
    this.#render = render;
    if (!isOther) return;
    this.#content = "";
    void this.refresh();
  }

  /** Return at most n items; null while there is no model. */
  protected abstract find(n: number): Promise<Recommendation[] | null>;
  protected abstract getName(words: LocalizedTexts): string;

  /** Return where the items come from, as a sentence and its details, or null. */
  protected getSource(_: LocalizedTexts): [string, string] | null {
    return null;
  }

  protected override async update(words: LocalizedTexts): Promise<void> {
    const n = Math.max(1, Math.trunc(Number(this.getAttribute("n"))) || DEFAULT_ITEMS);
    const recommendations = await this.find(n);
    const href = this.getAttribute("href");
    const items = (recommendations ?? []).map(({ score: _, ...item }) => ({
      ...item,
      link: href ? href.replaceAll("{id}", encodeURIComponent(item.id)) : null,
      reason: formatReason(item, words),
    }));
    const { error } = page;
    const state = items.length > 0 ? "shown" : recommendations ? "empty" : error ? "error" : null;
    const name = this.getName(words);
    const source = items.length > 0 ? this.getSource(words) : null;
    const content = JSON.stringify([state, items, name, source]);
    if (content === this.#content) return;
    this.#content = content;
    if (this.#render) {
      this.root.replaceChildren(h("slot", {}));
      this.#render(items);
    } else this.root.replaceChildren(...createList(items, name));
    if (source) {
      const [summary, details] = source;
      this.root.append(h("details", { part: "details" }, h("summary", {}, summary), details));
    }
    if (state)
      this.dispatchEvent(new CustomEvent(state, { detail: state === "error" ? error : null }));
  }
}

function createList(items: readonly ListedItem[], name: string): HTMLElement[] {
  if (items.length === 0) return [];
  const rows = items.map(({ title, reason, link }) =>
    h(
      "li",
      { part: "item" },
      link ? h("a", { part: "link", href: link }, title) : h("span", { part: "link" }, title),
      reason && h("span", { part: "reason" }, reason),
    ),
  );
  // The role is explicit, because some screen readers do not treat a list without marks as a list.
  return [h("ol", { part: "list", role: "list", "aria-label": name }, ...rows)];
}

/** The element that lists recommendations. */
export class List extends ItemList {
  protected override find(n: number): Promise<Recommendation[] | null> {
    return page.recommend(n);
  }

  protected override getName({ texts }: LocalizedTexts): string {
    return texts.list;
  }

  protected override getSource({ texts, lang }: LocalizedTexts): [string, string] | null {
    const start = page.news?.manifest?.start;
    return start ? formatStart(start, texts, lang) : null;
  }
}

/** The element that lists items like another one. Nothing is recorded. */
export class Similar extends ItemList {
  protected override find(n: number): Promise<Recommendation[] | null> {
    return page.listSimilar(this.getAttribute("item") ?? "", n);
  }

  protected override getName({ texts }: LocalizedTexts): string {
    return texts.similar;
  }
}
