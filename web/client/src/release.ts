/** A stored release of the model, decoded once for as long as it is the same. */

import { isEqual, toHex } from "./bytes.js";
import { type Catalogue, decodeCatalogue } from "./catalogue.js";
import type { Manifest, SignedManifest } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import { decodeItems, type Matrix } from "./model.js";
import { findListedCatalogue, limitShelf, moveRows, type Shelf } from "./shelf.js";
import type { Store } from "./store.js";
import { sumAllSquares } from "./vector.js";
import { buildWideModel, type WideModel } from "./wide.js";

/** What reports are made from: only the rows of the catalogue, and so no tag. */
export interface Reportable {
  readonly signed: SignedManifest;
  readonly V: Matrix;
  readonly catalogue: Pick<Catalogue, "rowsById">;
}

/** The manifest, the item matrix, the titles and tags of its rows, and what recommending uses. */
export interface Release extends Reportable {
  readonly catalogue: Catalogue;
  readonly wide: WideModel;
  /** The same model without anybody's reports. */
  readonly wideWithoutReports: WideModel;
}

/**
 * Do all work on a release that is the same for everybody.
 *
 * It can take seconds, so it happens when the release is loaded: at the first question about a
 * history it would show who has one.
 */
export function prepareRelease(signed: SignedManifest, V: Matrix, catalogue: Catalogue): Release {
  const { manifest } = signed;
  const wide = buildWideModel(manifest, V, catalogue.tags);
  const wideWithoutReports = buildWideModel({ ...manifest, reportsBehind: 0 }, V, catalogue.tags);
  return { signed, V, catalogue, wide, wideWithoutReports };
}

/** Reads the release that was accepted last, and decodes it once for as long as it is the same. */
export class ReleaseReader {
  #V: { name: string; V: Matrix } | null = null;
  #catalogue: { name: string; catalogue: Catalogue } | null = null;
  #shelf: { name: string; from: Matrix; V: Matrix; catalogue: Catalogue } | null = null;
  #release: Release | null = null;

  constructor(private readonly store: Store) {}

  /**
   * Return what reports are made from; null if there is nothing. Another tab may have changed it.
   */
  async readReportable(): Promise<(Reportable & { readonly catalogue: Catalogue }) | null> {
    const signed = await this.store.readManifest();
    const V = signed && (await this.#readModel(signed.manifest));
    const catalogue = signed && (await this.#readCatalogue(signed.manifest));
    if (V === null || catalogue === null || signed === null) return null;
    sumAllSquares(V); // the same for everybody: the first batch must not be slower
    return { signed, V, catalogue };
  }

  /** Return the release with everything that recommending uses; null if there is none. */
  async readRelease(): Promise<Release | null> {
    const [reportable, { shelf }] = [await this.readReportable(), await this.store.readSettings()];
    const listed = reportable && shelf && (await this.#readListed(reportable, shelf));
    if (reportable === null || listed === null) return null;
    const { signed } = reportable;
    const { V, catalogue } = listed;
    const previous = this.#release;
    const isSame = previous?.V === V && previous.catalogue === catalogue;
    this.#release =
      isSame && isEqual(previous.signed.hash, signed.hash)
        ? { ...previous, signed }
        : prepareRelease(signed, V, catalogue);
    return this.#release;
  }

  /** Return the model and the items that lists are made from. */
  async #readListed(
    { signed, V, catalogue }: Reportable & { readonly catalogue: Catalogue },
    shelf: Shelf,
  ): Promise<{ V: Matrix; catalogue: Catalogue } | null> {
    const hash = findListedCatalogue(signed.manifest, shelf);
    if (isEqual(hash, signed.manifest.catalogue)) return { V, catalogue };
    const name = toHex(hash);
    if (this.#shelf?.name !== name || this.#shelf.from !== V) {
      const content = await this.store.readFile(hash);
      const listedItems =
        content && limitShelf(decodeCatalogue(content), catalogue, signed.manifest.terms);
      if (listedItems === null) return null;
      this.#shelf = {
        name,
        from: V,
        V: moveRows(V, catalogue, listedItems),
        catalogue: listedItems,
      };
    }
    return this.#shelf;
  }

  async #readModel({ model, items, terms }: Manifest): Promise<Matrix | null> {
    const name = `${toHex(model)} ${items} ${terms.factors}`;
    if (this.#V?.name !== name) {
      const content = await this.store.readFile(model);
      if (content === null) return null;
      this.#V = { name, V: decodeItems(content, items, terms.factors) };
    }
    return this.#V.V;
  }

  async #readCatalogue(manifest: Manifest): Promise<Catalogue | null> {
    const name = `${toHex(manifest.catalogue)} ${manifest.items}`;
    if (this.#catalogue?.name !== name) {
      const content = await this.store.readFile(manifest.catalogue);
      if (content === null) return null;
      this.#catalogue = { name, catalogue: decodeCatalogueFor(manifest, content) };
    }
    return this.#catalogue.catalogue;
  }
}

/** Decode the catalogue of a manifest, which must have a row for each row of the model. */
export function decodeCatalogueFor({ items }: Manifest, content: Uint8Array): Catalogue {
  const catalogue = decodeCatalogue(content);
  if (catalogue.items.length !== items) {
    throw new ProtocolError(
      `the catalogue has ${catalogue.items.length} items, but the model has ${items}`,
    );
  }
  return catalogue;
}
