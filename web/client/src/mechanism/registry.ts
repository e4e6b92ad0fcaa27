/**
 * Which mechanisms there are, and how one makes the reports of a person: docs/reference/model.md.
 * docs/extending.md shows how to add one.
 *
 * A report names a public direction in the space of gradients and a sign. Each is epsilon-LDP by
 * itself, whatever the history behind it. Randomness is an input: the same words give the same
 * reports, here and in the Python client.
 */

import type { Manifest, Terms } from "../epoch.js";
import { ProtocolError, SettingsError } from "../errors.js";
import { shown } from "../json.js";
import type { Matrix } from "../model.js";
import { ascending, userVector } from "../vector.js";
import { drawsOf, type Mechanism, type Odds, type Told } from "./base.js";
import { coordinate } from "./coordinate.js";
import { loudest } from "./loudest.js";

/** The ways to report that this client knows. */
export const MECHANISMS: readonly Mechanism[] = [coordinate, loudest];

/** The mechanism that a manifest names, or a `ProtocolError`. */
export function mechanismNamed(name: unknown): Mechanism {
  const found = MECHANISMS.find((mechanism) => mechanism.name === name);
  if (found === undefined) throw new ProtocolError(`terms: no mechanism ${shown(name)}`);
  return found;
}

export type { Told } from "./base.js";

/** The reports of a batch, as they will be sealed and as they can be shown to their owner. */
export interface Made {
  readonly reports: Uint32Array;
  readonly told: readonly Told[];
}

/** What people are told of one report. */
export interface Explanation {
  /** What it tells, in a sentence. */
  readonly about: string;
  readonly odds: Odds;
}

/** Of the reports that these terms ask for. */
export function explain(terms: Terms): Explanation {
  const { about, odds } = mechanismNamed(terms.mechanism);
  return { about, odds: odds(terms) };
}

/**
 * The k reports of somebody who touched the rows `own`, from (k + 1) x 4 random words. Nothing here
 * can fail because of the rows: see `bounds`.
 */
export async function makeReports(
  manifest: Manifest,
  V: Matrix,
  own: readonly number[],
  words: BigUint64Array,
): Promise<Made> {
  if (V.rows !== manifest.items || V.columns !== manifest.terms.factors) {
    throw new SettingsError(`the item matrix is ${V.rows} x ${V.columns}, not the manifest's`);
  }
  const x = userVector(V, own, manifest.alpha, manifest.regularization);
  const person = { manifest, V, own: ascending(own, V.rows), x };
  const { draws, ties } = drawsOf(words, manifest.terms.reports);
  const told = await mechanismNamed(manifest.terms.mechanism).reports(person, draws, ties);
  // Doubled, not shifted: an index may have 31 bits, and a shift would make it negative.
  return { reports: Uint32Array.from(told, ({ index, bit }) => 2 * index + bit), told };
}
