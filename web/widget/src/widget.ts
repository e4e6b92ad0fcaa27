/**
 * `sottovoce-widget`: recommendations in a page of any site, with one script and three elements.
 *
 *     <sottovoce-consent proxy="https://proxy.example" service-key="..." limit="500"></sottovoce-consent>
 *     <sottovoce-list href="/articles/{id}" seen="T-01"></sottovoce-list>
 *     <sottovoce-similar href="/articles/{id}" item="T-01"></sottovoce-similar>
 *
 * A server that renders pages may import this script too. It has no elements, and the functions do
 * nothing there.
 */

import { Consent } from "./consent.js";
import { List, Similar } from "./list.js";
import type { Options } from "./page.js";
import { page } from "./piece.js";

export type { Recommendation } from "sottovoce-client";
export type { ElementAttributes, ElementEvents } from "./attributes.js";
export type { ListedItem, Render } from "./list.js";
export type { Options } from "./page.js";
export type { NumberWords, Texts } from "./texts.js";

const isBrowser = "customElements" in globalThis;

/** Set options, also those that have no attribute. Texts can be set again later. */
export function start(options: Partial<Options>): void {
  if (isBrowser) page.start(options);
}

/** Record on this device that the visitor saw items with these ids of the catalogue. */
export async function markSeen(...ids: readonly string[]): Promise<void> {
  if (isBrowser) await page.markSeen(...ids);
}

/** Leave items out of all lists, such as articles that are sold out. */
export function hide(ids: Iterable<string>): void {
  page.hide(ids);
}

/**
 * Return the scores of items for this visitor, to order a list of the page; null for an item that
 * the catalogue lacks.
 */
export async function score(ids: readonly string[]): Promise<(number | null)[]> {
  return isBrowser ? page.score(ids) : ids.map(() => null);
}

if (isBrowser) {
  addEventListener("storage", (event) => page.handleStorage(event));
  const elements = { consent: Consent, list: List, similar: Similar };
  for (const [name, kind] of Object.entries(elements)) {
    customElements.define(`sottovoce-${name}`, kind);
  }
}
