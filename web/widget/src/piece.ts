/** What both elements have in common: a root, attributes, and that they follow the page's client. */

import { rootOf } from "./dom.js";
import { Page } from "./page.js";
import type { Words } from "./texts.js";

/** The one of this page. */
export const page = new Page();

export abstract class Piece extends HTMLElement {
  static readonly observedAttributes = ["seen", "n", "href", "lang"];
  protected readonly root = rootOf(this);
  readonly #refresh = () => void this.refresh();
  #before: Promise<void> = Promise.resolve();

  connectedCallback(): void {
    page.addEventListener("change", this.#refresh);
    const proxy = this.getAttribute("proxy");
    const [key, limit] = [this.getAttribute("key"), this.getAttribute("limit")];
    if (proxy === null) this.#refresh();
    else page.start({ proxy, key: key ?? "", limit: Number(limit || Number.NaN) });
  }

  disconnectedCallback(): void {
    page.removeEventListener("change", this.#refresh);
  }

  attributeChangedCallback(name: string, _: string | null, value: string | null): void {
    if (name !== "seen") this.#refresh();
    else if (value) {
      page.seen(value).catch((error) => {
        if (!page.hasFailed) console.warn(`sottovoce: ${error}`); // else it was said before
      });
    }
  }

  /** One after the other: the last one shows the newest. */
  protected refresh(): Promise<void> {
    this.#before = this.#before
      .then(() => (this.isConnected ? this.update(page.wordsFor(this)) : undefined))
      .catch((error) => console.error(`sottovoce: ${error}`));
    return this.#before;
  }

  protected abstract update(words: Words): Promise<void>;
}
