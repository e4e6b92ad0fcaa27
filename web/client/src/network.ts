/**
 * The side of a client that speaks to the proxy. It runs in a worker of its own (`sottovoce-worker`)
 * and never reads what its owner touched: whatever it does, and when, comes from public data, the
 * owner's choices, its own coins and a clock.
 */

import { checkedTerms } from "./agreement.js";
import { systemEntropy } from "./coin.js";
import {
  PostponedError,
  SettingsError,
  SottovoceError,
  StoreError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
import type { Manifest } from "./manifest.js";
import {
  beginningOf,
  checkCryptography,
  checkedLimit,
  type NetworkOptions,
  systemTimer,
  type Timer,
} from "./options.js";
import { Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import { Fetching, type PastRelease } from "./release.js";
import { Database, Store } from "./store.js";
import { type Early, type Lock, type Synced, Syncing } from "./syncing.js";
import type { Terms } from "./terms.js";
import { type Conditions, JITTER, type Looked, Schedule, STEP } from "./timing.js";

/** One database of this browser, and one proxy. */
export class Network {
  private constructor(
    private readonly database: Database,
    readonly store: Store,
    readonly fetching: Fetching,
    readonly syncing: Syncing,
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
    const proxy = new HttpProxy(beginning.proxy, { clock, fetch: options.fetch });
    const instant = () => ({ clock: clock(), now: timer.now() });
    const fetching = new Fetching(store, proxy, instant);
    const lock = alone(name, options.locks);
    const monotonic = timer.now;
    const used = { store, outbox, fetching, proxy, clock, monotonic, sleep, entropy };
    const syncing = new Syncing({ ...used, jitter, lock, make, account });
    return new Network(database, store, fetching, syncing);
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

  /** Another limit; what was spent stays spent. */
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

/**
 * Waits until no other tab syncs. It spares the proxy a second copy and the device some work; that a
 * batch is made and charged once rests on `Outbox.keep`, with or without a lock.
 */
export function alone(
  name: string,
  locks: Pick<LockManager, "request"> | null = globalThis.navigator?.locks ?? null,
): Lock {
  return (work) => (locks === null ? work() : locks.request(`sottovoce ${name}`, work));
}

export interface Seen {
  /** What it came to; null before the first, and while a moment is waited for. */
  readonly synced: Synced | null;
  /** When a batch left since this page was opened; Unix seconds. */
  readonly sentAt: { readonly epoch: number; readonly time: number } | null;
  /** What it failed with; null if it went well. */
  readonly error: SottovoceError | null;
}

export interface Listener {
  seen(seen: Seen): void;
  /** The model of an epoch; null where it is missing or cannot be believed. */
  past(epoch: number, release: PastRelease | null): void;
}

export interface LookingOptions {
  pace: number;
  /** Models of earlier epochs that are fetched. */
  past: number;
  timer: Timer;
}

/** Begins with the first conditions that it is told. */
export class Looking {
  readonly #schedule: Schedule;
  readonly #timer: Timer;
  /** Epochs whose models were fetched. */
  readonly #past = new Set<number>();
  #appointment: number | null = null;
  #isBusy = false;
  #isFetchingPast = false;
  #synced: Synced | null = null;
  #sentAt: Seen["sentAt"] = null;
  #error: SottovoceError | null = null;

  constructor(
    private readonly network: Network,
    private readonly listener: Listener,
    private readonly options: LookingOptions,
  ) {
    this.#timer = options.timer;
    this.#schedule = new Schedule(options.pace, () => this.#look(), options.timer);
  }

  meet(conditions: Conditions): void {
    this.#schedule.meet(conditions);
  }

  /** The owner has chosen something: nothing that was heard before says what comes of it. */
  chosen(): void {
    this.#synced = null;
    this.#error = null;
    this.#cancel();
    this.#schedule.wake();
    this.tell();
  }

  tell(): void {
    this.listener.seen({ synced: this.#synced, sentAt: this.#sentAt, error: this.#error });
  }

  /** While a batch is on its way, its own requests say all that there is. */
  async #look(): Promise<Looked> {
    if (this.#isBusy) return { isWell: true, retryAfter: 0 };
    const found = await this.#tried(() => this.network.syncing.begin());
    return { isWell: found === null, retryAfter: waitOf(found) };
  }

  /** What it failed with; null if it went well. */
  async #tried(work: () => Promise<Synced | Early>): Promise<SottovoceError | null> {
    this.#isBusy = true;
    this.#cancel();
    try {
      this.#heed(await work());
      this.#error = null;
    } catch (error) {
      this.#error = error instanceof SottovoceError ? error : new StoreError(String(error));
    } finally {
      this.#isBusy = false;
    }
    this.tell();
    const { newest } = this.network.fetching;
    if (newest !== null && this.options.past > 0) void this.#fetchPast(newest);
    return this.#error;
  }

  #heed(found: Synced | Early): void {
    const time = this.#timer.clock();
    if ("until" in found) {
      this.#synced = found.synced;
      this.#appoint(found, this.#timer.now() + found.until - time);
      return;
    }
    this.#synced = found;
    if (found.outcome === "sent") this.#sentAt = { epoch: found.epoch, time };
  }

  /** A look before then finds the same moment again, or that it is over. */
  #appoint(early: Early, moment: number): void {
    const goOn = async () => {
      this.#appointment = null;
      // A look that is under way finds that it is time by itself.
      if (!this.#isBusy) await this.#tried(() => this.network.syncing.goOn(early));
    };
    const wait = moment - STEP - this.#timer.now();
    this.#appointment = this.#timer.start(Math.max(0, wait), goOn);
  }

  #cancel(): void {
    if (this.#appointment !== null) this.#timer.stop(this.#appointment);
    this.#appointment = null;
  }

  /** One after the other, the newest first; what fails now is tried at the next news. */
  async #fetchPast(manifest: Manifest): Promise<void> {
    if (this.#isFetchingPast) return;
    this.#isFetchingPast = true;
    const { epoch: newest } = manifest;
    const first = Math.max(1, newest - Math.min(this.options.past, lookBack(manifest)) + 1);
    try {
      const { store, fetching } = this.network;
      const settings = await store.settings();
      const present = await fetching.present();
      for (let epoch = newest; epoch >= first; epoch -= 1) {
        if (this.#past.has(epoch)) continue;
        const isHere = present?.manifest.epoch === epoch;
        const fetch = () => fetching.release(epoch, settings).catch(unbelievable);
        this.listener.past(epoch, isHere ? present : await fetch());
        this.#past.add(epoch);
      }
    } catch {
      // A curve is a courtesy: whatever it fails at, a look meets as well, and tells.
    } finally {
      this.#isFetchingPast = false;
    }
  }
}

/** Bytes of models that are fetched to look back: it may be a phone. */
const HEAVIEST = 4 * 2 ** 20;

/** How many epochs that is; one at least. */
function lookBack({ items, terms }: Pick<Manifest, "items" | "terms">): number {
  return Math.max(1, Math.floor(HEAVIEST / (4 * items * terms.factors)));
}

/** A gap in the curve, as where an epoch is missing; whatever else fails is tried again later. */
function unbelievable(error: unknown): null {
  if (error instanceof UntrustedError) return null;
  throw error;
}

/** Seconds that the proxy asked to be left alone for; a batch that it wants later stops no look. */
function waitOf(error: SottovoceError | null): number {
  const isAway = error instanceof UnavailableError && !(error instanceof PostponedError);
  return isAway ? (error.retryAfter ?? 0) : 0;
}
