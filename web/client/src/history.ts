/**
 * The history of the owner, and every computation that reads it.
 *
 * This code runs in the workers `history` and `batches`, which make no requests (see `workers`). So
 * no request waits for these computations.
 */

import { countEpochs, judge } from "./agreement.js";
import { makeBatch } from "./batch.js";
import { isEqual, toHex } from "./bytes.js";
import type { Item } from "./catalogue.js";
import { drawSystemEntropy, drawSystemWords, type Entropy, type Words } from "./coin.js";
import { type BatchState, Database } from "./database.js";
import { isOpen, type Manifest, needsConsent, type Terms } from "./epoch.js";
import { SettingsError, StoreError } from "./errors.js";
import type { Budget, Charge } from "./ledger.js";
import { computeBudget } from "./ledger.js";
import { checkIds } from "./options.js";
import { type EpochState, type LeftDevice, Outbox } from "./outbox.js";
import { computeSummary, createOffer, type Offer, type PromiseSummary } from "./promise.js";
import {
  listPopular,
  listSimilar,
  type Recommendation,
  recommend,
  scoreItems,
} from "./recommending.js";
import { type Release, ReleaseReader } from "./release.js";
import { findListedCatalogue } from "./shelf.js";
import { Store } from "./store.js";
import type { Job } from "./syncing.js";
import { listWorse } from "./terms.js";
import { systemTimer, type Timer } from "./timer.js";
import type { Plan } from "./timing.js";

/** The options of `History.open`. */
export interface HistoryOptions {
  /** Name of the database. */
  name: string;
  words?: Words;
  entropy?: Entropy;
  timer?: Pick<Timer, "clock" | "now" | "sleep">;
  indexedDB?: IDBFactory;
}

/** A client's database in this browser, opened to read the owner's history. */
export class History {
  readonly #store: Store;
  readonly #outbox: Outbox;
  readonly #reading: ReleaseReader;
  readonly #offers = new Map<string, Offer>();

  private constructor(
    private readonly database: Database,
    private readonly coins: { words: Words; entropy: Entropy },
    private readonly timer: Pick<Timer, "clock" | "now" | "sleep">,
  ) {
    this.#store = new Store(database);
    this.#outbox = new Outbox(database);
    this.#reading = new ReleaseReader(this.#store);
  }

  static async open(options: HistoryOptions): Promise<History> {
    const { words = drawSystemWords, entropy = drawSystemEntropy } = options;
    const timer = options.timer ?? systemTimer;
    const database = await Database.open(options.name, options.indexedDB ?? globalThis.indexedDB);
    return new History(database, { words, entropy }, timer);
  }

  /** Add all of these items to the history in one transaction. Return how many were new. */
  async record(ids: readonly string[], isOrdered = true): Promise<number> {
    return this.#store.addItems(checkIds(ids), isOrdered);
  }

  /** Remove items from the history. Return how many of them were in it. */
  async remove(ids: readonly string[]): Promise<number> {
    return this.#store.removeItems(checkIds(ids));
  }

