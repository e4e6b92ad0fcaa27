/** Fetches releases of the model. A release is accepted only if it passes all checks. */

import { checkTerms } from "./agreement.js";
import { fromHex, hashSha256, isEqual, toHex } from "./bytes.js";
import { decodeCatalogue, MAX_CATALOGUE_BYTES } from "./catalogue.js";
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
import { applyPart, choosePart, type PatchPart } from "./patch.js";
import type { HttpProxy } from "./proxy.js";
import { decodeCatalogueFor } from "./release.js";
import { checkPublicKey } from "./sealing.js";
import { checkShelf, checkShelfSize, openShelf, type Shelf } from "./shelf.js";
import type { Store } from "./store.js";
import { computeLead } from "./timing.js";

/**
 * Stored data that is read at the beginning of a look, before the first request.
 *
 * Between two requests nothing may be read or written: the time that this takes could reveal how
 * much is stored.
 */
export interface StoredState {
  readonly settings: Settings;
  /** Hashes of the stored files. */
  readonly files: readonly string[];
  /** The batch that was neither delivered nor dropped, of any epoch. */
  readonly waiting: BatchRow | undefined;
}

/** The result of a look. */
export interface FetchedRelease {
  /** The accepted manifest. */
  readonly signed: SignedManifest;
  /** When the last response of the look arrived. */
  readonly at: Instant;
  /** The error with which the proxy would refuse a batch now; null if it would accept one. */
  readonly refusal: SottovoceError | null;
}

/** One moment, read from both clocks. */
export interface Instant {
  /** Unix seconds of the system clock. */
  readonly clock: number;
  /** Seconds of the monotonic clock, which nobody can set back. */
  readonly now: number;
}

/** A manifest that a look accepted. */
export interface Arrival {
  readonly manifest: Manifest;
  /** When the last response of the look arrived. */
  readonly at: Instant;
}

/** The manifest and the model of an epoch. */
export interface PastRelease {
  readonly manifest: Manifest;
  readonly V: Matrix;
}

/** What a look has fetched: files by hash, and patches from which it makes files afterwards. */
interface Fetched {
  readonly files: Map<string, Uint8Array>;
  readonly patches: Map<string, { hash: Uint8Array; part: PatchPart; modelBytes: number }>;
}

/** Fetches the published files, and stores those that pass all checks. */
export class Fetcher {
  /** Hashes of the files that were checked last, and the shape that was required of them. */
  #checkedFiles = "";
  /** The last accepted manifest; null before the first look. */
  latest: Arrival | null = null;
  /**
   * When the check of the latest new files will certainly be finished, in seconds of the monotonic
   * clock.
   */
  workEnds = 0;

  constructor(
    private readonly store: Store,
    private readonly proxy: HttpProxy,
    private readonly instant: () => Instant,
  ) {}

