/** Describes errors by their meaning for the data of this device. */

import {
  RefusedError,
  SettingsError,
  StoreError,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "sottovoce-client";
import type { Trouble } from "./state.js";

const LOOKS_AGAIN_SENTENCE =
  "The page looks again by itself; if this stays, tell whoever runs this address.";

const GOES_ON_SENTENCE = "Recommendations go on with the last model that could be trusted.";

const OTHER_TERMS_SENTENCE = `They are not those that you accepted. No report is made under them. ${GOES_ON_SENTENCE}`;

/** Describe an error by its meaning for the data of this device. */
export function toTrouble(error: unknown): Trouble {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof TermsError) return { kind: "terms", text: OTHER_TERMS_SENTENCE };
  if (error instanceof UntrustedError) return toUntrustedTrouble(message);
  if (error instanceof UnavailableError)
    return { kind: "unavailable", text: formatUnavailable(message) };
  if (error instanceof RefusedError) {
    const text = `${toSentence(message)} Nothing of yours was lost; what waits is kept.`;
    return { kind: "refused", text };
  }
  // For instance, a yes to terms that have changed meanwhile.
  if (error instanceof SettingsError) return { kind: "refused", text: toSentence(message) };
  if (error instanceof StoreError) return { kind: "storage", text: toSentence(message) };
  return { kind: "storage", text: `Something went wrong on this device: ${toSentence(message)}` };
}

function toUntrustedTrouble(message: string): Trouble {
  // This sentence does not say that nothing was sent: the same sync may have sent a batch that an
  // earlier sync made.
  const text = `${toSentence(message)} No report is made. ${GOES_ON_SENTENCE} ${LOOKS_AGAIN_SENTENCE}`;
  return { kind: "untrusted", text };
}

/**
 * Describe an error after which the page tries again. The browser's own words in it are removed,
 * because they help nobody.
 */
function formatUnavailable(message: string): string {
  const summary = message.replace(/ \([^()]*\)|; try again later/gu, "");
  return `${toSentence(summary)} Recommendations go on, and the page tries again by itself.`;
}

/** Convert a message to a sentence, without the address of the request. */
export function toSentence(message: string): string {
  const text = message.trim().replace(/^https?:\S+: /u, "");
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/u.test(capital) ? capital : `${capital}.`;
}
