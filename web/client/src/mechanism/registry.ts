/**
 * The list of mechanisms, and the function that makes a person's reports (docs/reference/model.md).
 * docs/extending.md shows how to add a mechanism.
 *
 * A report names a public direction in the space of gradients and a sign, or an item. Each report
 * satisfies epsilon-LDP for every history. Random words are an input: the same words give the same reports
 * here and in the Python client.
 */

import type { Manifest, Terms } from "../epoch.js";
import { ProtocolError, SettingsError } from "../errors.js";
import { formatValue } from "../json.js";
import type { Matrix } from "../model.js";
import { solveUserVector, sortRows } from "../vector.js";
import { type Mechanism, type Odds, type ReadableReport, splitWords } from "./base.js";
import { coordinate } from "./coordinate.js";
import { loudest } from "./loudest.js";
import { named } from "./named.js";

/** The mechanisms that this client can use. */
export const MECHANISMS: readonly Mechanism[] = [coordinate, loudest, named];

/** Return the mechanism with this name. Throws a `ProtocolError` if there is none. */
export function findMechanism(name: unknown): Mechanism {
  const mechanism = MECHANISMS.find((candidate) => candidate.name === name);
  if (mechanism === undefined)
    throw new ProtocolError(`terms: unknown mechanism ${formatValue(name)}`);
  return mechanism;
}

/** Return whether reports under these terms name items instead of describing a gradient. */
export function asksForNames({ mechanism }: Pick<Terms, "mechanism">): boolean {
  return findMechanism(mechanism).asksForNames === true;
}

export type { ReadableReport } from "./base.js";

/** The reports of a batch: encoded for sealing, and in readable form. */
export interface EncodedReports {
  readonly reports: Uint32Array;
  readonly readable: readonly ReadableReport[];
}

/** Return the odds of the reports that these terms ask for. */
export function computeOdds(terms: Terms): Odds {
  return findMechanism(terms.mechanism).computeOdds(terms);
}

/**
 * Make the k reports of a person from the rows `own` of touched items and (k + 1) * 4 random words.
 *
 * Nothing here can fail because of the rows that were touched (see `bounds`).
 */
export async function makeReports(
  manifest: Manifest,
  V: Matrix,
  own: readonly number[],
  words: BigUint64Array,
): Promise<EncodedReports> {
  if (V.rows !== manifest.items || V.columns !== manifest.terms.factors) {
    throw new SettingsError(`the item matrix must not be ${V.rows} x ${V.columns}`);
  }
  const x = solveUserVector(V, own, manifest.alpha, manifest.regularization);
  const person = { manifest, V, own: sortRows(own, V.rows), x };
  const { draws, ties } = splitWords(words, manifest.terms.reports);
  const readable = await findMechanism(manifest.terms.mechanism).makeReports(person, draws, ties);
  // Multiplied and not shifted: an index may have 31 bits, and a shift would make it negative.
  return { reports: Uint32Array.from(readable, ({ index, bit }) => 2 * index + bit), readable };
}
