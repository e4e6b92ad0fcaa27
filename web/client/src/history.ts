/**
 * What the owner touched, and all that is computed from it or takes time. It runs in a worker of its own
 * that asks nobody for anything (`workers`): however long it takes, no request waits for it.
 */

import { equal, fromHex, toHex } from "./bytes.js";
import type { Item } from "./catalogue.js";
import { Database } from "./database.js";
import type { Edition } from "./edition.js";
import { SettingsError, StoreError } from "./errors.js";
import { judged } from "./judging.js";
import { asksForReports } from "./manifest.js";
import { checkedItems, systemTimer } from "./options.js";
import { Outbox, type Standing } from "./outbox.js";
import { Reading } from "./reading.js";
import { popular, type Recommendation, recommendations } from "./recommending.js";
import { makeBatch } from "./reporting.js";
import { openManifest } from "./signed.js";
import { type Standing as Stand, Standings } from "./standing.js";
import { Store } from "./store.js";
import type { Job } from "./syncing.js";
import type { Terms } from "./terms.js";
import { type Entropy, systemEntropy, systemWords, type Words } from "./words.js";

/** What a history is opened with. */
export interface HistoryOptions {
  /** Of the database. */
  name: string;
  words?: Words;
  entropy?: Entropy;
  /** Unix seconds. */
  clock?: () => number;
  indexedDB?: IDBFactory;
}

/** One database of this browser, opened for what is in it of its owner. */
export class History {
  readonly #store: Store;
  readonly #outbox: Outbox;
  readonly #reading = new Reading();
  readonly #standings: Standings;

  private constructor(
    private readonly database: Database,
    private readonly coins: { words: Words; entropy: Entropy },
    private readonly clock: () => number,
  ) {
    this.#store = new Store(database);
    this.#outbox = new Outbox(database);
    this.#standings = new Standings(this.#store, this.#outbox);
  }

  static async open(options: HistoryOptions): Promise<History> {
    const { words = systemWords, entropy = systemEntropy } = options;
    const database = await Database.open(options.name, options.indexedDB ?? globalThis.indexedDB);
    return new History(database, { words, entropy }, options.clock ?? systemTimer.clock);
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
    const catalogue = (await this.#edition())?.catalogue;
    return [...(await this.#store.touched()).keys()].map((id) => {
      const row = catalogue?.numbers.get(id);
      const item = row === undefined ? undefined : catalogue?.items[row];
      return item === undefined
        ? { id, title: id, tags: {}, isKnown: false }
        : { ...item, isKnown: true };
    });
  }

  /** The n best items that were not touched, each with its reasons. */
  async recommend(n: number): Promise<Recommendation[]> {
    return recommendations(await this.#held(), await this.#store.touched(), counted(n));
  }

  /** The n items that most people touch, as the model knows it. */
  async popular(n: number): Promise<Item[]> {
    return popular(await this.#held(), counted(n));
  }

  /** Where the client stands, and what worse terms would mean that somebody asks for. */
  standing(asked: Terms | null): Promise<Stand> {
    return this.#standings.now(asked);
  }

  /** Everything that there is, in the order of the model's rows. */
  async catalogue(): Promise<readonly Item[]> {
    return (await this.#held()).catalogue.items;
  }

  /**
   * Make the batch of an epoch and keep it with its charge, if nothing speaks against it. What it is
   * made of is read after the generation: if that is another one by then, it is made anew.
   */
  async make({ hash, now, sendAt }: Job): Promise<void> {
    const edition = await this.#edition();
    if (edition === null || !equal(edition.signed.hash, hash)) return;
    const { manifest } = edition.signed;
    // As it was decided, and not too late by now: else it would be paid for and not counted.
    const stands = (standing: Standing) =>
      judged(standing, manifest, now) === "make it" &&
      standing.settings.newest?.hash === toHex(hash) &&
      asksForReports(manifest, this.clock());
    for (;;) {
      const standing = await this.#outbox.standing(manifest.epoch);
      if (!stands(standing)) return;
      const touched = (await this.#store.touched()).keys();
      const own = { touched, generation: standing.settings.generation };
      const made = await makeBatch(edition, own, sendAt, this.coins);
      if (await this.#outbox.keep(made, stands)) return;
    }
  }

  close(): void {
    this.database.close();
  }

  async #held(): Promise<Edition> {
    const edition = await this.#edition();
    if (edition === null) {
      throw new StoreError("There is no model in this browser yet.");
    }
    return edition;
  }

  /** What was accepted last; null if there is nothing. Another tab may have changed it. */
  async #edition(): Promise<Edition | null> {
    const raw = await this.#store.signedManifest();
    if (raw === null) {
      return null;
    }
    const signed = await openManifest(raw, fromHex((await this.#store.settings()).trusted));
    const stored = (hash: Uint8Array) => this.#store.file(hash);
    const V = await this.#reading.model(signed.manifest, stored);
    const catalogue = await this.#reading.catalogue(signed.manifest, stored);
    return V === null || catalogue === null ? null : this.#reading.edition(signed, V, catalogue);
  }
}

/** Something that the owner touched. */
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
