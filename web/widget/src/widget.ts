/**
 * `sottovoce-widget`: recommendations in a page of any site, by one script and two elements.
 *
 *     <sottovoce-consent proxy="https://proxy.example" key="..." limit="500"></sottovoce-consent>
 *     <sottovoce-list href="/articles/{id}" seen="T-01"></sottovoce-list>
 */

import { Consent } from "./consent.js";
import { List } from "./list.js";
import type { Options } from "./page.js";
import { page } from "./piece.js";

export type { Options } from "./page.js";
export type { Texts } from "./texts.js";

/** What the attributes of an element say, and more; also later, for texts. */
export function start(options: Partial<Options>): void {
  page.start(options);
}

/** Remembers on this device what the page shows: ids of the catalogue. */
export function seen(...ids: readonly string[]): Promise<void> {
  return page.seen(...ids);
}

/** These are not listed from now on, such as what is sold out. */
export function hide(ids: Iterable<string>): void {
  page.hide(ids);
}

addEventListener("storage", (event) => page.hearStorage(event));
for (const [name, kind] of Object.entries({ consent: Consent, list: List })) {
  customElements.define(`sottovoce-${name}`, kind);
}
