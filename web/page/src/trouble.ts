/** Errors in words, by what they mean for the data of this device. */

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

/** Describe an error by what it means for the data here. */
export function toTrouble(error: unknown): Trouble {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof TermsError) return toTermsTrouble(error);
  if (error instanceof UntrustedError) return toUntrustedTrouble(message);
  if (error instanceof UnavailableError)
    return createTrouble("unavailable", formatUnavailable(message));
  if (error instanceof RefusedError) {
    return createTrouble(
      "refused",
      `${toSentence(message)} Nothing of yours was lost; what waits is kept.`,
    );
  }
  // Such as a yes to terms that have changed meanwhile.
  if (error instanceof SettingsError) return createTrouble("refused", toSentence(message));
  if (error instanceof StoreError) return createTrouble("storage", toSentence(message));
  return createTrouble("storage", `Something went wrong on this device: ${toSentence(message)}`);
}

function toTermsTrouble({ worse, terms: newTerms }: TermsError): Trouble {
  const text = `They are not those that you accepted. No report is made under them. ${GOES_ON_SENTENCE}`;
  return { kind: "terms", text, terms: { worse: worse.map(toSentence), newTerms } };
}

function toUntrustedTrouble(message: string): Trouble {
  // The same sync may have sent a batch that an earlier one left behind.
  const hasHint = message.toLowerCase().includes("no report is made");
  const hint = hasHint ? "" : " No report is made.";
  return createTrouble(
    "untrusted",
    `${toSentence(message)}${hint} ${GOES_ON_SENTENCE} ${LOOKS_AGAIN_SENTENCE}`,
  );
}

/** Format an error that needs patience: the browser's own words in it help nobody. */
function formatUnavailable(message: string): string {
  const summary = message.replace(/ \([^()]*\)|; try again later/gu, "");
  return `${toSentence(summary)} Recommendations go on, and the page tries again by itself.`;
}

function createTrouble(kind: Trouble["kind"], text: string): Trouble {
  return { kind, text, terms: null };
}

/** Convert a message to a sentence, without the address of the request. */
export function toSentence(message: string): string {
  const text = message.trim().replace(/^https?:\S+: /u, "");
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/u.test(capital) ? capital : `${capital}.`;
}
