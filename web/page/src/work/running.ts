/** A sync that goes on beside the looks, because it may sleep for an hour. */
import { type Sleep, type Synced, sleepFor } from "sottovoce-client";

/** Sleeps for a client, and tells when it begins to. */
export class Naps {
  #tell: () => void = () => {};

  constructor(private readonly underlying: Sleep = sleepFor) {}

  readonly sleep: Sleep = (seconds, signal) => {
    this.#tell();
    return this.underlying(seconds, signal);
  };

  /** The next one. */
  begun(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }
}

/** What a sync came to, or what it failed with; null: it was stopped. */
export type Result = { synced: Synced } | { error: unknown } | null;

/** One sync. Stopped, it has spent nothing, and the next one goes on from the stored plan. */
export class Running {
  readonly #controller = new AbortController();
  readonly #ended: Promise<void>;

  constructor(
    /** That it began in. */
    readonly epoch: number,
    sync: (signal: AbortSignal) => Promise<Synced>,
    done: (result: Result) => void,
  ) {
    const { signal } = this.#controller;
    this.#ended = sync(signal).then(
      (synced) => done({ synced }),
      (error: unknown) => done(signal.aborted ? null : { error }),
    );
  }

  /** When it is over, or asleep. */
  async overOr(asleep: Promise<void>): Promise<void> {
    await Promise.race([this.#ended, asleep]);
  }

  /** When it is over. */
  stop(): Promise<void> {
    this.#controller.abort();
    return this.#ended;
  }
}
