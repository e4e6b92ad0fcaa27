/** Fetches a release of the model, and accepts it only if all its checks pass. */

import { checkTerms } from "./agreement.js";
import { fromHex, hashSha256, isEqual, toHex } from "./bytes.js";
import { decodeCatalogue } from "./catalogue.js";
import type { BatchRow, Settings } from "./database.js";
import type { Manifest, SignedManifest, Terms } from "./epoch.js";
import {
  RefusedError,
  type SottovoceError,
  StoreError,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
import { openManifest } from "./manifest.js";
import { checkItems, computeMaxModelBytes, decodeItems, type Matrix } from "./model.js";
import type { HttpProxy } from "./proxy.js";
import { decodeCatalogueFor } from "./release.js";
import { checkPublicKey } from "./sealing.js";
import { checkShelf, checkShelfSize, openShelf, type Shelf } from "./shelf.js";
import type { Store } from "./store.js";
import { computeLead } from "./timing.js";

/**
 * What a look reads before the proxy is asked, so that no disk access comes between two requests.
 */
export interface StoredState {
  readonly settings: Settings;
  /** Hashes of the stored files. */
  readonly files: readonly string[];
  /** A batch of any epoch that was neither delivered nor dropped. */
  readonly waiting: BatchRow | undefined;
}

/** An accepted manifest, and when the last answer about it arrived, by both clocks. */
export interface FetchedRelease {
  readonly signed: SignedManifest;
  readonly at: Instant;
  /** Why the proxy would not accept a batch now; null if it would. */
  readonly refusal: SottovoceError | null;
}

/** One moment by both clocks. */
export interface Instant {
  /** Unix seconds. */
  readonly clock: number;
  /** Seconds of the clock that nobody can set back. */
  readonly now: number;
}

/** A manifest, and when the last answer about it arrived. */
export interface Arrival {
  readonly manifest: Manifest;
  readonly at: Instant;
}

/** The manifest and the model of an epoch. */
export interface PastRelease {
  readonly manifest: Manifest;
  readonly V: Matrix;
}

/** Fetches what is published, and stores what passes all checks. */
export class Fetcher {
  /** Names of the files that were checked last, and the shape that they had to have. */
  #checkedFiles = "";
  /** The last manifest accepted, and when the last answer about it arrived. */
  latest: Arrival | null = null;
  /**
   * Time at which the work on the last new files is over at the latest, by the clock that nobody
   * can set back.
   */
  workEnds = 0;

  constructor(
    private readonly store: Store,
    private readonly proxy: HttpProxy,
    private readonly instant: () => Instant,
  ) {}

  /** Fetch the current release. After an error nothing of it was stored. */
  async refresh(stored: StoredState): Promise<FetchedRelease> {
    const trusted = fromHex(stored.settings.trusted);
    const signed = await openManifest(await this.proxy.fetchManifest(), trusted);
    try {
      return await this.#fetchRelease(signed, stored);
    } catch (error) {
      // Not earlier: no disk access comes between two requests.
      const isNew = !isSameTerms(stored.settings.asked, signed.manifest.terms);
      if (error instanceof TermsError && isNew) await this.store.noteAsked(signed.manifest);
      throw error;
    }
  }

  async #fetchRelease(
    signed: SignedManifest,
    { settings, files }: StoredState,
  ): Promise<FetchedRelease> {
    const { manifest } = signed;
    const check = (stored: Settings) => checkAgainst(stored, signed, settings.trusted);
    const fresh = new Map<string, Uint8Array>();
    try {
      check(settings); // before anything else is fetched, and again when it is stored
    } catch (error) {
      if (error instanceof TermsError) await this.#refreshShelf(settings, files);
      throw error;
    }
    for (const hash of [manifest.model, manifest.catalogue]) {
      if (!files.includes(toHex(hash))) await this.#fetchFile(manifest, hash, fresh);
    }
    const shelf = await this.#fetchShelf(signed.key, settings, files, fresh);
    const refusal = await this.#findRefusal(signed.hash);
    const at = this.instant(); // before any work that a disk or another thread could delay
    await this.#checkContents(manifest, shelf, fresh, at);
    const isStored =
      settings.newest?.hash === toHex(signed.hash) &&
      settings.shelf?.hash === shelf.hash &&
      isSameTerms(settings.asked, manifest.terms); // others may have been asked for meanwhile
    if (fresh.size > 0 || !isStored || settings.trusted !== toHex(signed.key)) {
      await this.store.storeRelease(signed, shelf, fresh, (stored) => {
        check(stored);
        checkShelf(stored.shelf, shelf);
      });
    }
    this.latest = { manifest, at };
    return { signed, at, refusal };
  }

  /** Return the model of the current epoch from the disk; null if it is not there. */
  async loadCurrent(): Promise<PastRelease | null> {
    const signed = await this.store.readManifest();
    const content = signed && (await this.store.readFile(signed.manifest.model));
    return signed && content && decodeRelease(signed.manifest, content);
  }

  /**
   * Fetch the signed model of an earlier epoch; null if the proxy no longer has it. It is not
   * stored.
   *
   * `settings` were read before, so that no disk access comes between two requests.
   */
  async fetchPast(epoch: number, settings: Settings): Promise<PastRelease | null> {
    const raw = await this.proxy.fetchPastManifest(epoch);
    if (raw === null) {
      return null;
    }
    // Verify from the first pinned key on: an old manifest does not name the keys that came later.
    const signed = await openManifest(raw, fromHex(settings.key));
    checkRequestedEpoch(epoch, signed, settings.newest);
    const { model, items: rows, terms } = signed.manifest;
    const content = await this.proxy.fetchPastModel(
      model,
      computeMaxModelBytes(rows, terms.factors),
    );
    if (content === null) {
      return null;
    }
    return decodeRelease(signed.manifest, await checkHash(content, model));
  }

  /**
   * Ask whether a batch would be accepted. Every look asks, whether the device reports or not: so
   * nothing is charged for a batch that would be refused.
   */
  async #findRefusal(manifest: Uint8Array): Promise<SottovoceError | null> {
    try {
      await this.proxy.checkAcceptsBatch(manifest);
      return null;
    } catch (error) {
      if (error instanceof UnavailableError || error instanceof RefusedError) return error;
      throw error;
    }
  }

  /**
   * Fetch the shelf that goes with a manifest of this key, and its catalogue if it is not stored.
   */
  async #fetchShelf(
    key: Uint8Array,
    settings: Settings,
    names: readonly string[],
    fresh: Map<string, Uint8Array>,
  ): Promise<Shelf> {
    const shelf = await openShelf(await this.proxy.fetchShelf(), key);
    checkShelf(settings.shelf, shelf);
    if (!names.includes(shelf.catalogue) && !fresh.has(shelf.catalogue)) {
      const hash = fromHex(shelf.catalogue);
      fresh.set(shelf.catalogue, await checkHash(await this.proxy.fetchCatalogue(hash), hash));
    }
    return shelf;
  }

  /**
   * Fetch the shelf while its owner has not accepted new terms: lists must not have withdrawn
   * items.
   */
  async #refreshShelf(settings: Settings, names: readonly string[]): Promise<void> {
    const fresh = new Map<string, Uint8Array>();
    try {
      const shelf = await this.#fetchShelf(fromHex(settings.trusted), settings, names, fresh);
      const content = fresh.get(shelf.catalogue);
      if (content !== undefined) decodeCatalogue(content);
      const last = await this.store.readManifest();
      if (last !== null && (shelf.hash !== settings.shelf?.hash || fresh.size > 0)) {
        await this.store.storeShelf(last, shelf, fresh);
      }
    } catch (error) {
      if (!(error instanceof UntrustedError)) throw error; // the owner must see the error about the terms
    }
  }

  async #fetchFile(
    manifest: Manifest,
    hash: Uint8Array,
    fresh: Map<string, Uint8Array>,
  ): Promise<Uint8Array> {
    const isModel = isEqual(hash, manifest.model); // else it is the catalogue of the manifest or of the shelf
    const maxBytes = computeMaxModelBytes(manifest.items, manifest.terms.factors);
    const content = isModel
      ? this.proxy.fetchModel(hash, maxBytes)
      : this.proxy.fetchCatalogue(hash);
    fresh.set(toHex(hash), await checkHash(await content, hash));
    return content;
  }

  /** Check everything about the files, once for each release, so that no later reader can fail. */
  async #checkContents(
    manifest: Manifest,
    shelf: Shelf,
    fresh: Map<string, Uint8Array>,
    at: Instant,
  ): Promise<void> {
    if (manifest.publicKey !== null) await checkPublicKey(manifest.publicKey);
    const { model, catalogue, items, terms } = manifest;
    const shape = [items, terms.factors, terms.mostItems];
    const name = [toHex(model), toHex(catalogue), shelf.catalogue, ...shape].join(" ");
    if (name === this.#checkedFiles) return;
    this.workEnds = at.now + computeLead(manifest);
    const loadContent = async (hash: Uint8Array) =>
      fresh.get(toHex(hash)) ??
      (await this.store.readFile(hash)) ??
      this.#fetchFile(manifest, hash, fresh); // the stored file is damaged
    checkItems(await loadContent(model), items, terms.factors);
    decodeCatalogueFor(manifest, await loadContent(catalogue));
    const listed = fromHex(shelf.catalogue);
    checkShelfSize(decodeCatalogue(await loadContent(listed)), terms);
    this.#checkedFiles = name;
  }
}

