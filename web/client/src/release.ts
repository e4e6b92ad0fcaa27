/** A stored release of the model, decoded once for as long as it is the same. */

import { equal, toHex } from "./bytes.js";
import { type Catalogue, decodeCatalogue } from "./catalogue.js";
import type { Manifest, SignedManifest } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import { decodeItems, type Matrix } from "./model.js";
import { listedCatalogue, movedRows, type Shelf, shelved } from "./shelf.js";
import type { Store } from "./store.js";
import { sumOfAllSquares } from "./vector.js";
import { type WideModel, wideModel } from "./wide.js";

/** What reports are made from: of the catalogue nothing but the numbers, and so no tag. */
export interface Reportable {
  readonly signed: SignedManifest;
  readonly V: Matrix;
  readonly catalogue: Pick<Catalogue, "numbers">;
}

/** The manifest, the item matrix, the names and tags of its rows, and what recommending uses. */
export interface Release extends Reportable {
  readonly catalogue: Catalogue;
  readonly wide: WideModel;
  /** The same without anybody's reports. */
  readonly tagsAlone: WideModel;
}

/**
 * All work on a release that is the same for everybody, done when it is taken in: it can take
 * seconds, and done at the first question about a history it would show who has one.
 */
export function takenIn(signed: SignedManifest, V: Matrix, catalogue: Catalogue): Release {
  const { manifest } = signed;
  const wide = wideModel(manifest, V, catalogue.tags);
  const tagsAlone = wideModel({ ...manifest, reportsBehind: 0 }, V, catalogue.tags);
  return { signed, V, catalogue, wide, tagsAlone };
}

/** What is stored of the release that was accepted last, decoded once for as long as it is the same. */
export class Reading {
  #V: { name: string; V: Matrix } | null = null;
  #catalogue: { name: string; catalogue: Catalogue } | null = null;
  #shelf: { name: string; from: Matrix; V: Matrix; catalogue: Catalogue } | null = null;
  #release: Release | null = null;

  constructor(private readonly store: Store) {}

  /** For reports; null where there is none. Another tab may have changed it. */
  async reportable(): Promise<(Reportable & { readonly catalogue: Catalogue }) | null> {
    const signed = await this.store.signed();
    const V = signed && (await this.#model(signed.manifest));
    const catalogue = signed && (await this.#names(signed.manifest));
    if (V === null || catalogue === null || signed === null) return null;
    sumOfAllSquares(V); // the same for everybody, so it is not left to the first batch
    return { signed, V, catalogue };
  }

  /** With all that recommending uses. */
  async release(): Promise<Release | null> {
    const [found, { shelf }] = [await this.reportable(), await this.store.settings()];
    const listed = found && shelf && (await this.#listed(found, shelf));
    if (found === null || listed === null) return null;
    const { signed } = found;
    const { V, catalogue } = listed;
    const known = this.#release;
    const isSame = known?.V === V && known.catalogue === catalogue;
    this.#release =
      isSame && equal(known.signed.hash, signed.hash)
        ? { ...known, signed }
        : takenIn(signed, V, catalogue);
    return this.#release;
  }

  /** The model, and the items that lists are made from. */
  async #listed(
    { signed, V, catalogue }: Reportable & { readonly catalogue: Catalogue },
    shelf: Shelf,
  ): Promise<{ V: Matrix; catalogue: Catalogue } | null> {
    const hash = listedCatalogue(signed.manifest, shelf);
    if (equal(hash, signed.manifest.catalogue)) return { V, catalogue };
    const name = toHex(hash);
    if (this.#shelf?.name !== name || this.#shelf.from !== V) {
      const content = await this.store.file(hash);
      const after = content && shelved(decodeCatalogue(content), catalogue, signed.manifest.terms);
      if (after === null) return null;
      this.#shelf = { name, from: V, V: movedRows(V, catalogue, after), catalogue: after };
    }
    return this.#shelf;
  }

  async #model({ model, items, terms }: Manifest): Promise<Matrix | null> {
    const name = `${toHex(model)} ${items} ${terms.factors}`;
    if (this.#V?.name !== name) {
      const content = await this.store.file(model);
      if (content === null) return null;
      this.#V = { name, V: decodeItems(content, items, terms.factors) };
    }
    return this.#V.V;
  }

  async #names(manifest: Manifest): Promise<Catalogue | null> {
    const name = `${toHex(manifest.catalogue)} ${manifest.items}`;
    if (this.#catalogue?.name !== name) {
      const content = await this.store.file(manifest.catalogue);
      if (content === null) return null;
      this.#catalogue = { name, catalogue: catalogueFor(manifest, content) };
    }
    return this.#catalogue.catalogue;
  }
}

/** The names of a manifest's rows, exactly as many as there are. */
export function catalogueFor({ items }: Manifest, content: Uint8Array): Catalogue {
  const catalogue = decodeCatalogue(content);
  if (catalogue.items.length !== items) {
    throw new ProtocolError(
      `the catalogue has ${catalogue.items.length} items, the model ${items}`,
    );
  }
  return catalogue;
}