  /**
   * Return all items of the history in the order of recording. The title of an item that is not in
   * the current catalogue is its id.
   */
  async listTouched(): Promise<readonly TouchedItem[]> {
    const catalogue = (await this.#reading.readRelease())?.catalogue;
    return [...(await this.#store.readHistory()).keys()].map((id) => {
      const row = catalogue?.rowsById.get(id);
      const item = row === undefined ? undefined : catalogue?.items[row];
      return item === undefined
        ? { id, title: id, tags: {}, isKnown: false }
        : { ...item, isKnown: true };
    });
  }

  /**
   * Return the n best items that are not in the history, each with its reasons.
   *
   * With `tagsOnly` the list comes from the tags alone, without the factors of the model.
   */
  async recommend(n: number, tagsOnly = false): Promise<Recommendation[]> {
    const current = await this.#requireRelease();
    const release = tagsOnly ? { ...current, wide: current.tagsOnly } : current;
    return recommend(release, await this.#store.readHistory(), checkCount(n));
  }

  /** Return the n items that most people touch, as the model estimates it. */
  async listPopular(n: number): Promise<Item[]> {
    return listPopular(await this.#requireRelease(), checkCount(n));
  }

  /** Return the n items that are most like one item. The list does not depend on the history. */
  async listSimilar(id: string, n: number): Promise<Recommendation[]> {
    return listSimilar(await this.#requireRelease(), id, checkCount(n));
  }

  /** Return the scores of items for the owner; null for an item that the catalogue lacks. */
  async score(ids: readonly string[]): Promise<(number | null)[]> {
    const release = await this.#requireRelease();
    return scoreItems(release, await this.#store.readHistory(), checkIds(ids));
  }

  /**
   * Return the state of the client, including an offer for worse terms that the server asks for.
   */
  async getStatus(): Promise<ClientStatus> {
    const [store, outbox] = [this.#store, this.#outbox];
    const settings = await store.readSettings();
    const charges = await outbox.listCharges();
    const manifest = (await store.readManifest())?.manifest ?? null;
    const { terms, asked } = settings;
    const worse = terms && asked ? listWorse(terms, asked) : [];
    const offered = terms ?? (manifest && needsConsent(manifest) ? manifest.terms : null);
    return {
      ...computeBudget(settings.limit, charges),
      proxy: settings.proxy,
      manifest,
      catalogue: manifest && settings.shelf && toHex(findListedCatalogue(manifest, settings.shelf)),
      offer: manifest && offered && this.#computeOffer(offered, charges),
      newOffer: asked && worse.length > 0 ? this.#computeOffer(asked, charges) : null,
      worse,
      epoch: settings.newest?.epoch ?? null,
      terms,
      epochs: terms === null ? 0 : countEpochs(terms, charges),
      charges,
      plan: await outbox.readLastPlan(),
      paused: settings.paused,
      batches: await outbox.countBatches(),
      lastBatch: await outbox.readLastBatch(),
    };
  }

  /** Return the figures for the question of consent, for these terms and this limit of epsilon. */
  async summarize(terms: Terms, limit: number): Promise<PromiseSummary> {
    const { charges, waiting } = await this.#outbox.readState(0); // they are the same for any epoch
    const charge = charges.find(({ purpose }) => purpose === waiting?.purpose);
    return computeSummary(terms, charges, limit, { waiting: charge?.reports ?? 0 });
  }

  /**
   * Return an offer. Computing one takes some tenths of a second, so offers are cached by terms and
   * charges.
   */
  #computeOffer(terms: Terms, charges: readonly Charge[]): Offer {
    const cacheKey = JSON.stringify([terms, charges.map(({ purpose }) => purpose)]);
    const offer = this.#offers.get(cacheKey) ?? createOffer(terms, charges);
    if (this.#offers.size >= MAX_CACHED_OFFERS) this.#offers.clear();
    this.#offers.set(cacheKey, offer);
    return offer;
  }

  /** Return all items, in the order of the model's rows. */
  async listItems(): Promise<readonly Item[]> {
    return (await this.#requireRelease()).catalogue.items;
  }

  /**
   * Make the batch of an epoch, and store it together with its charge if the owner and the ledger
   * allow it.
   *
   * The history is read after the generation of the settings. If `forget` changes the generation
   * meanwhile, the batch is made again from the new history. The batch and its charge are stored
   * only shortly before the batch is sent: a visit that ends earlier costs nothing, even if the
   * batch was ready long before.
   */
  async make({ hash, now, sendAt }: Job): Promise<void> {
    const startTime = this.timer.now(); // monotonic: changes of the system clock have no effect
    const release = await this.#reading.readReportable();
    if (release === null || !isEqual(release.signed.hash, hash)) return;
    const { manifest } = release.signed;
    // Check again before storing: without this, a batch could be charged for an epoch that is over,
    // and would never be counted.
    const isAllowed = (state: EpochState) =>
      judge(state, manifest, now) === "make it" &&
      state.settings.newest?.hash === toHex(hash) &&
      isOpen(manifest, this.timer.clock());
    for (;;) {
      const state = await this.#outbox.readState(manifest.epoch);
      if (!isAllowed(state)) return;
      const token = manifest.terms.accounts ? state.token : undefined;
      if (token?.output === null) return; // the page is still making the token; the next look tries again
      const touched = await this.#store.readHistory();
      const own = { touched, generation: state.settings.generation, token };
      const sealed = await makeBatch(release, own, sendAt, this.coins);
      await this.timer.sleep(
        Math.max(sendAt - now - STORE_LEAD_SECONDS - (this.timer.now() - startTime), 0),
      );
      if (await this.#outbox.keep(sealed, isAllowed)) return;
    }
  }

  close(): void {
    this.database.close();
  }

  async #requireRelease(): Promise<Release> {
    const release = await this.#reading.readRelease();
    if (release === null) {
      throw new StoreError("there is no model yet; wait for one");
    }
    return release;
  }
}

/** An item of the history. */
export interface TouchedItem extends Item {
  /**
   * Whether the item is in the current catalogue. Unknown items stay in the history, because a
   * later catalogue may contain them.
   */
  readonly isKnown: boolean;
}

/** Largest list that can be requested. Computing the reasons of an item takes time. */
const MAX_LIST_ITEMS = 1000;

function checkCount(n: number): number {
  if (!(Number.isSafeInteger(n) && n >= 1 && n <= MAX_LIST_ITEMS)) {
    throw new SettingsError(`n must be a whole number in 1..${MAX_LIST_ITEMS}, not ${n}`);
  }
  return n;
}

/** The state of a client. */
export interface ClientStatus extends Budget {
  readonly proxy: string;
  /** The current manifest; null before the first one and after `forget`. */
  readonly manifest: Manifest | null;
  /** Hash of the catalogue from which lists are made; null without a manifest. */
  readonly catalogue: string | null;
  /**
   * Offer of the terms that the owner accepted or, before that, of the current manifest. Null
   * without a manifest, and where nothing is asked of an owner who has accepted nothing.
   */
  readonly offer: Offer | null;
  /** Offer of worse terms that the owner has not accepted yet, or null. */
  readonly newOffer: Offer | null;
  /** Every way in which the terms of `newOffer` are worse, in plain words. */
  readonly worse: readonly string[];
  /** Epoch of the last accepted manifest; null before the first one. */
  readonly epoch: number | null;
  /** Terms that the owner accepted; null if there are none. */
  readonly terms: Terms | null;
  /**
   * Number of epochs in which the device took part, in the training of the accepted terms; 0 if
   * there are none.
   */
  readonly epochs: number;
  /** All charges of the ledger, in any order. */
  readonly charges: readonly Charge[];
  /** Plan of the latest epoch for which one was drawn; null before the first. */
  readonly plan: Plan | null;
  readonly paused: boolean;
  /** Number of batches by state. */
  readonly batches: Readonly<Record<BatchState, number>>;
  /** The last batch that was made, in readable form and as bytes; null if there is none. */
  readonly lastBatch: LeftDevice | null;
}

const MAX_CACHED_OFFERS = 4;
/** Seconds before the moment of sending at which a batch is stored: enough for a slow disk. */
const STORE_LEAD_SECONDS = 2;
