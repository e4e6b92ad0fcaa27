/**
 * Every error that the client throws on purpose.
 *
 *     SottovoceError
 *     ├── SettingsError        a setting or an argument has a value that cannot work
 *     ├── LedgerError          the record of spent budget contradicts itself
 *     ├── UntrustedError       a signature, a hash, an epoch or the terms do not hold: no report is made of it
 *     │   ├── ProtocolError    bytes are not what the protocol says they must be
 *     │   └── TermsError       the server asks for more than was accepted
 *     ├── UnavailableError     the proxy cannot be reached now, or is busy: the same again later
 *     │   └── PostponedError   one batch alone is wanted later; all else goes on
 *     ├── RefusedError         the proxy understood and said no: the same again is no use
 *     │   └── ClosedError      because the epoch is over
 *     └── StoreError           the browser's storage cannot be read or written
 *
 * Names are set by hand: a minifier may rename classes, and what a person is told must not change.
 */

import type { Terms } from "./epoch.js";

/** The root: catch this to catch everything of ours. */
export class SottovoceError extends Error {
  override name = "SottovoceError";
}

export class SettingsError extends SottovoceError {
  override name = "SettingsError";
}

export class LedgerError extends SottovoceError {
  override name = "LedgerError";
}

export class UntrustedError extends SottovoceError {
  override name = "UntrustedError";
}

export class ProtocolError extends UntrustedError {
  override name = "ProtocolError";
}

/** The server asks for more than the owner accepted. No report is made for it unless they accept it. */
export class TermsError extends UntrustedError {
  override name = "TermsError";
  /** In plain words, everything that would be worse. */
  readonly worse: readonly string[];
  /** What `accept` must be given if they say yes: these very terms, no later ones. */
  readonly asked: Terms;

  constructor(worse: readonly string[], asked: Terms) {
    super(
      `the server changed its terms: ${worse.join("; ")}. No report is made under ` +
        "these terms unless you accept them",
    );
    this.worse = worse;
    this.asked = asked;
  }
}

export class UnavailableError extends SottovoceError {
  override name = "UnavailableError";
  /** Seconds that it asked to be left alone for, if it said so. */
  readonly retryAfter: number | undefined;

  constructor(message: string, retryAfter?: number, options?: ErrorOptions) {
    super(message, options);
    this.retryAfter = retryAfter;
  }
}

/** The proxy wants this batch later. Everything else goes on: sync again whenever it is time. */
export class PostponedError extends UnavailableError {
  override name = "PostponedError";
}

export class RefusedError extends SottovoceError {
  override name = "RefusedError";
}

export class ClosedError extends RefusedError {
  override name = "ClosedError";
}

export class StoreError extends SottovoceError {
  override name = "StoreError";
}
