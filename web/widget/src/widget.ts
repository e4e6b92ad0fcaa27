/**
 * `sottovoce-widget`: recommendations in a page of any site, with one script and two elements.
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

/** Set options, also those that have no attribute. Texts can be set again later. */
export function start(options: Partial<Options>): void {
  page.start(options);
}

/** Record on this device that the visitor saw items with these ids of the catalogue. */
export function markSeen(...ids: readonly string[]): Promise<void> {
  return page.markSeen(...ids);
}

/** Leave items out of all lists, such as articles that are sold out. */
export function hide(ids: Iterable<string>): void {
  page.hide(ids);
}

addEventListener("storage", (event) => page.handleStorage(event));
for (const [name, kind] of Object.entries({ consent: Consent, list: List })) {
  customElements.define(`sottovoce-${name}`, kind);
}
