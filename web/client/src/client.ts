/**
 * The client that an application in a browser uses.
 *
 * It starts three workers (see `workers`) and passes questions on to them. The worker `network`
 * looks for news and takes part by itself, at moments that depend on public data, random draws and
 * a clock. No call of an application causes a request before the next tick. So the times of
 * requests reveal nothing about the history, however an application uses this class and whatever it
 * waits for.
 */

import type { TokenMaker } from "./accounts.js";
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

/** The state of a client, and the result of its last look for news. */
export interface News extends ClientStatus, LookStatus {}

/** The options of a client in a page. */
export interface ClientOptions extends OpenOptions {
  /**
   * Receives the state of the client: after `open`, after every look, and after every choice of the
   * owner in any tab.
   */
  news?: (news: News) => unknown;
  /**
   * Receives the earlier models that the option `pastModels` requests; null for a model that is missing
   * or not valid.
   */
  pastRelease?: (epoch: number, release: PastRelease | null) => void;
  /**
   * Token maker, for services that require accounts: `createTokenMaker(attest)` of `sottovoce-client/accounts`.
   */
  tokenMaker?: TokenMaker | undefined;
  /**
   * Starts the worker script `sottovoce-worker.js` as a module. Default: starts the script next to
   * this one.
   */
  worker?: () => Worker;
}

/** A client with an open database in this browser. Every tab may have its own. */
export class Client {
  #lookStatus: LookStatus = { lastSync: null, sentAt: null, error: null };
  /** Error with which the last batch could not be made, or null. */
  #batchError: SottovoceError | null = null;
  /** Error with which the page could not request or make a token, or null. */
  #tokenError: SottovoceError | null = null;
  #pendingNews: Promise<void> = Promise.resolve();
  readonly #onCondition = () => this.#postConditions();

  private constructor(
    private readonly workers: readonly Worker[],
    private readonly network: Ask<NetworkCalls>,
    private readonly history: Ask<HistoryCalls>,
    private readonly end: AbortController,
    /**
     * Connects the tabs that use this database: each tab notifies the others after a choice of its
     * owner.
     */
    private readonly choices: BroadcastChannel,
    private readonly options: ClientOptions,
  ) {
    choices.onmessage = () => this.#sendNews();
  }

