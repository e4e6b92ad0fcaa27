/**
 * What a mechanism is: the rule by which one person's gradient becomes k reports of four bytes.
 *
 * Everything that differs by mechanism hangs on one object, in one file. All other code asks that
 * object and never its name.
 */

import { WORDS_PER_DRAW } from "../coin.js";
import type { Manifest, Terms } from "../epoch.js";
import { SettingsError } from "../errors.js";
import type { Matrix } from "../model.js";

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

/** One report in readable form. `coin` says what the chance did to it, and stays on the device. */
export interface Told {
  /** Of the public direction that it names. */
  readonly index: number;
  /** 1 is plus, 0 is minus. */
  readonly bit: 0 | 1;
  /** The item for `coordinate`, else the row of a block: row r of all. */
  readonly row: number;
  readonly column: number;
  /** Whether the truth was let through, turned round, or replaced by a uniform draw. */
  readonly coin: "kept" | "turned" | "random";
}

/** One person and the model that they report about. */
export interface Person {
  readonly manifest: Manifest;
  readonly V: Matrix;
  /** The rows that they touched, ascending. */
  readonly own: readonly number[];
  /** Their user vector. */
  readonly x: Float32Array;
}

/** Four words of 64 bits, all that one report is made from beside the person. */
export interface Draw {
  readonly direction: bigint;
  readonly rounding: bigint;
  readonly coin: bigint;
}

/** The words as draws: one for each report, and the last one for ties. */
export function drawsOf(words: BigUint64Array, reports: number): { draws: Draw[]; ties: bigint } {
  if (words.length !== (reports + 1) * WORDS_PER_DRAW) {
    throw new SettingsError(`${reports} reports take ${(reports + 1) * WORDS_PER_DRAW} words`);
  }
  const word = (draw: number, which: number) => words[draw * WORDS_PER_DRAW + which] as bigint;
  const draws = Array.from({ length: reports }, (_, draw) => ({
    direction: word(draw, 0),
    rounding: word(draw, 1),
    coin: word(draw, 2),
  }));
  return { draws, ties: word(reports, 0) };
}
