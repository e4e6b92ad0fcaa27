/**
 * Every error that the client throws on purpose.
 *
 *     SottovoceError
 *     ├── SettingsError        a setting or an argument is not valid
 *     ├── LedgerError          the record of spent budget contradicts itself
 *     ├── UntrustedError       a signature, a hash, an epoch or the terms are wrong: no report is made
 *     │   ├── ProtocolError    bytes break the protocol
 *     │   └── TermsError       the server asks for more than was accepted
 *     ├── UnavailableError     the proxy cannot be reached now, or is busy: try again later
 *     │   └── PostponedError   only this batch must wait; everything else continues
 *     ├── RefusedError         the proxy understood and refused: do not repeat it
 *     │   └── ClosedError      because the epoch is over
 *     └── StoreError           the browser's storage cannot be read or written
 *
 * The names are literals: a minifier may rename classes, and messages must not change.
 */

import type { Terms } from "./epoch.js";

/** The base class: catch it to catch every error of this client. */
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

/**
 * The server asks for more than the owner accepted. No report is made under the new terms unless
 * the owner accepts them.
 */
export class TermsError extends UntrustedError {
  override name = "TermsError";
  /** Every way in which the terms are worse, in plain words. */
  readonly worse: readonly string[];
  /** The new terms. After the owner said yes, pass exactly these to `accept`. */
  readonly terms: Terms;

  constructor(worse: readonly string[], terms: Terms) {
    super(`the server changed its terms: ${worse.join("; ")}; ask the owner to accept them`);
    this.worse = worse;
    this.terms = terms;
  }
}

export class UnavailableError extends SottovoceError {
  override name = "UnavailableError";
  /** Seconds during which the proxy wants no request; undefined if it named none. */
  readonly retryAfter: number | undefined;

  constructor(message: string, retryAfter?: number, options?: ErrorOptions) {
    super(message, options);
    this.retryAfter = retryAfter;
  }
}

/** The proxy wants this batch later. Everything else continues: further syncs work as usual. */
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