  /**
   * Fetch the current release, check it and store it. If this throws, neither manifest nor model
   * was stored.
   */
  async refresh(stored: StoredState): Promise<FetchedRelease> {
    const trusted = fromHex(stored.settings.trusted);
    const signed = await openManifest(await this.proxy.fetchManifest(), trusted);
    try {
      return await this.#fetchRelease(signed, stored);
    } catch (error) {
      // Stored only after the last request (see `StoredState`).
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
    const fetched: Fetched = { files: new Map(), patches: new Map() };
    const fresh = fetched.files;
    try {
      check(settings); // checked now, before other files are fetched, and again inside the transaction
    } catch (error) {
      if (error instanceof TermsError) await this.#refreshShelf(settings, files);
      throw error;
    }
    const { model, modelPatch, catalogue, cataloguePatch } = manifest;
    await this.#fetchNewer(model, modelPatch, files, fetched, getModelBytes(manifest));
    await this.#fetchNewer(catalogue, cataloguePatch, files, fetched);
    const shelf = await this.#fetchShelf(signed.key, settings, files, fetched);
    const refusal = await this.#findRefusal(signed.hash);
    const at = this.instant(); // taken before work that the disk or another thread could delay
    await this.#applyPatches(fetched);
    await this.#checkContents(manifest, shelf, fresh, at);
    const isStored =
      settings.newest?.hash === toHex(signed.hash) &&
      settings.shelf?.hash === shelf.hash &&
      isSameTerms(settings.asked, manifest.terms); // another look may have stored other terms
    if (fresh.size > 0 || !isStored || settings.trusted !== toHex(signed.key)) {
      await this.store.storeRelease(signed, shelf, fresh, (stored) => {
        check(stored);
        checkShelf(stored.shelf, shelf);
      });
    }
    this.latest = { manifest, at };
    return { signed, at, refusal };
  }

  /** Return the stored release of the current epoch; null if it is not stored. */
  async loadCurrent(): Promise<PastRelease | null> {
    const signed = await this.store.readManifest();
    const content = signed && (await this.store.readFile(signed.manifest.model));
    return signed && content && decodeRelease(signed.manifest, content);
  }

  /**
   * Fetch the signed release of an earlier epoch; null if the proxy no longer has it. It is not
   * stored.
   *
   * The caller reads `settings` before, so that nothing is read between the two requests.
   */
  async fetchPast(epoch: number, settings: Settings): Promise<PastRelease | null> {
    const raw = await this.proxy.fetchPastManifest(epoch);
    if (raw === null) {
      return null;
    }
    // Follow the key statements from the first pinned key: an old manifest does not contain the
    // statements about later keys.
    const signed = await openManifest(raw, fromHex(settings.key));
    checkRequestedEpoch(epoch, signed, settings.newest);
    const { model } = signed.manifest;
    const content = await this.proxy.fetchPastModel(model, getModelBytes(signed.manifest));
    if (content === null) {
      return null;
    }
    return decodeRelease(signed.manifest, await checkHash(content, model));
  }

  /**
   * Ask the proxy whether it would accept a batch. Return its refusal, or null.
   *
   * Every look asks, whether the device reports or not. So the request reveals nothing, and no
   * batch is charged that the proxy would refuse.
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
   * Fetch the shelf, which must be signed with this key, and its catalogue if that is not stored.
   * `storedHashes` are the hashes of the stored files. What is fetched is added to `fetched`.
   */
  async #fetchShelf(
    key: Uint8Array,
    settings: Settings,
    storedHashes: readonly string[],
    fetched: Fetched,
  ): Promise<Shelf> {
    const shelf = await openShelf(await this.proxy.fetchShelf(), key);
    checkShelf(settings.shelf, shelf);
    await this.#fetchNewer(fromHex(shelf.catalogue), shelf.patch, storedHashes, fetched);
    return shelf;
  }

