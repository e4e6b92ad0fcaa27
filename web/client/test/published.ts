/** Models and catalogues as a server would write them. */

import { concat, utf8 } from "../src/bytes.js";
import type { Traits } from "../src/tags.js";

export const ITEMS = 50;
export const FACTORS = 3;

export function item(number: number): string {
  return `secret-item-${String(number).padStart(4, "0")}`;
}

/** So many rounds, or times as many: `make nightly` plays more of the same sequence. */
export function rounds(few: number): number {
  return few * Number(process.env.SOTTOVOCE_ROUNDS ?? 1);
}

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function itemMatrix(epoch: number): Float32Array {
  const random = numbers(epoch);
  return Float32Array.from({ length: ITEMS * FACTORS }, (_, place) => {
    return (random() - 0.5) * 0.4 + (place % FACTORS === 0 ? 0.2 : 0);
  });
}

export function encodeModel(values: Float32Array, rows: number, columns: number): Uint8Array {
  const item_matrix = {
    dtype: "F32",
    shape: [rows, columns],
    data_offsets: [0, values.byteLength],
  };
  const header = utf8(JSON.stringify({ item_matrix }));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(header.length), true);
  return concat([length, header, new Uint8Array(values.buffer)]);
}

const GENRES = ["Horror", "Comedy", "Drama"];

/** One label that all have, one that a third has, and a number. */
export function traitsOf(number: number): Traits {
  const genre = ["x".repeat(100), GENRES[number % GENRES.length] as string];
  return { genre, year: 1980 + (number % 7) };
}

export function encodeCatalogue(length: number, traits = traitsOf): Uint8Array {
  const items = Array.from({ length }, (_, number) => {
    return { id: item(number), title: `Title ${number}`, tags: traits(number) };
  });
  return utf8(JSON.stringify({ version: 2, items }));
}
