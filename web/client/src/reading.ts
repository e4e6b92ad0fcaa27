/** Model and catalogue, decoded and worked on once for as long as they are the same. */

import { equal, toHex } from "./bytes.js";
import { type Catalogue, decodeCatalogue } from "./catalogue.js";
import { ProtocolError } from "./errors.js";
import type { Manifest } from "./manifest.js";
import { decodeItems } from "./model.js";
import { type Release, takenIn } from "./release.js";
import type { SignedManifest } from "./signed.js";
import type { Matrix } from "./user.js";

/** Where the file with a hash comes from; `Missing` is null where it may have none. */
export type Source<Missing extends null> = (hash: Uint8Array) => Promise<Uint8Array | Missing>;

/** The last model and the last catalogue that were read, by their hashes. */
export class Reading {
  #model: { name: string; V: Matrix } | null = null;
  #catalogue: { name: string; names: Catalogue } | null = null;
  #release: Release | null = null;

  /** The item matrix of a manifest; `source` is asked only if it is not in memory. */
  async model<Missing extends null>(
    manifest: Manifest,
    source: Source<Missing>,
  ): Promise<Matrix | Missing> {
    const { model, items: rows } = manifest;
    const columns = manifest.terms.factors;
    const name = toHex(model);
    const known = this.#model;
    if (known?.name === name && known.V.rows === rows && known.V.columns === columns) {
      return known.V;
    }
    const content = await source(model);
    if (content === null) {
      return content;
    }
    const V = { values: decodeItems(content, rows, columns), rows, columns };
    this.#model = { name, V };
    return V;
  }

  /** The names of its rows, exactly as many as there are. */
  async catalogue<Missing extends null>(
    manifest: Manifest,
    source: Source<Missing>,
  ): Promise<Catalogue | Missing> {
    const name = toHex(manifest.catalogue);
    if (this.#catalogue?.name !== name) {
      const content = await source(manifest.catalogue);
      if (content === null) {
        return content;
      }
      this.#catalogue = { name, names: decodeCatalogue(content) };
    }
    return ofLength(this.#catalogue.names, manifest.items);
  }

  /** Both together, ready for use. */
  release(signed: SignedManifest, V: Matrix, catalogue: Catalogue): Release {
    const known = this.#release;
    const isSame = known?.V === V && known.catalogue === catalogue;
    const release =
      isSame && equal(known.signed.hash, signed.hash)
        ? { ...known, signed }
        : takenIn(signed, V, catalogue);
    this.#release = release;
    return release;
  }
}

function ofLength(names: Catalogue, items: number): Catalogue {
  if (names.items.length !== items) {
    throw new ProtocolError(`the catalogue has ${names.items.length} items, the model ${items}`);
  }
  return names;
}
