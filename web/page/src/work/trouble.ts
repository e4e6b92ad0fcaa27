/** From what the client threw to what people are told. */
import {
  RefusedError,
  StoreError,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "sottovoce-client";
import type { Trouble } from "../messages.js";

/** A question that could not be answered, with the words for whoever asked. */
export class Failed extends Error {
  constructor(readonly trouble: Trouble) {
    super(trouble.text);
    this.name = "Failed";
  }
}

const ADVICE = "The page looks again by itself; if this stays, tell whoever runs this address.";
const GOES_ON = "Recommendations go on with the last model that could be trusted.";

/** Every error has words; which ones depends on what it means for the data here. */
export function troubleOf(error: unknown): Trouble {
  const said = error instanceof Error ? error.message : String(error);
  if (error instanceof TermsError) return otherTerms(error);
  if (error instanceof UntrustedError) return untrusted(said);
  if (error instanceof UnavailableError) return trouble("unavailable", unavailable(said));
  if (error instanceof RefusedError) {
    return trouble("refused", `${sentence(said)} Nothing of yours was lost; what waits is kept.`);
  }
  if (error instanceof StoreError) return trouble("storage", sentence(said));
  return trouble("storage", `Something went wrong on this device: ${sentence(said)}`);
}

function otherTerms({ worse, asked }: TermsError): Trouble {
  const text = `They are not those that you accepted. Nothing was sent. ${GOES_ON}`;
  return { kind: "terms", text, terms: { worse: worse.map(sentence), asked } };
}

function untrusted(said: string): Trouble {
  const nothing = /nothing (?:is|was)\s+sent/iu.test(said) ? "" : " Nothing was sent.";
  return trouble("untrusted", `${sentence(said)}${nothing} ${GOES_ON} ${ADVICE}`);
}

/** The page tries again by itself, and the browser's own words for it help nobody. */
function unavailable(said: string): string {
  const what = said.replace(/ \([^()]*\)|; try again later/gu, "");
  return `${sentence(what)} Recommendations go on, nothing is sent meanwhile.`;
}

function trouble(kind: Trouble["kind"], text: string): Trouble {
  return { kind, text, terms: null };
}

/** With a capital in front and a full stop behind, and without the address that was asked. */
export function sentence(said: string): string {
  const text = said.trim().replace(/^https?:\S+: /u, "");
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/u.test(capital) ? capital : `${capital}.`;
}
