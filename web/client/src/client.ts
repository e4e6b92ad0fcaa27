/**
 * The client itself: what an application in a browser calls.
 *
 * It starts three workers (`workers`) and passes questions on to them. One of them looks for news
 * and takes part by itself, at moments that come from public data, random draws and a clock. No
 * call makes it ask the proxy before its next tick. So however an application uses this class, and
 * whatever it waits for, the times of requests reveal nothing about what its owner touched.
 */

import type { Account } from "./accounts.js";
import type { Item } from "./catalogue.js";
import type { Terms } from "./epoch.js";
import type { SottovoceError } from "./errors.js";
import type { PastRelease } from "./fetching.js";
import type { ClientStatus, TouchedItem } from "./history.js";
import { type Ask, connect, serve, toError } from "./messages.js";
import type { OpenOptions } from "./options.js";
import type { LookStatus } from "./polling.js";
import type { PromiseSummary } from "./promise.js";
import type { Recommendation } from "./recommending.js";
import type {
  BatchesCalls,
  BatchesMessage,
  HistoryCalls,
  NetworkCalls,
  NetworkMessage,
  WorkerName,
  WorkerOptions,
} from "./workers.js";

/** The state of a client, and how it last looked for news. */
export interface News extends ClientStatus, LookStatus {}

/** The options of a client in a page. */
export interface ClientOptions extends OpenOptions {
  /**
   * Receives the state of the client: after `open`, and after every look and every choice of the
   * owner, in whatever tab.
   */
  news?: (news: News) => unknown;
  /** Receives the models that `past` asks for; null for one that is missing or not valid. */
  pastRelease?: (epoch: number, release: PastRelease | null) => void;
  /** For services that ask for accounts: `createAccount(attest)` of `sottovoce-client/accounts`. */
  account?: Account | undefined;
  /** Starts `sottovoce-worker.js` under this name. Default: the one next to this script. */
  worker?: (name: WorkerName) => Worker;
}

/** One open database of this browser. Every tab may have one of its own. */
export class Client {
  #lookStatus: LookStatus = { lastSync: null, sentAt: null, error: null };
  /** Why the last batch could not be made, or null. */
  #batchError: SottovoceError | null = null;
  /** Why the page could not request or make a token, or null. */
  #tokenError: SottovoceError | null = null;
  #pendingNews: Promise<void> = Promise.resolve();
  readonly #onCondition = () => this.#postConditions();

  private constructor(
    private readonly workers: readonly Worker[],
    private readonly network: Ask<NetworkCalls>,
    private readonly history: Ask<HistoryCalls>,
    private readonly end: AbortController,
    /** Connects the tabs of this database: each tells the others that its owner has chosen. */
    private readonly choices: BroadcastChannel,
    private readonly options: ClientOptions,
  ) {
    choices.onmessage = () => this.#sendNews();
  }

