/** How long recommending takes, in whatever runs this: the best of some tries, in milliseconds. */

import { catalogueOf } from "../src/catalogue.js";
import type { SignedManifest } from "../src/manifest.js";
import { recommendations } from "../src/recommending.js";
import { type Release, takenIn } from "../src/release.js";
import { seeded } from "./vectors.js";

const [ITEMS, FACTORS, LABELS, OWN, TRIES] = [10_000, 32, 50, 500, 12];

/** Of each step, and how many tags there were. */
export interface Speed {
  tags: number;
  /** Reading the catalogue's tags. */
  catalogue: number;
  /** All that is the same for everybody. */
  takenIn: number;
  /** The first list, when nothing was compiled yet, and the fastest. */
  first: number;
  best: number;
}

export function speed(): Speed {
  const random = seeded(1);
  const items = Array.from({ length: ITEMS }, (_, number) => {
    const genre = [0, 1, 2].map((one) => `${Math.floor((random() * LABELS) / 3) * 3 + one}`);
    const tags = { genre, year: 1920 + Math.floor(random() * 100) };
    return { id: `${number}`, title: "A", tags };
  });
  const values = Float32Array.from({ length: ITEMS * FACTORS }, () => random() - 0.4);
  const manifest = { alpha: 4, regularization: 0.1, reportsBehind: 1 };
  const signed = { manifest } as unknown as SignedManifest;
  const [catalogue, reading] = timed(() => catalogueOf(items));
  const V = { values, rows: ITEMS, columns: FACTORS };
  const [release, taking] = timed(() => takenIn(signed, V, catalogue));
  const tries = Array.from({ length: TRIES }, () => timed(() => tenOf(release))[1]);
  const [first = Number.NaN] = tries;
  const times = { catalogue: reading, takenIn: taking, first, best: Math.min(...tries) };
  return { tags: catalogue.tags.names.length, ...times };
}

function tenOf(release: Release): void {
  const touched = new Map(Array.from({ length: OWN }, (_, n) => [`${17 * n}`, n]));
  recommendations(release, touched, 10);
}

function timed<Result>(work: () => Result): [Result, number] {
  const begun = performance.now();
  return [work(), performance.now() - begun];
}
