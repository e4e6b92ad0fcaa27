/** Fetches a release of the model, and believes it only if everything about it holds. */

import { checkTerms } from "./agreement.js";
import { checkPublicKey } from "./batch.js";
import { equal, fromHex, sha256, toHex } from "./bytes.js";
import { decodeCatalogue } from "./catalogue.js";
import type { BatchRow, Settings } from "./database.js";
import type { Manifest, SignedManifest } from "./epoch.js";
import {
  RefusedError,
  type SottovoceError,
  StoreError,
  TermsError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
import { openManifest } from "./manifest.js";
import { checkItems, decodeItems, type Matrix, modelSize } from "./model.js";
import type { HttpProxy } from "./proxy.js";
import { catalogueFor } from "./release.js";
import { checkShelf, checkShelved, openShelf, type Shelf } from "./shelf.js";
import type { Store } from "./store.js";
import { lead } from "./timing.js";

/** What is known before the proxy is asked, so that between two requests no disk is waited for. */
export interface Known {
  readonly settings: Settings;
  /** The hashes of the files that are here. */
  readonly names: readonly string[];
  /** A batch of any epoch that has neither arrived nor been given up. */
  readonly waiting: BatchRow | undefined;
}

/** A manifest that was believed, and when the last answer to do with it arrived, by both clocks. */
export interface Fetched {
  readonly signed: SignedManifest;
  readonly at: Instant;
  /** Why the proxy would take no batch now; null if it would. */
  readonly untaken: SottovoceError | null;
}

export interface Instant {
  /** Unix seconds. */
  readonly clock: number;
  /** By the clock that nobody sets. */
  readonly now: number;
}

export interface News {
  readonly manifest: Manifest;
  readonly at: Instant;
}

export interface PastRelease {
  readonly manifest: Manifest;
  readonly V: Matrix;
}

export class Fetching {
  /** The files that were checked last, and the shape that they had to have. */
  #checked = "";
  /** The last manifest that was believed, and when the last answer to do with it arrived. */
  newest: News | null = null;
  /** Until when the work on the last new files takes at most, by the clock that nobody sets. */
  workEnds = 0;

  constructor(
    private readonly store: Store,
    private readonly proxy: HttpProxy,
    private readonly instant: () => Instant,
  ) {}

  /** Fetch what is current; an error means that nothing was stored. */
  async refresh({ settings, names }: Known): Promise<Fetched> {
    const signed = await openManifest(await this.proxy.manifest(), fromHex(settings.trusted));
    const { manifest } = signed;
    const check = (known: Settings) => checkAgainst(known, signed, settings.trusted);
    const fresh = new Map<string, Uint8Array>();
    try {
      check(settings); // before anything more is fetched, and once more when it is stored
    } catch (error) {
      if (error instanceof TermsError) await this.#refreshShelf(settings, names);
      throw error;
    }
    for (const hash of [manifest.model, manifest.catalogue]) {
      if (!names.includes(toHex(hash))) await this.#fetch(manifest, hash, fresh);
    }
    const shelf = await this.#shelf(signed.key, settings, names, fresh);
    const untaken = await this.#untaken(signed.hash);
    const at = this.instant(); // before any work that a disk or another thread could hold up
    await this.#checkContents(manifest, shelf, fresh, at);
    const isKnown =
      settings.newest?.hash === toHex(signed.hash) && settings.shelf?.hash === shelf.hash;
    if (fresh.size > 0 || !isKnown || settings.trusted !== toHex(signed.key)) {
      await this.store.keepRelease(signed, shelf, fresh, (known) => {
        check(known);
        checkShelf(known.shelf, shelf);
      });
    }
    this.newest = { manifest, at };
    return { signed, at, untaken };
  }

  /** The model of the present epoch, from the disk alone; null if it is not there. */
  async present(): Promise<PastRelease | null> {
    const signed = await this.store.signed();
    const content = signed && (await this.store.file(signed.manifest.model));
    return signed && content && decoded(signed.manifest, content);
  }

  /**
   * The model of an earlier epoch, as signed; null if the proxy has it no more. It is not stored.
   * `settings` were read before: between two requests no disk is waited for.
   */
  async release(epoch: number, settings: Settings): Promise<PastRelease | null> {
    const raw = await this.proxy.manifestOf(epoch);
    if (raw === null) {
      return null;
    }
    // From the first pinned key on: an old manifest knows nothing of the keys that came after it.
    const signed = await openManifest(raw, fromHex(settings.key));
    checkAsked(epoch, signed, settings.newest);
    const { model, items: rows, terms } = signed.manifest;
    const content = await this.proxy.modelOf(model, modelSize(rows, terms.factors));
    if (content === null) {
      return null;
    }
    return decoded(signed.manifest, await checked(content, model));
  }

  /** Asked with every look, whether this device may report or not: nobody pays in vain. */
  async #untaken(manifest: Uint8Array): Promise<SottovoceError | null> {
    try {
      await this.proxy.checkTaken(manifest);
      return null;
    } catch (error) {
      if (error instanceof UnavailableError || error instanceof RefusedError) return error;
      throw error;
    }
  }

  /** The shelf beside a manifest that this key has signed, and its catalogue if it is not here. */
  async #shelf(
    key: Uint8Array,
    settings: Settings,
    names: readonly string[],
    fresh: Map<string, Uint8Array>,
  ): Promise<Shelf> {
    const shelf = await openShelf(await this.proxy.shelf(), key);
    checkShelf(settings.shelf, shelf);
    if (!names.includes(shelf.catalogue) && !fresh.has(shelf.catalogue)) {
      const hash = fromHex(shelf.catalogue);
      fresh.set(shelf.catalogue, await checked(await this.proxy.catalogue(hash), hash));
    }
    return shelf;
  }

  /** Whatever its owner agrees to, a list has no item that was withdrawn. */
  async #refreshShelf(settings: Settings, names: readonly string[]): Promise<void> {
    const fresh = new Map<string, Uint8Array>();
    try {
      const shelf = await this.#shelf(fromHex(settings.trusted), settings, names, fresh);
      const content = fresh.get(shelf.catalogue);
      if (content !== undefined) decodeCatalogue(content);
      const last = await this.store.signed();
      if (last !== null && (shelf.hash !== settings.shelf?.hash || fresh.size > 0)) {
        await this.store.keepShelf(last, shelf, fresh);
      }
    } catch (error) {
      if (!(error instanceof UntrustedError)) throw error; // the terms are what its owner must hear of
    }
  }

  async #fetch(
    manifest: Manifest,
    hash: Uint8Array,
    fresh: Map<string, Uint8Array>,
  ): Promise<Uint8Array> {
    const isModel = equal(hash, manifest.model); // else a catalogue: its own, or the shelf's
    const most = modelSize(manifest.items, manifest.terms.factors);
    const content = isModel ? this.proxy.model(hash, most) : this.proxy.catalogue(hash);
    fresh.set(toHex(hash), await checked(await content, hash));
    return content;
  }

  /** All that can be wrong with them, whoever reads them later: decided here, once for each. */
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
    if (name === this.#checked) return;
    this.workEnds = at.now + lead(manifest);
    const content = async (hash: Uint8Array) =>
      fresh.get(toHex(hash)) ?? (await this.store.file(hash)) ?? this.#fetch(manifest, hash, fresh); // one that the disk has spoilt
    checkItems(await content(model), items, terms.factors);
    catalogueFor(manifest, await content(catalogue));
    const listed = fromHex(shelf.catalogue);
    checkShelved(decodeCatalogue(await content(listed)), terms);
    this.#checked = name;
  }
}

