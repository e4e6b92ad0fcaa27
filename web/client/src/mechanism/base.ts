/**
 * The interface of mechanisms. A mechanism is the rule that turns one person's history into k
 * reports of four bytes.
 *
 * Each mechanism is one object in a file of its own, which contains everything that differs between
 * mechanisms. All other code uses this object and never compares its name.
 */

import { WORDS_PER_DRAW } from "../coin.js";
import type { Manifest, Terms } from "../epoch.js";
import { SettingsError } from "../errors.js";
import type { Matrix } from "../model.js";

/** How often a report agrees with the person. */
export interface Odds {
  /** What a report states: the sign of a number, a direction, or the name of an item. */
  readonly content: "sign" | "direction" | "name";
  /** Probability that the report agrees with the person. */
  readonly truth: number;
  /** Probability that a uniformly random report agrees with the person. */
  readonly chance: number;
  /**
   * Probability that a report is drawn uniformly at random; 0 for mechanisms that flip signs
   * instead.
   */
  readonly random: number;
}

/** A parameter of a mechanism in the terms; its value is a whole number. */
export interface Parameter {
  /** Returns the smallest value that a manifest may have. */
  readonly minIn: (manifest: Manifest) => number;
  /**
   * Returns the largest value that a manifest may have, given that its earlier parameters are
   * valid.
   */
  readonly maxIn: (manifest: Manifest) => number;
  readonly isPowerOfTwo?: true;
  /**
   * Whether the parameter may change under accepted terms. No promise depends on such a parameter.
   */
  readonly isFree: boolean;
}

/**
 * Loud fraction of a mechanism that reports a sign: one of two directions at each index is loud.
 */
export const SIGN_LOUD_FRACTION = 0.5;

/** A way to make reports. */
export interface Mechanism {
  /** Name in the manifest. */
  readonly name: string;
  /** Whether a report names one of the items that were touched last. */
  readonly asksForNames?: true;
  /** Parameters in the terms, by name. */
  readonly parameters: Readonly<Record<string, Parameter>>;
  /** Returns the number of public directions that a report can name. */
  readonly countDirections: (manifest: Manifest) => number;
  /** Returns rho. The promise depends only on rho and epsilon (docs/privacy.md). */
  readonly computeLoudFraction: (manifest: Manifest) => number;
  /** Makes one report for each draw. `ties` is an additional random word, which breaks ties. */
  readonly makeReports: (
    person: Person,
    draws: readonly Draw[],
    ties: bigint,
  ) => readonly ReadableReport[] | Promise<readonly ReadableReport[]>;
  /**
   * Returns the odds of a report, for display. They are floats; reports are made with exact
   * thresholds.
   */
  readonly computeOdds: (terms: Terms) => Odds;
}

/**
 * One report in readable form. Only `index` and `bit` are sent; `coin` says what the random draw
 * did, and stays on the device.
 */
export interface ReadableReport {
  /** Index of the public direction that the report names. */
  readonly index: number;
  /** Sign of the direction: 1 is plus, 0 is minus. */
  readonly bit: 0 | 1;
  /**
   * Row r of the direction (r, f): for `coordinate` the row of an item, for `loudest` the row of a
   * block, counted over all blocks. For `named`, the row of the item that the report names, or -1
   * if it names none.
   */
  readonly row: number;
  /** Factor f of the direction; 0 for `named`. */
  readonly column: number;
  /**
   * Whether the true sign was kept or turned round, or the report was replaced by a uniform draw.
   */
  readonly coin: "kept" | "turned" | "random";
}

/** One person, and the model to which the person's reports refer. */
export interface Person {
  readonly manifest: Manifest;
  readonly V: Matrix;
  /** Rows of the items from which reports are made, ascending. */
  readonly own: readonly number[];
  /** User vector of the person. */
  readonly x: Float32Array;
}

/** The random words that one report is made from. */
export interface Draw {
  /** Chooses the direction. */
  readonly direction: bigint;
  /** Rounds a value to a sign for `coordinate`, and draws an item for `named`. */
  readonly rounding: bigint;
  /** Decides whether the report is flipped or replaced by a uniform one. */
  readonly coin: bigint;
}

/**
 * Return the odds of a mechanism whose report is drawn from all possible reports with probability
 * gamma, and otherwise from the loud ones only. rho is the fraction of loud reports.
 */
export function computeUniformOdds(content: Odds["content"], epsilon: number, rho: number): Odds {
  const gamma = 1 / (1 + rho * (Math.exp(epsilon) - 1));
  return { content, truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/**
 * Split random words into draws: one for each report, and an additional one whose first word breaks
 * ties.
 */
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
