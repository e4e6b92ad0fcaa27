/** One epoch as it was published, and as a device uses it. */

import type { Catalogue } from "./catalogue.js";
import type { SignedManifest } from "./signed.js";
import { type Matrix, sumOfAllSquares } from "./user.js";
import { type WideModel, wideModel } from "./wide.js";

/** The manifest, the item matrix, the names and tags of its rows. */
export interface Release {
  readonly signed: SignedManifest;
  readonly V: Matrix;
  readonly catalogue: Catalogue;
  /** What recommending uses. */
  readonly wide: WideModel;
}

/** What reports are made from: of the catalogue nothing but the numbers, and so no tag. */
export type Reportable = Pick<Release, "signed" | "V"> & { readonly catalogue: Numbered };

type Numbered = Pick<Catalogue, "numbers">;

/**
 * All work on a release that is the same for everybody, done when it is taken in: it can take
 * seconds, and done at the first question about a history it would show who has one.
 */
export function takenIn(signed: SignedManifest, V: Matrix, catalogue: Catalogue): Release {
  sumOfAllSquares(V); // for reports
  return { signed, V, catalogue, wide: wideModel(signed.manifest, V, catalogue.tags) };
}

/** The rows of those items that the catalogue knows, ascending. */
export function rowsOf(catalogue: Numbered, touched: Iterable<string>): number[] {
  const rows = [...touched].map((id) => catalogue.numbers.get(id));
  return rows.filter((row) => row !== undefined).sort((a, b) => a - b);
}
