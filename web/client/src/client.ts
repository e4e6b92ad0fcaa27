/**
 * The client itself: what an application in a browser calls.
 *
 * It starts three workers (`workers`) and passes on what is asked. One of them looks for news and takes
 * part by itself, at moments that come from public data, its own coins and a clock; no call makes it
 * ask the proxy before its next tick. So however an application uses this class, and
 * whatever it waits for, when the proxy is asked says nothing about what its owner touched.
 */

import type { Account } from "./accounts.js";
import type { Item } from "./catalogue.js";
import type { Terms } from "./epoch.js";
import { type SottovoceError, TermsError } from "./errors.js";
import type { PastRelease } from "./fetching.js";
import type { Standing, TouchedItem } from "./history.js";
import { type Ask, connect, revived, serve } from "./messages.js";
import type { OpenOptions } from "./options.js";
import type { Seen } from "./polling.js";
import type { Short } from "./promise.js";
import type { Recommendation } from "./recommending.js";
import type {
  BatchesCalls,
  BatchesTold,
  HistoryCalls,
  Named,
  NetworkCalls,
  NetworkTold,
  WorkerName,
} from "./workers.js";

/** Where a client stands, and how it last looked for news. */
export interface News extends Standing, Seen {
  /** In plain words, everything that would be worse about the terms in `asked`. */
  readonly worse: readonly string[];
}

export interface ClientOptions extends OpenOptions {
  /** Hears where the client stands: once it is open, and after every look and every choice of the owner. */
  news?: (news: News) => unknown;
  /** Hears of the models that `past` asks for; null where one is missing or cannot be believed. */
  pastRelease?: (epoch: number, release: PastRelease | null) => void;
  /** For services that ask for accounts: `account(attest)` of `sottovoce-client/accounts`. */
  account?: Account | undefined;
  /** Starts `sottovoce-worker.js` under this name. Default: the one beside this script. */
  worker?: (name: WorkerName) => Worker;
}

/** One database of this browser, opened. Every tab may have one of its own. */
export class Client {
  #seen: Seen = { synced: null, sentAt: null, error: null };
  /** Why the last batch could not be made, if it could not. */
  #notMade: SottovoceError | null = null;
  /** Why the page could not ask for a token, or make one, if it could not. */
  #noToken: SottovoceError | null = null;
  #telling: Promise<void> = Promise.resolve();
  readonly #follow = () => this.#tellConditions();

  private constructor(
    private readonly workers: readonly Worker[],
    private readonly network: Ask<NetworkCalls>,
    private readonly history: Ask<HistoryCalls>,
    private readonly end: AbortController,
    private readonly options: ClientOptions,
  ) {}

