import type { Manifest } from "./epoch.js";
import {
  PostponedError,
  SottovoceError,
  StoreError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
import type { News, PastRelease } from "./fetching.js";
import type { Network } from "./network.js";
import { type Conditions, type Looked, MIN_GAP, Schedule, STEP, type Timer } from "./schedule.js";
import type { Early, Synced } from "./syncing.js";
import { lead } from "./timing.js";

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
  /** Epochs whose models were fetched, or are on their way. */
  readonly #past = new Set<number>();
  /** Those that are planned to be fetched. */
  #queue: number[] = [];
  #appointment: number | null = null;
  #isBusy = false;
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
    // How long the work on new files took, beside a thread that computes, does not move the next look.
    await this.#timer.sleep(Math.max(this.network.fetching.workEnds - this.#timer.now(), 0));
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
    if (newest !== null) this.#planPast(newest);
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

  /**
   * Plan to fetch the models that are missing, the newest first. The new model is decoded and stored before
   * that, which takes longer while another thread computes: so they are asked for from a lead after the
   * look's last answer on.
   */
  #planPast({ manifest, at }: News): void {
    const newest = manifest.epoch;
    const count = Math.min(this.options.past, lookBack(manifest), newest);
    const epochs = Array.from({ length: count }, (_, age) => newest - age);
    const missing = epochs.filter((epoch) => !this.#past.has(epoch));
    if (this.#queue.length > 0 || missing.length === 0) return;
    this.#queue = missing;
    const now = this.#timer.now();
    const leads = Math.max(Math.ceil((now + STEP - at.now) / lead(manifest)), 1);
    const moment = this.network.grid.roundUp(at.now + leads * lead(manifest));
    this.#timer.start(moment - MIN_GAP - now, () => this.#takePast());
  }

  /** Begin with the next few of them; each needs two steps, for its manifest and its model. */
  async #takePast(): Promise<void> {
    for (const epoch of this.#queue.splice(0, EPOCHS_AT_ONCE)) {
      this.#past.add(epoch);
      this.#timer.start(0, () => this.#fetchPast(epoch));
    }
    if (this.#queue.length > 0) this.#timer.start(2 * STEP, () => this.#takePast());
  }

  /** Fetch the model of an epoch; what fails now is tried at the next news. */
  async #fetchPast(epoch: number): Promise<void> {
    const { store, fetching } = this.network;
    try {
      const isNewest = fetching.newest?.manifest.epoch === epoch;
      const present = isNewest ? await fetching.present() : null;
      const fetch = async () => fetching.release(epoch, await store.settings());
      const isHere = present?.manifest.epoch === epoch;
      this.listener.past(epoch, isHere ? present : await fetch().catch(unbelievable));
    } catch {
      // A curve is a courtesy: whatever it fails at, a look meets as well, and tells.
      this.#past.delete(epoch);
      this.#queue = [];
    }
  }
}

/** Models of earlier epochs that are fetched at once: as many connections as a browser has to one host. */
const EPOCHS_AT_ONCE = 6;
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
