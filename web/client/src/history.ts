/**
 * What the owner touched, and everything that is computed from it or takes time.
 *
 * It runs in a worker of its own that makes no requests (`workers`): however long it takes, no
 * request waits for it.
 */

import { countEpochs, judge } from "./agreement.js";
import { makeBatch } from "./batch.js";
import { isEqual, toHex } from "./bytes.js";
import type { Item } from "./catalogue.js";
import { drawSystemEntropy, drawSystemWords, type Entropy, type Words } from "./coin.js";
import { type BatchState, Database } from "./database.js";
import { isOpen, type Manifest, type Terms } from "./epoch.js";
import { SettingsError, StoreError } from "./errors.js";
import type { Budget, Charge } from "./ledger.js";
import { computeBudget } from "./ledger.js";
import { checkIds } from "./options.js";
import { type EpochState, type LeftDevice, Outbox } from "./outbox.js";
import { computeSummary, createOffer, type Offer, type PromiseSummary } from "./promise.js";
import { listPopular, type Recommendation, recommend } from "./recommending.js";
import { type Release, ReleaseReader } from "./release.js";
import { findListedCatalogue } from "./shelf.js";
import { Store } from "./store.js";
import type { Job } from "./syncing.js";
import { listWorse } from "./terms.js";
import { systemTimer, type Timer } from "./timer.js";
import type { Plan } from "./timing.js";

/** What the side that reads the history is opened with. */
export interface HistoryOptions {
  /** Name of the database. */
  name: string;
  words?: Words;
  entropy?: Entropy;
  timer?: Pick<Timer, "clock" | "now" | "sleep">;
  indexedDB?: IDBFactory;
}

/** One database of this browser, opened to read its owner's history. */
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

  /** Add items to the history, all or nothing, and return how many were new. */
  async record(ids: readonly string[]): Promise<number> {
    return this.#store.addItems(checkIds(ids));
  }

  /** Remove items from the history, and return how many were there. */
  async remove(ids: readonly string[]): Promise<number> {
    return this.#store.removeItems(checkIds(ids));
  }

  /**
   * Return all items in the order of recording; one that no catalogue has gets its id as its title.
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

  /** Return the n best items that were not touched, each with its reasons; or by tags alone. */
  async recommend(n: number, tagsOnly = false): Promise<Recommendation[]> {
    const current = await this.#requireRelease();
    const release = tagsOnly ? { ...current, wide: current.wideWithoutReports } : current;
    return recommend(release, await this.#store.readHistory(), checkCount(n));
  }

  /** Return the n items that most people touch, as the model estimates it. */
  async listPopular(n: number): Promise<Item[]> {
    return listPopular(await this.#requireRelease(), checkCount(n));
  }

  /** Return the state of the client, and what worse terms that the server asks for would mean. */
  async getStatus(): Promise<ClientStatus> {
    const [store, outbox] = [this.#store, this.#outbox];
    const settings = await store.readSettings();
    const charges = await outbox.listCharges();
    const manifest = (await store.readManifest())?.manifest ?? null;
    const { terms, asked } = settings;
    const worse = terms && asked ? listWorse(terms, asked) : [];
    return {
      ...computeBudget(settings.limit, charges),
      proxy: settings.proxy,
      manifest,
      catalogue: manifest && settings.shelf && toHex(findListedCatalogue(manifest, settings.shelf)),
      offer: manifest && this.#computeOffer(terms ?? manifest.terms, charges),
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

  /** Return the figures of the consent for these terms, as far as a limit goes. */
  async summarize(terms: Terms, limit: number): Promise<PromiseSummary> {
    return computeSummary(terms, await this.#outbox.listCharges(), limit);
  }

  /** Return an offer. It takes some tenths of a second, so it is cached by terms and charges. */
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
   * Make the batch of an epoch, and store it with its charge if nothing forbids it.
   *
   * The history is read after the generation. If the generation has changed by then, the batch is
   * made again. The charge is made shortly before the batch leaves: a visit that ends earlier has
   * cost nothing, however quickly the batch was ready.
   */
  async make({ hash, now, sendAt }: Job): Promise<void> {
    const startTime = this.timer.now(); // by the clock that nobody can set back
    const release = await this.#reading.readReportable();
    if (release === null || !isEqual(release.signed.hash, hash)) return;
    const { manifest } = release.signed;
    // The decision must still hold, and the epoch must be open: else a batch would be charged and not counted.
    const isAllowed = (state: EpochState) =>
      judge(state, manifest, now) === "make it" &&
      state.settings.newest?.hash === toHex(hash) &&
      isOpen(manifest, this.timer.clock());
    for (;;) {
      const state = await this.#outbox.readState(manifest.epoch);
      if (!isAllowed(state)) return;
      const token = manifest.terms.accounts ? state.token : undefined;
      if (token?.output === null) return; // the page is still making the token: try at the next look
      const touched = (await this.#store.readHistory()).keys();
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
      throw new StoreError("There is no model in this browser yet.");
    }
    return release;
  }
}

/** An item of the history. */
export interface TouchedItem extends Item {
  /** Whether the catalogue has it; if not it stays, since a later one may have it. */
  readonly isKnown: boolean;
}

/** Each item has its reasons, which take time. */
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
  /** Hash of the catalogue that lists are made from; null without a manifest. */
  readonly catalogue: string | null;
  /** What the owner accepted, or is asked to accept; null before there is a model. */
  readonly offer: Offer | null;
  /** An offer with worse terms that waits for a yes, or null. */
  readonly newOffer: Offer | null;
  /** Everything that would be worse about the terms in `newOffer`, in plain words. */
  readonly worse: readonly string[];
  /** Epoch of the last manifest accepted; null before the first. */
  readonly epoch: number | null;
  /** Terms that the owner accepted; null before. */
  readonly terms: Terms | null;
  /** Epochs of their training in which the device took part; 0 before there are terms. */
  readonly epochs: number;
  /** Every charge ever made, in any order. */
  readonly charges: readonly Charge[];
  /** Draws for the last epoch in which it could take part; null before. */
  readonly plan: Plan | null;
  readonly paused: boolean;
  /** Number of batches by state. */
  readonly batches: Readonly<Record<BatchState, number>>;
  /** The last batch that was made, bit for bit, for its owner; null if there is none. */
  readonly lastBatch: LeftDevice | null;
}

const MAX_CACHED_OFFERS = 4;
/** Time for a slow disk, before a batch leaves. */
const STORE_LEAD_SECONDS = 2;
