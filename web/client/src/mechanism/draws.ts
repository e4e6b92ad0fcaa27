/** What a mechanism is given and what it gives back. */

import { SettingsError } from "../errors.js";
import type { Manifest } from "../manifest.js";
import type { Matrix } from "../user.js";
import { WORDS_PER_DRAW } from "../words.js";

/** One report in readable form. `coin` says what the chance did to it, and stays on the device. */
export interface Told {
  /** Of the public direction that it names. */
  readonly index: number;
  /** 1 is plus, 0 is minus. */
  readonly bit: 0 | 1;
  /** The item for `coordinate`, else the row of a block: row r of all. */
  readonly row: number;
  /** The factor. */
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

/** A sign after the coin: turned if the word lies below the threshold. */
export function tossed(plus: boolean, word: bigint, flipBelow: bigint): Pick<Told, "bit" | "coin"> {
  const turned = word < flipBelow;
  return { bit: plus !== turned ? 1 : 0, coin: turned ? "turned" : "kept" };
}
