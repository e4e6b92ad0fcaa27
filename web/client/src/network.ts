/**
 * The side of a client that speaks to the proxy. It runs in a worker of its own (`sottovoce-worker`)
 * and never reads what its owner touched: whatever it does, and when, comes from public data, the
 * owner's choices, its own coins and a clock.
 */

import { checkedTerms } from "./agreement.js";
import { systemEntropy } from "./coin.js";
import { Database } from "./database.js";
import type { Terms } from "./epoch.js";
import { SettingsError } from "./errors.js";
import { Fetching } from "./fetching.js";
import { beginningOf, checkCryptography, checkedLimit, type NetworkOptions } from "./options.js";
import { Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import { Grid, systemTimer } from "./schedule.js";
import { Store } from "./store.js";
import { type Lock, Syncing } from "./syncing.js";
import { JITTER } from "./timing.js";

/** One database of this browser, and one proxy. */
export class Network {
  private constructor(
    private readonly database: Database,
    readonly store: Store,
    readonly fetching: Fetching,
    readonly syncing: Syncing,
    readonly grid: Grid,
    private readonly clock: () => number,
  ) {}

  /** Begin a client in this browser, or take it up where it was; asks nobody. */
  static async open(options: NetworkOptions): Promise<Network> {
    checkCryptography();
    const { name, make, timer = systemTimer, entropy = systemEntropy, jitter = JITTER } = options;
    const { account = null } = options;
    const { clock, sleep } = timer;
    const beginning = beginningOf(options, clock());
    const database = await Database.open(name, options.indexedDB ?? globalThis.indexedDB);
    const [store, outbox] = [new Store(database), new Outbox(database)];
    try {
      await store.enrol(beginning);
    } catch (error) {
      database.close();
      throw error;
    }
    const grid = new Grid(timer);
    const proxy = new HttpProxy(beginning.proxy, { clock, grid, fetch: options.fetch });
    const instant = () => ({ clock: clock(), now: timer.now() });
    const fetching = new Fetching(store, proxy, instant);
    const lock = alone(name, options.locks);
    const sending = alone(`${name} sending`, options.locks);
    const monotonic = timer.now;
    const used = { store, outbox, fetching, proxy, grid, clock, monotonic, sleep, entropy };
    const syncing = new Syncing({ ...used, jitter, lock, sending, make, account });
    return new Network(database, store, fetching, syncing, grid, clock);
  }

  /** The owner was shown exactly these terms and said yes: nothing worse is reported under. */
  async accept(terms: Terms): Promise<void> {
    await this.store.choose({ terms: checkedTerms(terms) });
  }

  /** Whether nothing is to leave, not even a batch that waits. */
  async pause(on: boolean): Promise<void> {
    if (typeof on !== "boolean") throw new SettingsError(`pause takes true or false, not ${on}`);
    if (on) this.syncing.stop();
    await this.store.choose({ paused: on });
    if (on) await this.syncing.waitForSender();
  }

  /** Another limit; what was spent stays spent. */
  async setLimit(limit: number): Promise<void> {
    await this.store.choose({ limit: checkedLimit(limit) });
  }

  /** Delete what the owner touched, the batch on its way, what was shown of it, and the model. */
  async forget(): Promise<void> {
    this.syncing.stop();
    await this.store.forget(this.clock());
    await this.syncing.waitForSender();
  }

  close(): void {
    this.database.close();
  }
}

/**
 * Waits until no other tab does the same. Of syncs it spares the proxy a second copy and the device some
 * work; that a batch is made and charged once rests on `Outbox.keep`, with or without a lock.
 */
export function alone(
  name: string,
  locks: Pick<LockManager, "request"> | null = globalThis.navigator?.locks ?? null,
): Lock {
  return (work) => (locks === null ? work() : locks.request(`sottovoce ${name}`, work));
}
