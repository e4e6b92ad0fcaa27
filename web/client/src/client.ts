/** The client itself: what an application in a browser calls. */

import { checkedTerms, epochsOf } from "./agreement.js";
import type { Charge } from "./amount.js";
import type { Item } from "./catalogue.js";
import { Database } from "./database.js";
import type { Edition } from "./edition.js";
import { SettingsError, StoreError } from "./errors.js";
import { Fetching } from "./fetching.js";
import { type Budget, budgetOf } from "./ledger.js";
import { alone } from "./locking.js";
import type { Manifest } from "./manifest.js";
import {
  beginningOf,
  type ClientOptions,
  checkCryptography,
  checkedItems,
  checkedLimit,
  now,
  sleepFor,
} from "./options.js";
import { type LeftDevice, Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import { type Recommendation, recommendations } from "./recommending.js";
import type { State } from "./rows.js";
import { Store } from "./store.js";
import { type Synced, Syncing, type Tools } from "./syncing.js";
import type { Terms } from "./terms.js";
import { JITTER, type Plan } from "./timing.js";
import type { Matrix } from "./user.js";
import { systemEntropy, systemWords } from "./words.js";

/** Where a client stands. */
export interface Status extends Budget {
  proxy: string;
  /** Of the last manifest accepted; null before the first. */
  epoch: number | null;
  /** What its owner accepted; null before. */
  terms: Terms | null;
  /** In how many epochs of their training the device took part; 0 before there are terms. */
  epochs: number;
  /** Everything that was ever charged, in any order. */
  charges: readonly Charge[];
  /** What its coins said of the last epoch in which it could take part; null before. */
  plan: Plan | null;
  paused: boolean;
  /** How many, by what became of them. */
  batches: Record<State, number>;
  /** How many items the owner touched. */
  touched: number;
  /** How many of them are in the catalogue. */
  known: number;
  /** The others: kept, since a later catalogue may know them. */
  unknown: string[];
  /** The one that holds; null before the first and after `forget`. */
  manifest: Manifest | null;
}

/** How a sync waits. */
export interface SyncOptions {
  jitter?: number;
  signal?: AbortSignal;
  asleep?: () => void;
}

/** One database of this browser, opened. Every tab may have one of its own. */
export class Client {
  private constructor(
    private readonly database: Database,
    private readonly tools: Tools,
    private readonly lock: <Result>(work: () => Promise<Result>) => Promise<Result>,
  ) {}

  /** Begin a client in this browser, or take it up where it was; asks nobody. */
  static async open(options: ClientOptions): Promise<Client> {
    checkCryptography();
    const { name = "sottovoce", fetch, clock = now, entropy = systemEntropy } = options;
    const beginning = beginningOf(options, clock());
    const database = await Database.open(name, options.indexedDB ?? globalThis.indexedDB);
    const store = new Store(database);
    try {
      await store.enrol(beginning);
    } catch (error) {
      database.close();
      throw error;
    }
    const proxy = new HttpProxy(beginning.proxy, { clock, fetch });
    const fetching = new Fetching(store, proxy);
    const { words = systemWords, sleep = sleepFor } = options;
    const outbox = new Outbox(database);
    const tools = { store, outbox, fetching, proxy, clock, entropy, words, sleep };
    return new Client(database, tools, alone(name, options.locks));
  }

  /**
   * Remember what the owner touched, all of it or nothing; how many were new. What is recorded in one
   * call was touched together, after all that was recorded before, also where it is recorded again.
   */
  async record(ids: readonly string[]): Promise<number> {
    return this.tools.store.add(checkedItems(ids));
  }

  /** Forget some of what the owner touched; how many were there. */
  async remove(ids: readonly string[]): Promise<number> {
    return this.tools.store.remove(checkedItems(ids));
  }

  /** What the owner touched, in the order of recording. */
  touched(): Promise<string[]> {
    return this.tools.store.touched();
  }

  /** Fetch what is current, believe it only if everything holds, and keep it; sends nothing. */
  async refresh(): Promise<Manifest> {
    return (await this.tools.fetching.refresh()).signed.manifest;
  }

  /** The terms that the server asks for now, to show to the owner; changes nothing. */
  asked(): Promise<Terms> {
    return this.tools.fetching.asked();
  }

  /**
   * The owner was shown exactly these terms and said yes: nothing worse is reported under, and before
   * the first yes nothing at all.
   */
  async accept(terms: Terms): Promise<void> {
    await this.tools.store.choose({ terms: checkedTerms(terms) });
  }

  /**
   * Fetch what the server published and take part in the epoch, at most once.
   *
   * When it sends is drawn at random, within `jitter` seconds (an hour, if nothing is said); it sleeps
   * until then. Stopped meanwhile, by `signal` or because the page was closed, it has spent nothing
   * and goes on at the next sync. 0 sends as soon as the batch is made, which shows when the device
   * woke up: for tests and demos. After an `UnavailableError` do it again later (not before its
   * `retryAfter` seconds): a batch that was made is kept and sent again byte for byte. After a
   * `PostponedError` nothing but that batch has to wait.
   *
   * `asleep` is called when the long pause begins, if there is one. Recommend then, or afterwards:
   * how long that takes depends on the history, and must not show in when this sync asks the proxy.
   */
  async sync(options: SyncOptions = {}): Promise<Synced> {
    const { jitter = JITTER, signal, asleep } = options;
    if (!(jitter >= 0 && jitter <= JITTER)) {
      throw new SettingsError(`jitter must be in 0..${JITTER} seconds, not ${jitter}`);
    }
    return new Syncing(this.tools, { jitter, signal, asleep, lock: this.lock }).run();
  }

  /** The n best items that the owner has not touched, each with its reasons; asks nobody. */
  async recommend(n = 10): Promise<Recommendation[]> {
    if (!(Number.isSafeInteger(n) && n >= 1)) {
      throw new SettingsError(`at least one item must be asked for, not ${n}`);
    }
    return recommendations(await this.#held(), await this.tools.store.moments(), n);
  }

  /** Everything that there is, in the order of the model's rows; asks nobody. */
  async catalogue(): Promise<readonly Item[]> {
    return (await this.#held()).catalogue.items;
  }

  /** Where it stands; asks nobody. */
  async status(): Promise<Status> {
    const { store, outbox, fetching } = this.tools;
    const [settings, touched, edition] = [
      await store.settings(),
      await store.touched(),
      await fetching.held(),
    ];
    const numbers = edition?.catalogue.numbers;
    const unknown = touched.filter((id) => !numbers?.has(id));
    const charges = await outbox.charges();
    return {
      ...budgetOf(settings.limit, charges),
      proxy: settings.proxy,
      epoch: settings.newest?.epoch ?? null,
      terms: settings.terms,
      epochs: settings.terms === null ? 0 : epochsOf(settings.terms, charges),
      charges,
      plan: await outbox.lastPlan(),
      paused: settings.paused,
      batches: await outbox.counts(),
      touched: touched.length,
      known: touched.length - unknown.length,
      unknown,
      manifest: edition?.signed.manifest ?? null,
    };
  }

  /** From now on nothing leaves, not even a batch that waits; `pause(false)` goes on. */
  pause(on: boolean): Promise<void> {
    return this.tools.store.choose({ paused: on });
  }

  /** Another lifetime limit; what was spent stays spent. */
  async setLimit(limit: number): Promise<void> {
    await this.tools.store.choose({ limit: checkedLimit(limit) });
  }

  /**
   * Delete what the owner touched, the batch on its way, what was shown of it, and the model.
   *
   * The ledger stays, because what was spent stays spent: reports that left cannot be called back.
   * It holds no item. Who wants that gone too deletes the site's data in the browser.
   */
  async forget(): Promise<void> {
    await this.tools.store.forget();
    this.tools.fetching.forget();
  }

  /** The last batch that was made, bit for bit, as the owner may see it; null if there is none. */
  lastBatch(): Promise<LeftDevice | null> {
    return this.tools.outbox.lastBatch();
  }

  /** The model of any epoch, as signed; null if the proxy has it no more. It is not stored. */
  edition(epoch: number): Promise<{ manifest: Manifest; V: Matrix } | null> {
    return this.tools.fetching.edition(epoch);
  }

  /** Let go of the database. */
  close(): void {
    this.database.close();
  }

  async #held(): Promise<Edition> {
    const edition = await this.tools.fetching.held();
    if (edition === null) {
      throw new StoreError("There is no model in this browser yet; sync first.");
    }
    return edition;
  }
}
