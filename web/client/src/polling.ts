/** Looks for news at the proxy, takes part in epochs, and fetches earlier models. */

import type { Manifest } from "./epoch.js";
import {
  PostponedError,
  SottovoceError,
  StoreError,
  UnavailableError,
  UntrustedError,
} from "./errors.js";
import type { Arrival, PastRelease } from "./fetching.js";
import { MIN_GAP_SECONDS, STEP_SECONDS } from "./grid.js";
import type { Network } from "./network.js";
import { type Conditions, type LookOutcome, Schedule } from "./schedule.js";
import type { PendingSync, SyncResult } from "./syncing.js";
import type { Timer } from "./timer.js";
import { computeLead } from "./timing.js";

/** The result of a client's last look for news. */
export interface LookStatus {
  /** Result of the last sync; null before the first one, and while a sync is pending. */
  readonly lastSync: SyncResult | null;
  /** Epoch and Unix seconds of the last batch that left since this page was opened, or null. */
  readonly sentAt: { readonly epoch: number; readonly time: number } | null;
  /** Error of the last look; null if it succeeded. */
  readonly error: SottovoceError | null;
}

/** Receives the results of a client's looks. */
export interface LookListener {
  /** Receives the status after each look and each choice of the owner. */
  onLook(seen: LookStatus): void;
  /** Receives the model of an epoch for the learning curve; null if it is missing or not valid. */
  onPastRelease(epoch: number, release: PastRelease | null): void;
}

/** The options of a poller. */
export interface PollingOptions {
  /** Seconds between two looks of a visible page. */
  pace: number;
  /** Number of models of earlier epochs to fetch. */
  pastModels: number;
  timer: Timer;
}

/** Looks for news at the moments of a schedule, which begins with the first `updateConditions`. */
export class Poller {
  readonly #schedule: Schedule;
  readonly #timer: Timer;
  /** Epochs whose models were fetched, or are being fetched. */
  readonly #pastEpochs = new Set<number>();
  /** Epochs whose models will be fetched next. */
  #queue: number[] = [];
  #appointment: number | null = null;
  #isBusy = false;
  #lastSync: SyncResult | null = null;
  #sentAt: LookStatus["sentAt"] = null;
  #error: SottovoceError | null = null;

  constructor(
    private readonly network: Network,
    private readonly listener: LookListener,
    private readonly options: PollingOptions,
  ) {
    this.#timer = options.timer;
    this.#schedule = new Schedule(options.pace, () => this.#look(), options.timer);
  }

  updateConditions(conditions: Conditions): void {
    this.#schedule.update(conditions);
  }

  /**
   * Handle a choice of the owner: drop earlier results, which do not take it into account, and look
   * at the next tick.
   */
  handleChoice(): void {
    this.#lastSync = null;
    this.#error = null;
    this.#cancel();
    this.#schedule.wake();
    this.report();
  }

  report(): void {
    this.listener.onLook({ lastSync: this.#lastSync, sentAt: this.#sentAt, error: this.#error });
  }

  /** Look for news. While a batch is being sent, the look makes no requests of its own. */
  async #look(): Promise<LookOutcome> {
    if (this.#isBusy) return { isWell: true, retryAfter: 0 };
    const error = await this.#run(() => this.network.syncing.start());
    // The time of the next look must not depend on how long the check of new files took. Another
    // thread that computes with the history could slow the check down, and the proxy would see it.
    await this.#timer.sleep(Math.max(this.network.fetching.workEnds - this.#timer.now(), 0));
    return { isWell: error === null, retryAfter: getWaitSeconds(error) };
  }

  /** Run a sync. Return its error, or null if it succeeded. */
  async #run(work: () => Promise<SyncResult | PendingSync>): Promise<SottovoceError | null> {
    this.#isBusy = true;
    this.#cancel();
    try {
      this.#handleResult(await work());
      this.#error = null;
    } catch (error) {
      this.#error = error instanceof SottovoceError ? error : new StoreError(String(error));
    } finally {
      this.#isBusy = false;
    }
    this.report();
    const { latest } = this.network.fetching;
    if (latest !== null) this.#planPast(latest);
    return this.#error;
  }

  #handleResult(result: SyncResult | PendingSync): void {
    const time = this.#timer.clock();
    if ("resumeAt" in result) {
      this.#lastSync = result.result;
      this.#scheduleResume(result, this.#timer.now() + result.resumeAt - time);
      return;
    }
    this.#lastSync = result;
    if (result.outcome === "sent") this.#sentAt = { epoch: result.epoch, time };
  }