  /**
   * Fetch the shelf alone, while worse terms wait for the owner's answer. Lists must not contain
   * items that were withdrawn meanwhile.
   */
  async #refreshShelf(settings: Settings, storedHashes: readonly string[]): Promise<void> {
    const fetched: Fetched = { files: new Map(), patches: new Map() };
    const fresh = fetched.files;
    try {
      const trusted = fromHex(settings.trusted);
      const shelf = await this.#fetchShelf(trusted, settings, storedHashes, fetched);
      await this.#applyPatches(fetched);
      const content = fresh.get(shelf.catalogue);
      if (content !== undefined) decodeCatalogue(content);
      const last = await this.store.readManifest();
      if (last !== null && (shelf.hash !== settings.shelf?.hash || fresh.size > 0)) {
        await this.store.storeShelf(last, shelf, fresh);
      }
    } catch (error) {
      if (!(error instanceof UntrustedError)) throw error; // the caller throws the error about the terms, which the owner must see
    }
  }

  /**
   * Fetch a file that is not stored: the patch if one of its bases is stored, otherwise the whole.
   * `modelBytes` is the maximum size of a model, and 0 for a catalogue.
   *
   * What is requested depends only on which published files were fetched before and when, never on
   * a history. All devices that have an earlier file request the same patch. So the proxy learns
   * only whether the stored file is one of the bases, which the server signed.
   */
  async #fetchNewer(
    hash: Uint8Array,
    patch: Uint8Array | null,
    storedHashes: readonly string[],
    fetched: Fetched,
    modelBytes = 0,
  ): Promise<void> {
    const name = toHex(hash);
    const { files, patches } = fetched;
    if (storedHashes.includes(name) || files.has(name) || patches.has(name)) return;
    if (patch && storedHashes.length > 0) {
      const content = await checkHash(await this.proxy.fetchPatch(patch), patch);
      const part = choosePart(content, storedHashes);
      if (part) {
        patches.set(name, { hash, part, modelBytes });
        return;
      }
    }
    await this.#fetchFile(hash, files, modelBytes);
  }

  /**
   * Make the files for which patches were fetched. A file is fetched whole if its patch does not
   * give it, so a wrong patch gains nothing.
   */
  async #applyPatches({ files, patches }: Fetched): Promise<void> {
    for (const [name, { hash, part, modelBytes }] of patches) {
      const base = await this.store.readFile(fromHex(part.base));
      const content = base && applyPart(part, base, modelBytes || MAX_CATALOGUE_BYTES);
      if (content && isEqual(await hashSha256(content), hash)) files.set(name, content);
      else await this.#fetchFile(hash, files, modelBytes);
    }
  }

  async #fetchFile(
    hash: Uint8Array,
    fresh: Map<string, Uint8Array>,
    modelBytes = 0,
  ): Promise<Uint8Array> {
    const content = modelBytes
      ? this.proxy.fetchModel(hash, modelBytes)
      : this.proxy.fetchCatalogue(hash);
    fresh.set(toHex(hash), await checkHash(await content, hash));
    return content;
  }

  /**
   * Check the contents of all files, once for each release. Later readers can then rely on them.
   */
  async #checkContents(
    manifest: Manifest,
    shelf: Shelf,
    fresh: Map<string, Uint8Array>,
    at: Instant,
  ): Promise<void> {
    if (manifest.publicKey !== null) await checkPublicKey(manifest.publicKey);
    const { model, catalogue, items, terms } = manifest;
    const shape = [items, terms.factors, terms.maxItems];
    const name = [toHex(model), toHex(catalogue), shelf.catalogue, ...shape].join(" ");
    if (name === this.#checkedFiles) return;
    this.workEnds = at.now + computeLead(manifest);
    const loadContent = async (hash: Uint8Array, modelBytes = 0) =>
      fresh.get(toHex(hash)) ??
      (await this.store.readFile(hash)) ??
      this.#fetchFile(hash, fresh, modelBytes); // fetch the file again: the stored one is damaged
    checkItems(await loadContent(model, getModelBytes(manifest)), items, terms.factors);
    decodeCatalogueFor(manifest, await loadContent(catalogue));
    const listed = fromHex(shelf.catalogue);
    checkShelfSize(decodeCatalogue(await loadContent(listed)), terms);
    this.#checkedFiles = name;
  }
}

function getModelBytes({ items, terms }: Manifest): number {
  return computeMaxModelBytes(items, terms.factors);
}

function isSameTerms(one: Terms | null, other: Terms): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Check a manifest against the stored settings.
 *
 * Throws if it is older than the newest manifest, if it is another manifest of the same epoch, or
 * if its terms are worse than the accepted ones. Throws also if another tab has stored another key
 * since this look began: `trusted` is the key that was trusted then.
 */
function checkAgainst(stored: Settings, signed: SignedManifest, trusted: string): void {
  if (![trusted, toHex(signed.key)].includes(stored.trusted)) {
    throw new StoreError("another tab has stored a newer key meanwhile; fetch the manifest again");
  }
  checkOrder(stored.newest, signed);
  checkTerms(stored.terms, signed.manifest.terms);
}

/**
 * Check that the epoch is not older than the newest one seen, and that no epoch has two manifests.
 */
function checkOrder(newest: Settings["newest"], signed: SignedManifest): void {
  const { epoch } = signed.manifest;
  if (newest !== null && epoch < newest.epoch) {
    throw new UntrustedError(
      `the manifest is of epoch ${epoch}, but one of epoch ${newest.epoch} was accepted before`,
    );
  }
  checkSingle(newest, signed);
}

function checkSingle(newest: Settings["newest"], signed: SignedManifest): void {
  if (signed.manifest.epoch === newest?.epoch && toHex(signed.hash) !== newest.hash) {
    throw new UntrustedError(
      `the server has signed two different manifests of epoch ${newest.epoch}`,
    );
  }
}

/** Check that a manifest is of the requested epoch. Its signature alone does not prove that. */
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
    throw new UntrustedError(`the file ${toHex(hash)} is not the one that the server signed`);
  }
  return content;
}