  /**
   * Open a client in this browser, or continue an existing one. It looks for news until it is
   * closed.
   */
  static async open(options: ClientOptions): Promise<Client> {
    const { news: _, pastRelease: __, tokenMaker, worker = startWorker, ...rest } = options;
    const workerOptions: WorkerOptions = { name: "sottovoce", ...rest };
    const end = new AbortController();
    const { port1, port2 } = new MessageChannel();
    // The network worker starts first: it must not wait for the workers that read the disk.
    const [network, history, batches] = WORKER_NAMES.map((name) => {
      const started = worker();
      started.postMessage(name);
      return started;
    }) as WorkerTriple;
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
      await asks.network(
        "open",
        workerOptions,
        port1,
        tokenMaker ? client.#serve(tokenMaker) : null,
      );
      client.#watchConditions();
      const opening = Promise.all([
        asks.history("open", workerOptions),
        asks.batches("open", workerOptions, port2),
      ]).then(() => undefined);
      client.#pendingNews = opening.catch(() => undefined); // news are sent only after the client is open
      await opening;
      client.#sendNews();
    } catch (error) {
      client.close();
      throw error;
    }
    return client;
  }

  /**
   * Add all of these items to the history in one transaction. Return how many were new.
   *
   * The items of one call count as touched together, and later than all items that were recorded
   * before. An item that is recorded again moves to the end. The latest 100,000 items stay.
   *
   * With `ordered: false` they count as touched together with the latest items instead. If all
   * items are recorded so, their order changes nothing.
   */
  record(ids: readonly string[], { ordered = true } = {}): Promise<number> {
    return this.history("record", ids, ordered);
  }

  /** Remove items from the history. Return how many of them were in it. */
  remove(ids: readonly string[]): Promise<number> {
    return this.history("remove", ids);
  }

  /** Return the history in the order of recording. */
  listTouched(): Promise<readonly TouchedItem[]> {
    return this.history("listTouched");
  }

  /**
   * Return the n best items that are not in the history, each with its reasons.
   *
   * With `tagsOnly` the list comes from tags alone, as it would be without anybody's reports.
   */
  recommend(n = 10, { tagsOnly = false } = {}): Promise<Recommendation[]> {
    return this.history("recommend", n, tagsOnly);
  }

  /**
   * Return the n items that most people touch, as the model estimates it. The list is the same for
   * everybody.
   */
  listPopular(n = 10): Promise<Item[]> {
    return this.history("listPopular", n);
  }

  /**
   * Return the n items that are most like one item. The list is the same for everybody, and nothing
   * is recorded. It is empty for an item that the catalogue lacks.
   */
  listSimilar(id: string, n = 10): Promise<Recommendation[]> {
    return this.history("listSimilar", id, n);
  }

  /**
   * Return the scores of items for the owner, to order a list of the application; null for an item
   * that the catalogue lacks. Scores of one call are comparable.
   */
  score(ids: readonly string[]): Promise<(number | null)[]> {
    return this.history("score", ids);
  }

  /** Return all items, in the order of the model's rows. */
  listItems(): Promise<readonly Item[]> {
    return this.history("listItems");
  }

  /** Return the figures of `computeSummary` for this device, computed in a worker. */
  summarize(terms: Terms, limit: number): Promise<PromiseSummary> {
    return this.history("summarize", terms, limit);
  }

  /**
   * Accept terms up to a limit of epsilon. Call this only after the owner saw the sentences for
   * exactly these values and said yes.
   *
   * Nothing is reported before the first yes, nor under worse terms than the accepted ones. Throws
   * a `SettingsError` and accepts nothing if the server asks for other terms by now.
   */
  accept(terms: Terms, limit: number): Promise<void> {
    return this.#choose(this.network("accept", terms, limit));
  }

  /**
   * Withdraw the consent, set the limit to 0, and delete the batches. Nothing more leaves until the
   * owner accepts terms again; a deleted batch never does.
   */
  withdraw(): Promise<void> {
    return this.#choose(this.network("withdraw"));
  }

  /** Stop all reporting, even of a batch that waits. `pause(false)` resumes. */
  pause(on = true): Promise<void> {
    return this.#choose(this.network("pause", on));
  }

  /** Set another limit of epsilon. What was spent before counts towards it. */
  setLimit(limit: number): Promise<void> {
    return this.#choose(this.network("setLimit", limit));
  }

  /**
   * Delete the history, the waiting batch, the readable copy of the last batch, and the model.
   *
   * The ledger stays, because reports that left cannot be undone. It names no items. Deleting the
   * site's data in the browser deletes the ledger too.
   */
  forget(): Promise<void> {
    return this.#choose(this.network("forget"));
  }

  /**
   * Close the client and end its workers. All later calls fail. The next `open` continues with the
   * stored data.
   */
  close(): void {
    this.end.abort();
    this.choices.close();
    for (const worker of this.workers) worker.terminate();
    for (const [target, event] of listConditionEvents())
      target.removeEventListener(event, this.#onCondition);
  }

  /**
   * Answer the network worker's questions about tokens. Return the port for that worker.
   *
   * Errors appear in the news.
   */
  #serve(tokenMaker: TokenMaker): MessagePort {
    const { port1, port2 } = new MessageChannel();
    serve(port1, { ...tokenMaker }, (error) => {
      this.#tokenError = error && toError(error);
      if (error) this.#sendNews();
    });
    port1.start();
    return port2;
  }

  /**
   * Notify the other tabs after a choice is stored. They read the database and make no requests.
   */
  async #choose(choice: Promise<void>): Promise<void> {
    try {
      await choice;
    } catch (error) {
      this.#sendNews(); // the news contain the new terms, which may be the reason
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

  /**
   * Send news one after the other, so that the last ones are the newest. The listener `news` is not
   * awaited.
   */
  #sendNews(): void {
    this.#pendingNews = this.#pendingNews.then(async () => {
      if (this.end.signal.aborted) return;
      try {
        const news = await this.#collectNews();
        void Promise.resolve(this.options.news?.(news)).catch(reportError);
      } catch (error) {
        // The next news are sent anyway; after `close` there are none.
        if (!this.end.signal.aborted) reportError(error);
      }
    });
  }

  /** Collect the state. The worker `history` reads it, because no request waits for that worker. */
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

function startWorker(): Worker {
  // Bundlers look for exactly this expression.
  return new Worker(new URL("./sottovoce-worker.js", import.meta.url), { type: "module" });
}
