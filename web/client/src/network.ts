/**
 * The part of a client that sends requests to the proxy.
 *
 * It runs in a worker of its own (`sottovoce-worker`) and never reads the history. What it does,
 * and when, depends on public data, the owner's choices, random draws and a clock.
 */

import { checkStillAsked, parseTerms } from "./agreement.js";
import { drawSystemEntropy } from "./coin.js";
import { Database } from "./database.js";
import type { Terms } from "./epoch.js";
import { SettingsError } from "./errors.js";
import { Fetcher } from "./fetching.js";
import { Grid } from "./grid.js";
import {
  checkCryptography,
  checkLimit,
  type NetworkOptions,
  parseInitialSettings,
} from "./options.js";
import { Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import { Store } from "./store.js";
import { type Lock, Synchronizer } from "./syncing.js";
import { systemTimer } from "./timer.js";
import { JITTER_SECONDS } from "./timing.js";

/** A client's database in this browser, and its proxy. */
export class Network {
  private constructor(
    private readonly database: Database,
    readonly store: Store,
    readonly fetching: Fetcher,
    readonly syncing: Synchronizer,
    readonly grid: Grid,
    private readonly clock: () => number,
  ) {}

  /** Open a client in this browser, or continue an existing one. Opening makes no request. */
  static async open(options: NetworkOptions): Promise<Network> {
    checkCryptography();
    const {
      name,
      make,
      timer = systemTimer,
      entropy = drawSystemEntropy,
      jitter = JITTER_SECONDS,
    } = options;
    const { tokenMaker = null } = options;
    const { clock, sleep } = timer;
    const initial = parseInitialSettings(options, clock());
    const database = await Database.open(name, options.indexedDB ?? globalThis.indexedDB);
    const [store, outbox] = [new Store(database), new Outbox(database)];
    try {
      await store.initialize(initial);
    } catch (error) {
      database.close();
      throw error;
    }
    const grid = new Grid(timer);
    const proxy = new HttpProxy(initial.proxy, { clock, grid, fetch: options.fetch });
    const instant = () => ({ clock: clock(), now: timer.now() });
    const fetching = new Fetcher(store, proxy, instant);
    const lock = createLock(name, options.locks);
    const sendingLock = createLock(`${name} sending`, options.locks);
    const monotonic = timer.now;
    const shared = { store, outbox, fetching, proxy, grid, clock, monotonic, sleep, entropy };
    const syncing = new Synchronizer({ ...shared, jitter, lock, sendingLock, make, tokenMaker });
    return new Network(database, store, fetching, syncing, grid, clock);
  }

  /**
   * Accept terms and a limit in one transaction. The owner saw the sentences for exactly these
   * values and said yes.
   *
   * Throws a `SettingsError` and accepts nothing if the server asks for other terms by now.
   */
  async accept(terms: Terms, limit: number): Promise<void> {
    const accepted = { terms: parseTerms(terms), limit: checkLimit(limit) };
    await this.store.updateSettings((settings) => {
      checkStillAsked(settings, accepted.terms);
      return accepted;
    });
  }

  /**
   * Withdraw the consent, and delete all batches: nothing more leaves until the owner accepts terms
   * and a limit again.
   */
  async withdraw(): Promise<void> {
    this.syncing.stop();
    await this.store.withdraw(this.clock());
    await this.syncing.waitForSender();
  }

  /** Stop all reporting, even of a batch that waits. `pause(false)` resumes. */
  async pause(on: boolean): Promise<void> {
    if (typeof on !== "boolean") throw new SettingsError(`pause() needs true or false, not ${on}`);
    if (on) this.syncing.stop();
    await this.store.updateSettings(() => ({ paused: on }));
    if (on) await this.syncing.waitForSender();
  }

  /** Set another limit of epsilon. What was spent before counts towards it. */
  async setLimit(limit: number): Promise<void> {
    const checked = checkLimit(limit);
    await this.store.updateSettings(() => ({ limit: checked }));
  }

  /** Delete the history, the waiting batch, the readable copy of the last batch, and the model. */
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
 * Create a lock that other tabs respect.
 *
 * For syncs, the lock only saves the proxy and the device some repeated work. `Outbox.keep`
 * guarantees, with or without a lock, that a batch is made and charged once.
 */
export function createLock(
  name: string,
  locks: Pick<LockManager, "request"> | null = globalThis.navigator?.locks ?? null,
): Lock {
  return (work) => (locks === null ? work() : locks.request(`sottovoce ${name}`, work));
}
