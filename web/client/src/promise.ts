/**
 * What a device promises to its owner, computed from the terms and from nothing that others say.
 *
 * *Local*: `T k eps` of a whole lifetime under the terms; it holds whatever happens. *Central*: the
 * bound of `bound` at the crowd that the terms enforce, the device itself included.
 */

import { centralBound, localBound } from "./bound.js";
import type { Terms } from "./terms.js";

/** Both figures of a lifetime, and what the second one rests on. */
export interface Promised {
  /** Pure epsilon, whatever happens. */
  readonly local: number;
  /** An upper bound of epsilon at `delta`, among so many honest `clients`. */
  readonly central: number;
  readonly clients: number;
  readonly delta: number;
}

const DELTA = 1e-6;
const WEAK_ABOVE = 100;
const WEAK_CENTRAL_ABOVE = 10;
const A_DEVICE =
  "The promise is for one device, not for one person: what several devices of a person say adds up.";

/** For all that a device ever reports under these terms. */
export function promiseOf(terms: Terms, delta = DELTA): Promised {
  const clients = terms.leastClients;
  return { local: localBound(terms), central: centralBound(terms, clients, delta), clients, delta };
}

/** For a person: what is promised, and on what it rests. */
export function promiseSentences(promised: Promised): string[] {
  const isWeak = promised.local > WEAK_ABOVE && promised.central > WEAK_CENTRAL_ABOVE;
  const weak = isWeak ? ["Both are weak: they protect nobody."] : [];
  return [localSentence(promised), centralSentence(promised), ...weak, A_DEVICE];
}

function localSentence({ local }: Promised): string {
  return (
    "Whatever happens, even if every report can be traced to this device: all that it ever " +
    `reports is at most ${times(local)} likelier than with any other history.`
  );
}

function centralSentence({ local, central, clients, delta }: Promised): string {
  if (central >= local) return "The crowd that is asked for adds nothing to this.";
  return (
    "If the proxy mixes honestly and does not work together with the server, and at least " +
    `${clients.toLocaleString("en")} honest devices report in every epoch: all that the server sees ` +
    `is at most ${times(central)} likelier than with any other history, but for a chance of one in ` +
    `${Math.round(1 / delta).toLocaleString("en")}.`
  );
}

/** `e^0.428 (1.54) times`, both rounded up; a number that nobody can picture is left out. */
function times(epsilon: number): string {
  const pictured = epsilon < WEAK_CENTRAL_ABOVE ? ` (${shown(up(Math.exp(epsilon)))})` : "";
  return `e^${Number(up(epsilon).toPrecision(6))}${pictured} times`;
}

function shown(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 6 });
}

/** To three digits, never below the value. */
function up(value: number): number {
  if (value === 0) return 0;
  const digits = 10 ** (2 - Math.floor(Math.log10(value)));
  return Math.ceil(value * digits) / digits;
}
