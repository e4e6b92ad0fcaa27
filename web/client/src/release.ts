/**
 * Reads the stored release of the model. A release is decoded only once while it does not change.
 */

import { isEqual, toHex } from "./bytes.js";
import { type Catalogue, decodeCatalogue, type Item } from "./catalogue.js";
import { hasModel, type Manifest, type SignedManifest } from "./epoch.js";
import { ProtocolError } from "./errors.js";
import { asksForNames } from "./mechanism/registry.js";
import { decodeItems, type Matrix } from "./model.js";
import { findListedCatalogue, limitShelf, moveRows, type Shelf } from "./shelf.js";
import type { Store } from "./store.js";
import { sumAllSquares } from "./vector.js";
import { buildWideModel, dropFactors, type WideModel } from "./wide.js";

/**
 * The part of a release from which reports are made. Of the catalogue it has only the rows and titles, so
 * no report depends on tags.
 */
export interface Reportable {
  readonly signed: SignedManifest;
  readonly V: Matrix;
  readonly catalogue: Pick<Catalogue, "rowsById"> & {
    readonly items: readonly Pick<Item, "title">[];
  };
}

/**
 * A release with everything that recommending needs: also the titles and tags of the items, and the
 * models over factors and tags.
 */
export interface Release extends Reportable {
  readonly catalogue: Catalogue;
  readonly wide: WideModel;
  /** The model for recommending by tags alone. */
  readonly tagsOnly: WideModel;
}

/**
 * Do all work on a release that does not depend on a history.
 *
 * This can take seconds, so it is done when the release is loaded. If it were done for the first
 * question about a history, the delay would show who has one.
 */
export function prepareRelease(signed: SignedManifest, V: Matrix, catalogue: Catalogue): Release {
  const settings = { ...signed.manifest, hasShares: asksForNames(signed.manifest.terms) };
  const tagsOnly = buildWideModel(settings, dropFactors(V), catalogue.tags);
  // Without a start, V is only noise from the server until the first reports are counted.
  const wide = hasModel(settings) ? buildWideModel(settings, V, catalogue.tags) : tagsOnly;
  return { signed, V, catalogue, wide, tagsOnly };
}

/** Reads the release that was accepted last, and decodes it only once while it does not change. */
export class ReleaseReader {
  #V: { name: string; V: Matrix } | null = null;
  #catalogue: { name: string; catalogue: Catalogue } | null = null;
  #shelf: { name: string; from: Matrix; V: Matrix; catalogue: Catalogue } | null = null;
  #release: Release | null = null;

  constructor(private readonly store: Store) {}

  /**
   * Return the part of the release from which reports are made; null if no release is stored. The
   * store is read every time, because another tab may have changed it.
   */
  async readReportable(): Promise<(Reportable & { readonly catalogue: Catalogue }) | null> {
    const signed = await this.store.readManifest();
    const V = signed && (await this.#readModel(signed.manifest));
    const catalogue = signed && (await this.#readCatalogue(signed.manifest));
    if (V === null || catalogue === null || signed === null) return null;
    sumAllSquares(V); // computed now, so that the first batch does not take longer
    return { signed, V, catalogue };
  }

  /** Return the release with everything that recommending needs; null if none is stored. */
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

  /**
   * Return the items from which lists are made, and their rows of the model; null if they are not
   * stored.
   */
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

/**
 * Decode the catalogue of a manifest. Throws a `ProtocolError` unless it has one item for each row
 * of the model.
 */
export function decodeCatalogueFor({ items }: Manifest, content: Uint8Array): Catalogue {
  const catalogue = decodeCatalogue(content);
  if (catalogue.items.length !== items) {
    throw new ProtocolError(
      `the catalogue has ${catalogue.items.length} items, the manifest says ${items}`,
    );
  }
  return catalogue;
}
