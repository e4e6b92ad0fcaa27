/**
 * What the owner touched, and all that is computed from it or takes time. It runs in a worker of its own
 * that asks nobody for anything (`workers`): however long it takes, no request waits for it.
 */

import { epochsOf, judged } from "./agreement.js";
import { makeBatch } from "./batch.js";
import { equal, toHex } from "./bytes.js";
import type { Item } from "./catalogue.js";
import { type Entropy, systemEntropy, systemWords, type Words } from "./coin.js";
import { Database, type State } from "./database.js";
import { asksForReports, type Manifest, type Terms } from "./epoch.js";
import { SettingsError, StoreError } from "./errors.js";
import type { Budget, Charge } from "./ledger.js";
import { budgetOf } from "./ledger.js";
import { checkedItems } from "./options.js";
import { type EpochState, type LeftDevice, Outbox } from "./outbox.js";
import { type Offer, offerOf, type Short, shortOf } from "./promise.js";
import { popular, type Recommendation, recommendations } from "./recommending.js";
import { Reading, type Release } from "./release.js";
import { systemTimer, type Timer } from "./schedule.js";
import { listedCatalogue } from "./shelf.js";
import { Store } from "./store.js";
import type { Job } from "./syncing.js";
import type { Plan } from "./timing.js";

export interface HistoryOptions {
  /** Of the database. */
  name: string;
  words?: Words;
  entropy?: Entropy;
  timer?: Pick<Timer, "clock" | "now" | "sleep">;
  indexedDB?: IDBFactory;
}

/** One database of this browser, opened for what is in it of its owner. */
export class History {
  readonly #store: Store;
  readonly #outbox: Outbox;
  readonly #reading: Reading;
  readonly #offers = new Map<string, Offer>();

  private constructor(
    private readonly database: Database,
    private readonly coins: { words: Words; entropy: Entropy },
    private readonly timer: Pick<Timer, "clock" | "now" | "sleep">,
  ) {
    this.#store = new Store(database);
    this.#outbox = new Outbox(database);
    this.#reading = new Reading(this.#store);
  }

  static async open(options: HistoryOptions): Promise<History> {
    const { words = systemWords, entropy = systemEntropy } = options;
    const timer = options.timer ?? systemTimer;
    const database = await Database.open(options.name, options.indexedDB ?? globalThis.indexedDB);
    return new History(database, { words, entropy }, timer);
  }

  /** Remember these, all of them or nothing; how many were new. */
  async record(ids: readonly string[]): Promise<number> {
    return this.#store.add(checkedItems(ids));
  }

  /** Forget some; how many were there. */
  async remove(ids: readonly string[]): Promise<number> {
    return this.#store.remove(checkedItems(ids));
  }

