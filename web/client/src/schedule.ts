/** Clocks, the moments at which requests leave, and when the proxy is asked. */

/** Both clocks, and what happens later. */
export interface Timer {
  /** Unix seconds. */
  clock(): number;
  /** Seconds that nobody can set back. */
  now(): number;
  sleep(seconds: number): Promise<void>;
  /** Does some work so many seconds later, unless it is told not to. */
  start(seconds: number, work: () => Promise<void>): number;
  stop(handle: number): void;
}

/** Milliseconds: a longer time-out would be over at once. */
const LONGEST = 2 ** 31 - 1;

export const systemTimer: Timer = {
  clock: () => Date.now() / 1000,
  now: () => performance.now() / 1000,
  sleep: async (seconds) => {
    for (let left = Math.ceil(seconds * 1000); left > 0; left -= LONGEST) {
      await new Promise((done) => setTimeout(done, Math.min(left, LONGEST)));
    }
  },
  // Whoever starts something so far ahead sleeps for the rest of it.
  start: (seconds, work) =>
    Number(setTimeout(() => void work(), Math.min(Math.ceil(seconds * 1000), LONGEST))),
  stop: (handle) => clearTimeout(handle),
};

/** Seconds between two moments at which a request may leave. */
export const STEP = 0.5;
/** Seconds from an answer to the next request, at least: what is read from the disk between them takes less. */
export const MIN_GAP = STEP / 2;
/** Seconds after a step at which a request still leaves; where a thread was busy for longer, at the next step. */
const MAX_LATENESS = 0.02;
/** Steps that are tried: a browser that delays every timer must not keep a request back for ever. */
const MAX_TRIES = 4;

/**
 * The moments at which requests leave: whole steps from the beginning of a visit's first look. The step of
 * a request is fixed when the answer before it arrives, or when its look begins. Whatever reads a disk that
 * another thread keeps busy comes after that: it delays a request by whole steps or not at all.
 */
export class Grid {
  #origin: number | null = null;
  /** When the last look began or the last answer arrived. */
  #last = 0;

  constructor(private readonly timer: Pick<Timer, "now" | "sleep">) {}

  /** Note that a look begins or an answer has arrived. */
  mark(): void {
    this.#last = this.timer.now();
    this.#origin ??= this.#last;
  }

  /** Return the first step that is not before a moment. */
  roundUp(moment: number): number {
    const origin = this.#origin ?? moment;
    return origin + Math.ceil((moment - origin) / STEP - ROUNDING) * STEP;
  }

  /** Wait for the step of the next request; after `MIN_GAP`, for the first one that is left. */
  async waitForStep(): Promise<void> {
    const { now, sleep } = this.timer;
    const earliest = this.#last + MIN_GAP;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const step = this.roundUp(Math.max(earliest, now()));
      await sleep(Math.max(step - now(), 0));
      if (now() - step < MAX_LATENESS) return;
    }
  }
}

/**
 * When the proxy is asked.
 *
 * Looks happen at whole ticks, counted from the first one of a visit, and nowhere else: whatever wakes
 * the schedule (the owner, the network, a page that comes into sight) moves the next look to the next
 * tick. How many ticks it waits otherwise depends on the page's conditions and on the proxy's answers.
 * `Retry-After` counts from the arrival of the answer, and is rounded up to whole ticks.
 *
 * Every request of a look waits for a step of the `Grid`.
 */

/** What the page says of itself. */
export interface Conditions {
  visible: boolean;
  online: boolean;
}

export interface Looked {
  isWell: boolean;
  /** Seconds that the proxy asked to be left alone for, from now on. */
  retryAfter: number;
}

/** Seconds between two moments at which there can be a look. */
export const TICK = 5;
/** Seconds: no proxy keeps a device away for longer. */
const MOST_RETRY = 86_400;
/** Ticks between two looks of a page that nobody sees, and after many failures, at least. */
const SELDOM = 60 / TICK;

export class Schedule {
  /** Until the page has said what the world is like, there is nothing to look at. */
  #conditions: Conditions = { visible: false, online: false };
  #first: number | null = null;
  /** The tick, counted from the first look, at which the last one was. */
  #last = -1;
  /** The tick before which the proxy wants no other one. */
  #least = 0;
  #failures = 0;
  #handle: number | null = null;
  #isLooking = false;
  #isWanted = false;

  /** Ticks between two looks while the page is seen. */
  readonly #usual: number;

  constructor(
    pace: number,
    private readonly look: () => Promise<Looked>,
    private readonly timer: Timer,
  ) {
    this.#usual = Math.ceil(pace / TICK);
  }

  /** The page came into sight or went out of it, or the network did. */
  meet(conditions: Conditions): void {
    const { visible, online } = this.#conditions;
    const isBetter = (conditions.online && !online) || (conditions.visible && !visible);
    this.#conditions = conditions;
    this.#isWanted ||= isBetter;
    this.#plan();
  }

  wake(): void {
    this.#isWanted = true;
    this.#plan();
  }

  #plan(): void {
    if (this.#handle !== null) this.timer.stop(this.#handle);
    this.#handle = null;
    if (this.#isLooking || !this.#conditions.online) return;
    const now = this.timer.now(); // once: a later one would be a tick too late
    this.#first ??= now;
    const soonest = Math.max(this.#last + 1, Math.ceil((now - this.#first - ROUNDING) / TICK));
    const next = Math.max(this.#isWanted ? 0 : this.#last + this.#ticks(), this.#least, soonest);
    const wait = this.#first + next * TICK - now;
    this.#handle = this.timer.start(Math.max(0, wait), () => this.#lookAt(next));
  }

  /** Between two looks: more when hidden, and after failures. */
  #ticks(): number {
    const seldom = Math.max(SELDOM, this.#usual);
    const patient = this.#usual * 2 ** Math.max(0, this.#failures - 1);
    return Math.min(seldom, this.#conditions.visible ? patient : seldom);
  }

  async #lookAt(at: number): Promise<void> {
    this.#handle = null;
    this.#isLooking = true;
    this.#isWanted = false;
    const { isWell, retryAfter: asked } = await this.look();
    const retryAfter = Math.min(asked, MOST_RETRY);
    const since = this.timer.now() + retryAfter - (this.#first ?? 0);
    this.#least = retryAfter > 0 ? Math.ceil((since - ROUNDING) / TICK) : 0;
    this.#failures = isWell ? 0 : this.#failures + 1;
    this.#last = at;
    this.#isLooking = false;
    this.#plan();
  }
}

/** Seconds: a moment that is nearer is the same. */
const ROUNDING = 1e-6;