/** Refuses an older manifest, a second one of its epoch, and worse terms than were accepted. */
function checkAgainst(known: Settings, signed: SignedManifest, trusted: string): void {
  if (![trusted, toHex(signed.key)].includes(known.trusted)) {
    throw new StoreError("Another tab has learnt of a newer key in the meantime; fetch it again.");
  }
  checkOrder(known.newest, signed);
  checkTerms(known.terms, signed.manifest.terms);
}

/** Epochs never go back, and everybody is told the same about each. */
function checkOrder(newest: Settings["newest"], signed: SignedManifest): void {
  const { epoch } = signed.manifest;
  if (newest !== null && epoch < newest.epoch) {
    throw new UntrustedError(
      `this manifest is of epoch ${epoch}, but epoch ${newest.epoch} was seen already; somebody ` +
        "serves old ones. No report is made of it",
    );
  }
  checkOnly(newest, signed);
}

function checkOnly(newest: Settings["newest"], signed: SignedManifest): void {
  if (signed.manifest.epoch === newest?.epoch && toHex(signed.hash) !== newest.hash) {
    throw new UntrustedError(
      `there are two different manifests of epoch ${newest.epoch}, both signed: the server does ` +
        "not tell everybody the same. No report is made of it",
    );
  }
}

/** A signature alone does not say that this is the epoch that was asked for. */
function checkAsked(epoch: number, signed: SignedManifest, newest: Settings["newest"]): void {
  if (signed.manifest.epoch !== epoch) {
    throw new UntrustedError(
      `the manifest of epoch ${epoch} was asked for, and that of epoch ${signed.manifest.epoch} ` +
        "came; somebody serves the wrong ones",
    );
  }
  checkOnly(newest, signed);
}

function decoded(manifest: Manifest, content: Uint8Array): PastRelease {
  return { manifest, V: decodeItems(content, manifest.items, manifest.terms.factors) };
}

async function checked(content: Uint8Array, hash: Uint8Array): Promise<Uint8Array> {
  if (!equal(await sha256(content), hash)) {
    throw new UntrustedError(
      `the proxy gave other bytes than the file ${toHex(hash)} that the server signed; no ` +
        "report is made of it",
    );
  }
  return content;
}
