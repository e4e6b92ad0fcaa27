/**
 * What a mechanism is: the rule by which one person's gradient becomes k reports of four bytes.
 *
 * Everything that differs by mechanism hangs on one object, in one file. All other code asks that
 * object and never its name.
 */

import type { Manifest } from "../manifest.js";
import type { Terms } from "../terms.js";
import type { Draw, Person, Told } from "./draws.js";

/** How often one report says the truth. */
export interface Odds {
  /** Chance that the report agrees with the person. */
  readonly truth: number;
  /** The same for a report that is nothing but chance. */
  readonly chance: number;
  /** Chance that a report is drawn at random altogether; 0 where the coin turns signs instead. */
  readonly random: number;
}

/** One of the parameters that a mechanism has in the terms: a whole number. */
export interface Parameter {
  readonly least: number;
  /** In this manifest, in which all parameters before this one are in order. */
  readonly most: (manifest: Manifest) => number;
  readonly isPowerOfTwo?: true;
  /** Whether it may change under accepted terms, because no promise depends on it. */
  readonly isFree: boolean;
}

/** The loud fraction of a mechanism that reports a sign: one of the two at each index. */
export const SIGN = 0.5;

/** One way to report. */
export interface Mechanism {
  /** As in the manifest. */
  readonly name: string;
  /** What a report tells, in a sentence for the person whose report it is. */
  readonly about: string;
  /** What the terms carry for it, by the names that they have there. */
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** How many public directions a report can name. */
  readonly directions: (manifest: Manifest) => number;
  /** rho, all that the promise depends on beside epsilon (docs/privacy.md). */
  readonly loudFraction: (manifest: Manifest) => number;
  /** One report for each draw. `ties` is a further word, which settles equal choices. */
  readonly reports: (
    person: Person,
    draws: readonly Draw[],
    ties: bigint,
  ) => readonly Told[] | Promise<readonly Told[]>;
  /** For people, in floats: the reports themselves are made by exact thresholds. */
  readonly odds: (terms: Terms) => Odds;
}

/** Of a sign that is kept with probability e^epsilon / (1 + e^epsilon), else turned. */
export function signOdds({ epsilon }: Terms): Odds {
  const ratio = Math.exp(epsilon);
  return { truth: ratio / (1 + ratio), chance: 0.5, random: 0 };
}