  /**
   * Resume a pending sync at its moment. If a look begins before that moment, it computes
   * the same moment again, or learns that the epoch is over.
   */
  #scheduleResume(pending: PendingSync, moment: number): void {
    const resume = async () => {
      this.#appointment = null;
      // A look that is running now finds by itself that the moment has come.
      if (!this.#isBusy) await this.#run(() => this.network.syncing.resume(pending));
    };
    const seconds = moment - STEP_SECONDS - this.#timer.now();
    this.#appointment = this.#timer.start(Math.max(0, seconds), resume);
  }

  #cancel(): void {
    if (this.#appointment !== null) this.#timer.stop(this.#appointment);
    this.#appointment = null;
  }

  /**
   * Plan to fetch the missing models of earlier epochs, newest first.
   *
   * Before that, the new model is decoded and stored. This takes longer while another thread
   * computes, so the requests begin at a fixed time after the last answer of the look: a whole
   * number of leads (`MAX_LEAD_SECONDS` explains them).
   */
  #planPast({ manifest, at }: Arrival): void {
    const newest = manifest.epoch;
    const count = Math.min(this.options.pastModels, countPastEpochs(manifest), newest);
    const epochs = Array.from({ length: count }, (_, age) => newest - age);
    const missing = epochs.filter((epoch) => !this.#pastEpochs.has(epoch));
    if (this.#queue.length > 0 || missing.length === 0) return;
    this.#queue = missing;
    const now = this.#timer.now();
    const leads = Math.max(Math.ceil((now + STEP_SECONDS - at.now) / computeLead(manifest)), 1);
    const moment = this.network.grid.roundUp(at.now + leads * computeLead(manifest));
    this.#timer.start(moment - MIN_GAP_SECONDS - now, () => this.#startPastFetches());
  }

  /**
   * Begin to fetch the next few models. Each needs two steps of the grid: for its manifest and its
   * model.
   */
  async #startPastFetches(): Promise<void> {
    for (const epoch of this.#queue.splice(0, PARALLEL_EPOCHS)) {
      this.#pastEpochs.add(epoch);
      this.#timer.start(0, () => this.#fetchPast(epoch));
    }
    if (this.#queue.length > 0) this.#timer.start(2 * STEP_SECONDS, () => this.#startPastFetches());
  }

  /** Fetch the model of an epoch. After a failure, a later look tries again. */
  async #fetchPast(epoch: number): Promise<void> {
    const { store, fetching } = this.network;
    try {
      const isNewest = fetching.latest?.manifest.epoch === epoch;
      const current = isNewest ? await fetching.loadCurrent() : null;
      const fetch = async () => fetching.fetchPast(epoch, await store.readSettings());
      const isCurrent = current?.manifest.epoch === epoch;
      this.listener.onPastRelease(epoch, isCurrent ? current : await fetch().catch(skipUntrusted));
    } catch {
      // The learning curve is optional. The next look has the same failure and reports it.
      this.#pastEpochs.delete(epoch);
      this.#queue = [];
    }
  }
}

/**
 * Number of earlier models that are fetched at once: a browser opens that many connections to a
 * host.
 */
const PARALLEL_EPOCHS = 6;
/** Maximum total size of earlier models; the device may be a phone. */
const MAX_PAST_BYTES = 4 * 2 ** 20;

/** Return the number of earlier epochs to fetch, at least one. */
function countPastEpochs({ items, terms }: Pick<Manifest, "items" | "terms">): number {
  return Math.max(1, Math.floor(MAX_PAST_BYTES / (4 * items * terms.factors)));
}

/**
 * Return null for an invalid release, as for a missing one. Other errors are thrown, so that the
 * fetch is repeated later.
 */
function skipUntrusted(error: unknown): null {
  if (error instanceof UntrustedError) return null;
  throw error;
}

/** Return the seconds during which the proxy wants no request; 0 if only a batch was postponed. */
function getWaitSeconds(error: SottovoceError | null): number {
  const isUnavailable = error instanceof UnavailableError && !(error instanceof PostponedError);
  return isUnavailable ? (error.retryAfter ?? 0) : 0;
}
