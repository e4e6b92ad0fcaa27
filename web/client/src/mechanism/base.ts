/**
 * What a mechanism is: the rule by which one person's gradient becomes k reports of four bytes.
 *
 * Everything that differs between mechanisms is in one object, in one file. All other code asks
 * that object and never its name.
 */

import { WORDS_PER_DRAW } from "../coin.js";
import type { Manifest, Terms } from "../epoch.js";
import { SettingsError } from "../errors.js";
import type { Matrix } from "../model.js";

/** How often one report is true. */
export interface Odds {
  /** Probability that the report agrees with the person. */
  readonly truth: number;
  /** The same probability for a uniformly random report. */
  readonly chance: number;
  /** Probability that a report is drawn at random altogether; 0 where signs are flipped instead. */
  readonly random: number;
}

/** A parameter that a mechanism has in the terms: a whole number. */
export interface Parameter {
  readonly min: number;
  /** Largest value in a manifest whose earlier parameters are valid. */
  readonly maxIn: (manifest: Manifest) => number;
  readonly isPowerOfTwo?: true;
  /** Whether it may change under accepted terms, because no promise depends on it. */
  readonly isFree: boolean;
}

/** Loud fraction of a mechanism that reports a sign: one of two at each index. */
export const SIGN_LOUD_FRACTION = 0.5;

/** One way to make reports. */
export interface Mechanism {
  /** Name in the manifest. */
  readonly name: string;
  /** What a report says, in a sentence for the person whose report it is. */
  readonly about: string;
  /** Parameters in the terms, by their names there. */
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** Counts the public directions that a report can name. */
  readonly countDirections: (manifest: Manifest) => number;
  /** Returns rho, all that the promise depends on besides epsilon (docs/privacy.md). */
  readonly computeLoudFraction: (manifest: Manifest) => number;
  /** Makes one report for each draw. `ties` is one more word, which breaks ties. */
  readonly makeReports: (
    person: Person,
    draws: readonly Draw[],
    ties: bigint,
  ) => readonly ReadableReport[] | Promise<readonly ReadableReport[]>;
  /** Returns the odds for people, in floats: reports themselves are made with exact thresholds. */
  readonly computeOdds: (terms: Terms) => Odds;
}

/** One report in readable form. `coin` says what the random draw did, and stays on the device. */
export interface ReadableReport {
  /** Index of the public direction that it names. */
  readonly index: number;
  /** 1 is plus, 0 is minus. */
  readonly bit: 0 | 1;
  /** The item for `coordinate`, else a row of all blocks. */
  readonly row: number;
  readonly column: number;
  /** Whether the truth was kept, turned round, or replaced by a uniform draw. */
  readonly coin: "kept" | "turned" | "random";
}

/** One person and the model that they report about. */
export interface Person {
  readonly manifest: Manifest;
  readonly V: Matrix;
  /** Rows that they touched, ascending. */
  readonly own: readonly number[];
  /** Their user vector. */
  readonly x: Float32Array;
}

/** The random words that one report is made from. */
export interface Draw {
  readonly direction: bigint;
  readonly rounding: bigint;
  readonly coin: bigint;
}

/** Split words into draws: one for each report, and the last one for ties. */
export function splitWords(
  words: BigUint64Array,
  reports: number,
): { draws: Draw[]; ties: bigint } {
  if (words.length !== (reports + 1) * WORDS_PER_DRAW) {
    throw new SettingsError(
      `${reports} reports need ${(reports + 1) * WORDS_PER_DRAW} words, not ${words.length}`,
    );
  }
  const getWord = (draw: number, position: number) =>
    words[draw * WORDS_PER_DRAW + position] as bigint;
  const draws = Array.from({ length: reports }, (_, draw) => ({
    direction: getWord(draw, 0),
    rounding: getWord(draw, 1),
    coin: getWord(draw, 2),
  }));
  return { draws, ties: getWord(reports, 0) };
}