  /**
   * Open a client in this browser, or continue the one that is there. From now on it looks for
   * news.
   */
  static async open(options: ClientOptions): Promise<Client> {
    const { news: _, pastRelease: __, account, worker = startWorker, ...rest } = options;
    const workerOptions: WorkerOptions = { name: "sottovoce", ...rest };
    const end = new AbortController();
    const { port1, port2 } = new MessageChannel();
    // The network worker starts first: it must not wait for the workers that read the disk.
    const [network, history, batches] = WORKER_NAMES.map((name) => worker(name)) as WorkerTriple;
    const listeners = {
      network: (message: unknown) => client.#handleNetwork(message as NetworkMessage),
      batches: (message: unknown) => client.#handleBatches(message as BatchesMessage),
    };
    const asks = {
      network: connect<NetworkCalls>(network, listeners.network, end.signal),
      history: connect<HistoryCalls>(history, () => {}, end.signal),
      batches: connect<BatchesCalls>(batches, listeners.batches, end.signal),
    };
    const workers = [network, history, batches];
    const choices = new BroadcastChannel(`sottovoce ${workerOptions.name}`);
    const client = new Client(workers, asks.network, asks.history, end, choices, options);
    try {
      await asks.network("open", workerOptions, port1, account ? client.#serve(account) : null);
      client.#watchConditions();
      const opening = Promise.all([
        asks.history("open", workerOptions),
        asks.batches("open", workerOptions, port2),
      ]).then(() => undefined);
      client.#pendingNews = opening.catch(() => undefined); // news wait until the client is open
      await opening;
      client.#sendNews();
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /**
   * Add items to the history, all or nothing, and return how many were new.
   *
   * Items of one call count as touched together, after all that were recorded before, even if they
   * are recorded again. The latest 100,000 stay.
   */
  record(ids: readonly string[]): Promise<number> {
    return this.history("record", ids);
  }

  /** Remove items from the history, and return how many were there. */
  remove(ids: readonly string[]): Promise<number> {
    return this.history("remove", ids);
  }

  /** Return the history in the order of recording. */
  listTouched(): Promise<readonly TouchedItem[]> {
    return this.history("listTouched");
  }

  /**
   * Return the n best items that the owner has not touched, each with its reasons.
   *
   * `tagsOnly` gives the list that there would be without anybody's reports, to compare.
   */
  recommend(n = 10, { tagsOnly = false } = {}): Promise<Recommendation[]> {
    return this.history("recommend", n, tagsOnly);
  }

  /**
   * Return the n items that are touched most, as the model estimates it; the same for everybody.
   */
  listPopular(n = 10): Promise<Item[]> {
    return this.history("listPopular", n);
  }

  /** Return all items, in the order of the model's rows. */
  listItems(): Promise<readonly Item[]> {
    return this.history("listItems");
  }

  /**
   * Return the figures of `computeSummary` for this device up to a limit; a worker computes them.
   */
  summarize(terms: Terms, limit: number): Promise<PromiseSummary> {
    return this.history("summarize", terms, limit);
  }

  /**
   * Accept terms up to a limit: the owner saw the sentences of exactly these and said yes.
   *
   * Nothing is reported under worse terms, and nothing before the first yes. `SettingsError` if the
   * server asks for other terms by now: nothing was accepted then.
   */
  accept(terms: Terms, limit: number): Promise<void> {
    return this.#choose(this.network("accept", terms, limit));
  }

  /**
   * Take the yes back, and set the limit to 0: nothing more leaves until the owner accepts again.
   */
  withdraw(): Promise<void> {
    return this.#choose(this.network("withdraw"));
  }

  /** Stop everything from leaving, even a batch that waits; `pause(false)` resumes. */
  pause(on = true): Promise<void> {
    return this.#choose(this.network("pause", on));
  }

  /** Set another limit; what was spent stays spent. */
  setLimit(limit: number): Promise<void> {
    return this.#choose(this.network("setLimit", limit));
  }

  /**
   * Delete what the owner touched, the waiting batch, its readable copy, and the model.
   *
   * The ledger stays, because reports that left cannot be undone. It has no item. Deleting the
   * site's data in the browser deletes it too.
   */
  forget(): Promise<void> {
    return this.#choose(this.network("forget"));
  }

  /** End the workers. The next `open` continues their work; every call fails from now on. */
  close(): void {
    this.end.abort();
    this.choices.close();
    for (const worker of this.workers) worker.terminate();
    for (const [target, event] of listConditionEvents())
      target.removeEventListener(event, this.#onCondition);
  }

  /**
   * Answer the network worker's questions about tokens; it gets only answers, errors go to the
   * news.
   */
  #serve(account: Account): MessagePort {
    const { port1, port2 } = new MessageChannel();
    serve(port1, { ...account }, (error) => {
      this.#tokenError = error && toError(error);
      if (error) this.#sendNews();
    });
    port1.start();
    return port2;
  }

  /** Tell the other tabs of a choice once it is stored; they read the database, and ask nobody. */
  async #choose(choice: Promise<void>): Promise<void> {
    try {
      await choice;
    } catch (error) {
      this.#sendNews(); // why a yes was refused: other terms
      throw error;
    }
    if (!this.end.signal.aborted) this.choices.postMessage(null);
  }

  #handleNetwork(message: NetworkMessage): void {
    if (message.kind === "past") {
      this.options.pastRelease?.(message.epoch, message.release);
    } else {
      const { error, ...status } = message.status;
      this.#lookStatus = { ...status, error: error && toError(error) };
      this.#sendNews();
    }
  }

  #handleBatches({ error }: BatchesMessage): void {
    this.#batchError = error && toError(error);
    this.#sendNews();
  }

  /** Send the news one after the other, so that the last are the newest; `news` is not awaited. */
  #sendNews(): void {
    this.#pendingNews = this.#pendingNews.then(async () => {
      if (this.end.signal.aborted) return;
      try {
        const news = await this.#collectNews();
        void Promise.resolve(this.options.news?.(news)).catch(reportError);
      } catch (error) {
        reportError(error); // the next news are sent anyway
      }
    });
  }

  /** Collect the state. The worker that may take its time reads the database. */
  async #collectNews(): Promise<News> {
    const lookStatus = {
      ...this.#lookStatus,
      error: this.#lookStatus.error ?? this.#batchError ?? this.#tokenError,
    };
    return { ...(await this.history("getStatus")), ...lookStatus };
  }

  #watchConditions(): void {
    for (const [target, event] of listConditionEvents())
      target.addEventListener(event, this.#onCondition);
    this.#postConditions();
  }

  #postConditions(): void {
    const visible = globalThis.document?.visibilityState !== "hidden";
    const online = navigator.onLine !== false && !this.options.offline;
    void this.network("updateConditions", { visible, online });
  }
}

/** The workers in the order in which they are started. */
const WORKER_NAMES: readonly WorkerName[] = ["network", "history", "batches"];
type WorkerTriple = [Worker, Worker, Worker];

/** Return the events of a page that becomes visible or hidden, and of the network. */
function listConditionEvents(): [EventTarget, string][] {
  const { document } = globalThis as { document?: Document };
  const pageEvents: [EventTarget, string][] = document ? [[document, "visibilitychange"]] : [];
  return [...pageEvents, [globalThis, "online"], [globalThis, "offline"]];
}

function startWorker(name: WorkerName): Worker {
  return new Worker(new URL("./sottovoce-worker.js", import.meta.url), { type: "module", name });
}
