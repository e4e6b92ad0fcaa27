/** What the elements take, as frameworks with typed templates name it. */

import type { Consent } from "./consent.js";
import type { List, Render, Similar } from "./list.js";

interface Shared {
  /** Id of the article that the page displays: it is recorded on this device. */
  seen?: string;
}

interface Listing extends Shared {
  /** Maximum number of items. Default: 5. */
  n?: number | string;
  /** Address of an article, with `{id}`. */
  href?: string;
  /** Displays the items instead of the element. */
  render?: Render | null;
}

/** Attributes and properties by element. */
export interface ElementAttributes {
  "sottovoce-consent": Shared & {
    /** Address of the proxy: https://HOST. */
    proxy?: string;
    /** Verification key of the server: 64 hexadecimal digits. */
    "service-key"?: string;
    /** Maximum epsilon that a visitor's device spends. */
    limit?: number | string;
  };
  "sottovoce-list": Listing;
  "sottovoce-similar": Listing & {
    /** Id of the article that the items are like. It is not recorded. */
    item?: string;
  };
}

/** Names of the events by element. */
export interface ElementEvents {
  "sottovoce-consent": "consented";
  "sottovoce-list": "shown" | "empty" | "error";
  "sottovoce-similar": "shown" | "empty" | "error";
}

declare global {
  interface HTMLElementTagNameMap {
    "sottovoce-consent": Consent;
    "sottovoce-list": List;
    "sottovoce-similar": Similar;
  }
}
