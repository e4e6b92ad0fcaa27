/** What the device's owner agreed to, at most; a server cannot ask for more by asking again. */

import { UntrustedError } from "./errors.js";
import type { Manifest } from "./manifest.js";

/** What `agree` was given, else those of the first manifest that the client accepts. */
export interface Terms {
  /** How reports are made; another one promises something else. */
  readonly mechanism: string;
  /** Budget of one report, at most. */
  readonly epsilon: number;
  /** Reports in one epoch, at most. */
  readonly reports: number;
  /** Among how many people a report is hidden, at least. */
  readonly leastClients: number;
}

/** What a manifest asks for. */
export function termsOf(manifest: Manifest): Terms {
  const { mechanism, epsilon, reports, leastClients } = manifest;
  return { mechanism, epsilon, reports, leastClients };
}

/** In plain words, everything that would be worse for the owner. */
export function brokenBy(pinned: Terms, asked: Terms): string[] {
  const worse: string[] = [];
  if (asked.mechanism !== pinned.mechanism) {
    worse.push(`reports would be made by ${asked.mechanism}, not by ${pinned.mechanism}`);
  }
  if (asked.epsilon > pinned.epsilon) {
    worse.push(
      `the budget of one report would rise from epsilon ${pinned.epsilon} to ${asked.epsilon}`,
    );
  }
  if (asked.reports > pinned.reports) {
    worse.push(`an epoch would take ${asked.reports} reports, not ${pinned.reports}`);
  }
  if (asked.leastClients < pinned.leastClients) {
    worse.push(
      `a report would be hidden among at least ${asked.leastClients} people, ` +
        `not ${pinned.leastClients}`,
    );
  }
  return worse;
}

/** The terms from here on; better ones are taken, but what was agreed to stays the bound. */
export function agreed(pinned: Terms | null, asked: Terms, acceptNew: boolean): Terms {
  if (pinned === null) return asked;
  const worse = brokenBy(pinned, asked);
  if (worse.length === 0) return pinned;
  if (acceptNew) return asked;
  throw new TermsError(worse, asked);
}

/** The server wants more than the owner agreed to. Nothing is sent; only she can change that. */
export class TermsError extends UntrustedError {
  override name = "TermsError";
  /** In plain words, everything that would be worse. */
  readonly worse: readonly string[];
  /** What `agree` must be given if she says yes: these very terms, and no later ones. */
  readonly asked: Terms;

  constructor(worse: readonly string[], asked: Terms) {
    super(
      `the server changed its terms: ${worse.join("; ")}. Nothing is sent. ` +
        "If you agree, accept the new terms",
    );
    this.worse = worse;
    this.asked = asked;
  }
}
