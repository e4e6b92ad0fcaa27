/**
 * The base class of both elements: a shadow root, the attributes, and updates from the page's
 * client.
 */

import { attachRoot } from "./dom.js";
import { Page } from "./page.js";
import type { LocalizedTexts } from "./texts.js";

/** The state of this page. */
export const page = new Page();

/** The class of elements; on a server, where pages are rendered without any, an empty one. */
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/** An element that follows the page's client. */
export abstract class SharedElement extends Base {
  static readonly observedAttributes = ["seen", "n", "href", "lang", "item"];
  protected readonly root = attachRoot(this);
  readonly #refresh = () => void this.refresh();
  #lastUpdate: Promise<void> = Promise.resolve();

  connectedCallback(): void {
    page.addEventListener("change", this.#refresh);
    const proxy = this.getAttribute("proxy");
    const [key, limit] = [this.getAttribute("service-key"), this.getAttribute("limit")];
    if (proxy === null) this.#refresh();
    else page.start({ proxy, key: key ?? "", limit: Number(limit || Number.NaN) });
  }

  disconnectedCallback(): void {
    page.removeEventListener("change", this.#refresh);
  }

  attributeChangedCallback(name: string, _: string | null, value: string | null): void {
    if (name !== "seen") this.#refresh();
    else if (value) {
      page.markSeen(value).catch((error) => {
        if (error !== page.error) console.warn(`sottovoce: ${error}`); // otherwise the failure was logged before
      });
    }
  }

  /**
   * Update the element after earlier updates are finished, so that the last one shows the newest
   * state.
   */
  protected refresh(): Promise<void> {
    this.#lastUpdate = this.#lastUpdate
      .then(() => (this.isConnected ? this.update(page.chooseWords(this)) : undefined))
      .catch((error) => console.error(`sottovoce: ${error}`));
    return this.#lastUpdate;
  }

  protected abstract update(words: LocalizedTexts): Promise<void>;
}