  /** All of them, in the order of recording; one that no catalogue knows has its id as its title. */
  async touched(): Promise<readonly TouchedItem[]> {
    const catalogue = (await this.#reading.release())?.catalogue;
    return [...(await this.#store.touched()).keys()].map((id) => {
      const row = catalogue?.numbers.get(id);
      const item = row === undefined ? undefined : catalogue?.items[row];
      return item === undefined
        ? { id, title: id, tags: {}, isKnown: false }
        : { ...item, isKnown: true };
    });
  }

  /** The n best items that were not touched, each with its reasons; or by tags alone. */
  async recommend(n: number, byTagsAlone = false): Promise<Recommendation[]> {
    const held = await this.#held();
    const release = byTagsAlone ? { ...held, wide: held.tagsAlone } : held;
    return recommendations(release, await this.#store.touched(), counted(n));
  }

  /** The n items that most people touch, as the model knows it. */
  async popular(n: number): Promise<Item[]> {
    return popular(await this.#held(), counted(n));
  }

  /** Where the client stands, and what worse terms would mean that somebody asks for. */
  async standing(asked: Terms | null): Promise<Standing> {
    const [store, outbox] = [this.#store, this.#outbox];
    const settings = await store.settings();
    const charges = await outbox.charges();
    const manifest = (await store.signed())?.manifest ?? null;
    return {
      ...budgetOf(settings.limit, charges),
      proxy: settings.proxy,
      manifest,
      catalogue: manifest && settings.shelf && toHex(listedCatalogue(manifest, settings.shelf)),
      offer: manifest && this.#offer(settings.terms ?? manifest.terms, charges),
      asked: asked && this.#offer(asked, charges),
      epoch: settings.newest?.epoch ?? null,
      terms: settings.terms,
      epochs: settings.terms === null ? 0 : epochsOf(settings.terms, charges),
      charges,
      plan: await outbox.lastPlan(),
      paused: settings.paused,
      batches: await outbox.counts(),
      lastBatch: await outbox.lastBatch(),
    };
  }

  /** What the owner is asked who would accept these terms, as far as the limit goes. */
  async short(terms: Terms): Promise<Short> {
    const { limit } = await this.#store.settings();
    return shortOf(terms, await this.#outbox.charges(), limit);
  }

  /** A promise takes some tenths of a second: worked out once for the same terms and charges. */
  #offer(terms: Terms, charges: readonly Charge[]): Offer {
    const name = JSON.stringify([terms, charges.map(({ purpose }) => purpose)]);
    const offer = this.#offers.get(name) ?? offerOf(terms, charges);
    if (this.#offers.size >= MOST_OFFERS) this.#offers.clear();
    this.#offers.set(name, offer);
    return offer;
  }

  /** Everything that there is, in the order of the model's rows. */
  async catalogue(): Promise<readonly Item[]> {
    return (await this.#held()).catalogue.items;
  }

  /**
   * Make the batch of an epoch and keep it with its charge, if nothing speaks against it. What it is
   * made of is read after the generation: if that is another one by then, it is made anew.
   *
   * It is paid for shortly before it leaves: a visit that ends before that has cost nothing, however
   * quickly it was made.
   */
  async make({ hash, now, sendAt }: Job): Promise<void> {
    const begun = this.timer.now(); // by the clock that nobody sets
    const release = await this.#reading.reportable();
    if (release === null || !equal(release.signed.hash, hash)) return;
    const { manifest } = release.signed;
    // As it was decided, and not too late by now: else it would be paid for and not counted.
    const stands = (standing: EpochState) =>
      judged(standing, manifest, now) === "make it" &&
      standing.settings.newest?.hash === toHex(hash) &&
      asksForReports(manifest, this.timer.clock());
    for (;;) {
      const standing = await this.#outbox.standing(manifest.epoch);
      if (!stands(standing)) return;
      const token = manifest.terms.accounts ? standing.token : undefined;
      if (token?.output === null) return; // the page is still at it: at the next look
      const touched = (await this.#store.touched()).keys();
      const own = { touched, generation: standing.settings.generation, token };
      const made = await makeBatch(release, own, sendAt, this.coins);
      await this.timer.sleep(Math.max(sendAt - now - KEEP - (this.timer.now() - begun), 0));
      if (await this.#outbox.keep(made, stands)) return;
    }
  }

  close(): void {
    this.database.close();
  }

  async #held(): Promise<Release> {
    const release = await this.#reading.release();
    if (release === null) {
      throw new StoreError("There is no model in this browser yet.");
    }
    return release;
  }
}

export interface TouchedItem extends Item {
  /** Whether it is in the catalogue; if not it is kept, since a later one may know it. */
  readonly isKnown: boolean;
}

/** Each has its reasons, which take time. */
const MOST_LISTED = 1000;

function counted(n: number): number {
  if (!(Number.isSafeInteger(n) && n >= 1 && n <= MOST_LISTED)) {
    throw new SettingsError(`n must be a whole number in 1..${MOST_LISTED}, not ${n}`);
  }
  return n;
}

export interface Standing extends Budget {
  readonly proxy: string;
  /** The one that holds; null before the first and after `forget`. */
  readonly manifest: Manifest | null;
  /** The hash of the catalogue that lists are made from; null as the manifest. */
  readonly catalogue: string | null;
  /** What the owner accepted, or is asked to accept; null before there is a model. */
  readonly offer: Offer | null;
  /** The worse terms that were asked about, and wait for a yes; null where there are none. */
  readonly asked: Offer | null;
  /** Of the last manifest accepted; null before the first. */
  readonly epoch: number | null;
  /** What its owner accepted; null before. */
  readonly terms: Terms | null;
  /** In how many epochs of their training the device took part; 0 before there are terms. */
  readonly epochs: number;
  /** Everything that was ever charged, in any order. */
  readonly charges: readonly Charge[];
  /** What its coins said of the last epoch in which it could take part; null before. */
  readonly plan: Plan | null;
  readonly paused: boolean;
  /** How many, by what became of them. */
  readonly batches: Readonly<Record<State, number>>;
  /** The last batch that was made, bit for bit, as the owner may see it; null if there is none. */
  readonly lastBatch: LeftDevice | null;
}

const MOST_OFFERS = 4;
/** Seconds for a disk that is slow, before a batch leaves. */
const KEEP = 2;
