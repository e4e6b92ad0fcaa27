/**
 * The side of a client that speaks to the proxy. It runs in a worker of its own (`sottovoce-worker`)
 * and never reads what its owner touched: whatever it does, and when, comes from public data, the
 * owner's choices, its own coins and a clock.
 */

import { checkedTerms } from "./agreement.js";
import { Database } from "./database.js";
import { SettingsError } from "./errors.js";
import { Fetching, type PastRelease } from "./fetching.js";
import { alone } from "./locking.js";
import type { Manifest } from "./manifest.js";
import {
  beginningOf,
  checkCryptography,
  checkedJitter,
  checkedLimit,
  type NetworkOptions,
  systemTimer,
} from "./options.js";
import { Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import type { Settings } from "./rows.js";
import { Store } from "./store.js";
import { type Early, type Synced, Syncing } from "./syncing.js";
import type { Terms } from "./terms.js";
import { JITTER } from "./timing.js";
import { systemEntropy } from "./words.js";

/** One database of this browser, and one proxy. */
export class Network {
  private constructor(
    private readonly database: Database,
    private readonly store: Store,
    private readonly fetching: Fetching,
    private readonly syncing: Syncing,
  ) {}

  /** Begin a client in this browser, or take it up where it was; asks nobody. */
  static async open(options: NetworkOptions): Promise<Network> {
    checkCryptography();
    const { name, make, timer = systemTimer, entropy = systemEntropy } = options;
    const { clock, sleep } = timer;
    const beginning = beginningOf(options, clock());
    const jitter = checkedJitter(options.jitter ?? JITTER);
    const database = await Database.open(name, options.indexedDB ?? globalThis.indexedDB);
    const [store, outbox] = [new Store(database), new Outbox(database)];
    try {
      await store.enrol(beginning);
    } catch (error) {
      database.close();
      throw error;
    }
    const proxy = new HttpProxy(beginning.proxy, { clock, fetch: options.fetch });
    const instant = () => ({ clock: clock(), now: timer.now() });
    const fetching = new Fetching(store, proxy, instant);
    const lock = alone(name, options.locks);
    const monotonic = timer.now;
    const used = { store, outbox, fetching, proxy, clock, monotonic, sleep, entropy };
    const syncing = new Syncing({ ...used, jitter, lock, make });
    return new Network(database, store, fetching, syncing);
  }

  /** Fetch what was published and take part, or find out when; see `Syncing`. */
  begin(): Promise<Synced | Early> {
    return this.syncing.begin();
  }

  /** A `STEP` before the moment that `begin` found. */
  goOn(early: Early): Promise<Synced> {
    return this.syncing.goOn(early);
  }

  /** The last manifest that was believed since this was opened. */
  get newest(): Manifest | null {
    return this.fetching.newest;
  }

  settings(): Promise<Settings> {
    return this.store.settings();
  }

  /** The model of the present epoch; asks nobody. */
  present(settings: Settings): Promise<PastRelease | null> {
    return this.fetching.present(settings);
  }

  /** The model of an earlier epoch, as signed; null if the proxy has it no more. It is not stored. */
  release(epoch: number, settings: Settings): Promise<PastRelease | null> {
    return this.fetching.release(epoch, settings);
  }

  /** The owner was shown exactly these terms and said yes: nothing worse is reported under. */
  async accept(terms: Terms): Promise<void> {
    await this.store.choose({ terms: checkedTerms(terms) });
  }

  /** Whether nothing is to leave, not even a batch that waits. */
  async pause(on: boolean): Promise<void> {
    if (typeof on !== "boolean") throw new SettingsError(`pause takes true or false, not ${on}`);
    this.syncing.stop();
    await this.store.choose({ paused: on });
  }

  /** Another lifetime limit; what was spent stays spent. */
  async setLimit(limit: number): Promise<void> {
    await this.store.choose({ limit: checkedLimit(limit) });
  }

  /** Delete what the owner touched, the batch on its way, what was shown of it, and the model. */
  forget(): Promise<void> {
    this.syncing.stop();
    return this.store.forget();
  }

  close(): void {
    this.database.close();
  }
}