  /** Begin a client in this browser, or take it up where it was. It looks for news from now on. */
  static async open(options: ClientOptions): Promise<Client> {
    const { news: _, pastRelease: __, account, worker = started, ...rest } = options;
    const named: Named = { name: "sottovoce", ...rest };
    const end = new AbortController();
    const { port1, port2 } = new MessageChannel();
    // The network's first: what reads the disk later must not be waited for.
    const [network, history, batches] = WORKERS.map((each) => worker(each)) as Started;
    const hear = {
      network: (told: unknown) => client.#hearNetwork(told as NetworkTold),
      batches: (told: unknown) => client.#hearBatches(told as BatchesTold),
    };
    const asks = {
      network: connect<NetworkCalls>(network, hear.network, end.signal),
      history: connect<HistoryCalls>(history, () => {}, end.signal),
      batches: connect<BatchesCalls>(batches, hear.batches, end.signal),
    };
    const workers = [network, history, batches];
    const client = new Client(workers, asks.network, asks.history, end, options);
    try {
      await asks.network("open", named, port1, account ? client.#serve(account) : null);
      client.#followConditions();
      const opening = Promise.all([
        asks.history("open", named),
        asks.batches("open", named, port2),
      ]).then(() => undefined);
      client.#telling = opening.catch(() => undefined); // nothing is told before
      await opening;
      client.#tell();
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /**
   * Remember what the owner touched, all of it or nothing; how many were new. What is recorded in one
   * call was touched together, after all that was recorded before, also where it is recorded again.
   * The latest 100,000 are kept.
   */
  record(ids: readonly string[]): Promise<number> {
    return this.history("record", ids);
  }

  /** Forget some of what the owner touched; how many were there. */
  remove(ids: readonly string[]): Promise<number> {
    return this.history("remove", ids);
  }

  touched(): Promise<readonly TouchedItem[]> {
    return this.history("touched");
  }

  /**
   * The n best items that the owner has not touched, each with its reasons. By tags alone: the list that
   * there would be without anybody's reports, to compare.
   */
  recommend(n = 10, { byTagsAlone = false } = {}): Promise<Recommendation[]> {
    return this.history("recommend", n, byTagsAlone);
  }

  /** The n items that are touched most, as the model knows it; the same for everybody. */
  popular(n = 10): Promise<Item[]> {
    return this.history("popular", n);
  }

  /** Everything that there is, in the order of the model's rows. */
  catalogue(): Promise<readonly Item[]> {
    return this.history("catalogue");
  }

  /** The figures of `shortOf`, for this device and its limit: worked out by a worker. */
  short(terms: Terms): Promise<Short> {
    return this.history("short", terms);
  }

  /**
   * The owner was shown exactly these terms and said yes: nothing worse is reported under, and before
   * the first yes nothing at all.
   */
  accept(terms: Terms): Promise<void> {
    return this.network("accept", terms);
  }

  /** From now on nothing leaves, not even a batch that waits; `pause(false)` goes on. */
  pause(on = true): Promise<void> {
    return this.network("pause", on);
  }

  /** Another limit; what was spent stays spent. */
  setLimit(limit: number): Promise<void> {
    return this.network("setLimit", limit);
  }

  /**
   * Delete what the owner touched, the batch on its way, what was shown of it, and the model.
   *
   * The ledger stays, because what was spent stays spent: reports that left cannot be called back.
   * It holds no item. Who wants that gone too deletes the site's data in the browser.
   */
  forget(): Promise<void> {
    return this.network("forget");
  }

  /** End the workers. What they were at is taken up by the next `open`; every call fails from now on. */
  close(): void {
    this.end.abort();
    for (const worker of this.workers) worker.terminate();
    for (const [target, event] of conditionsOf()) target.removeEventListener(event, this.#follow);
  }

  /** To the network's worker, which is told nothing but the answers; what fails is told here. */
  #serve(account: Account): MessagePort {
    const { port1, port2 } = new MessageChannel();
    serve(port1, { ...account }, (failed) => {
      this.#noToken = failed && revived(failed);
      if (failed) this.#tell();
    });
    port1.start();
    return port2;
  }

  #hearNetwork(told: NetworkTold): void {
    if (told.kind === "past") {
      this.options.pastRelease?.(told.epoch, told.release);
    } else {
      const { error, ...seen } = told.seen;
      this.#seen = { ...seen, error: error && revived(error) };
      this.#tell();
    }
  }

  #hearBatches({ error }: BatchesTold): void {
    this.#notMade = error && revived(error);
    this.#tell();
  }

  /** One after the other: the last word is the newest. What `news` does with it is not waited for. */
  #tell(): void {
    this.#telling = this.#telling.then(async () => {
      if (this.end.signal.aborted) return;
      try {
        const news = await this.#news();
        void Promise.resolve(this.options.news?.(news)).catch(reportError);
      } catch (error) {
        reportError(error); // the next news are told all the same
      }
    });
  }

  /** What stands in the database is worked out by the worker that may take its time. */
  async #news(): Promise<News> {
    const seen = { ...this.#seen, error: this.#seen.error ?? this.#notMade ?? this.#noToken };
    const worse = seen.error instanceof TermsError ? seen.error : null;
    const standing = await this.history("standing", worse?.asked ?? null);
    return { ...standing, ...seen, worse: worse?.worse ?? [] };
  }

  #followConditions(): void {
    for (const [target, event] of conditionsOf()) target.addEventListener(event, this.#follow);
    this.#tellConditions();
  }

  #tellConditions(): void {
    const visible = globalThis.document?.visibilityState !== "hidden";
    const online = navigator.onLine !== false && !this.options.offline;
    void this.network("meet", { visible, online });
  }
}

/** In the order in which they are started. */
const WORKERS: readonly WorkerName[] = ["network", "history", "batches"];
type Started = [Worker, Worker, Worker];

/** What says that a page came into sight or went out of it, or the network did. */
function conditionsOf(): [EventTarget, string][] {
  const { document } = globalThis as { document?: Document };
  const seen: [EventTarget, string][] = document ? [[document, "visibilitychange"]] : [];
  return [...seen, [globalThis, "online"], [globalThis, "offline"]];
}

function started(name: WorkerName): Worker {
  return new Worker(new URL("./sottovoce-worker.js", import.meta.url), { type: "module", name });
}