function isSameTerms(one: Terms | null, other: Terms): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Refuse an older manifest, a second one of its epoch, and worse terms than were accepted. */
function checkAgainst(stored: Settings, signed: SignedManifest, trusted: string): void {
  if (![trusted, toHex(signed.key)].includes(stored.trusted)) {
    throw new StoreError("Another tab has stored a newer key meanwhile; fetch the manifest again.");
  }
  checkOrder(stored.newest, signed);
  checkTerms(stored.terms, signed.manifest.terms);
}

/** Check that epochs never go back, and that each has one manifest. */
function checkOrder(newest: Settings["newest"], signed: SignedManifest): void {
  const { epoch } = signed.manifest;
  if (newest !== null && epoch < newest.epoch) {
    throw new UntrustedError(
      `this manifest is of epoch ${epoch}, but epoch ${newest.epoch} was seen before: ` +
        "the proxy serves old manifests. No report is made",
    );
  }
  checkSingle(newest, signed);
}

function checkSingle(newest: Settings["newest"], signed: SignedManifest): void {
  if (signed.manifest.epoch === newest?.epoch && toHex(signed.hash) !== newest.hash) {
    throw new UntrustedError(
      `there are two different manifests of epoch ${newest.epoch}, both signed: the server does ` +
        "not publish the same for everybody. No report is made",
    );
  }
}

/** Check that a manifest is of the requested epoch: its signature alone does not prove that. */
function checkRequestedEpoch(
  epoch: number,
  signed: SignedManifest,
  newest: Settings["newest"],
): void {
  if (signed.manifest.epoch !== epoch) {
    throw new UntrustedError(
      `the manifest of epoch ${epoch} was requested, but the proxy sent the one of epoch ` +
        `${signed.manifest.epoch}`,
    );
  }
  checkSingle(newest, signed);
}

function decodeRelease(manifest: Manifest, content: Uint8Array): PastRelease {
  return { manifest, V: decodeItems(content, manifest.items, manifest.terms.factors) };
}

async function checkHash(content: Uint8Array, hash: Uint8Array): Promise<Uint8Array> {
  if (!isEqual(await hashSha256(content), hash)) {
    throw new UntrustedError(
      `the bytes from the proxy are not the file ${toHex(hash)} that the server signed; no ` +
        "report is made",
    );
  }
  return content;
}
