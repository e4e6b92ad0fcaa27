/**
 * The three workers of a client, and the messages between them and the page.
 *
 * The worker `network` sends requests to the proxy and never reads the owner's history. The worker
 * `history` records items and recommends; the worker `batches` makes batches. Neither of these two
 * makes requests. One channel leads from `network` to `batches`, in one direction only: it carries
 * the command to make the batch of an epoch.
 *
 * So no request waits for a computation on the history, shares a thread with one, or depends on
 * whether it is finished. Batches have a worker separate from `history`, so that a batch does not
 * wait while that worker answers the application.
 */

import type { TokenMaker } from "./accounts.js";
import type { Terms } from "./epoch.js";
import type { PastRelease } from "./fetching.js";
import { History } from "./history.js";
import { connect, type ErrorMessage, type Line, serve, toErrorMessage } from "./messages.js";
import { Network } from "./network.js";
import { checkRange, type OpenOptions } from "./options.js";
import { type LookStatus, Poller } from "./polling.js";
import { type Conditions, TICK_SECONDS } from "./schedule.js";
import type { Job } from "./syncing.js";
import { systemTimer } from "./timer.js";

export { type Ask, connect, type Line, serve } from "./messages.js";

/** Options of `Client.open`, with the default database name filled in. */
export type WorkerOptions = OpenOptions & { name: string };

export type NetworkCalls = ReturnType<typeof createNetworkCalls>;
export type HistoryCalls = ReturnType<typeof createHistoryCalls>;
export type TokenMakerCalls = Pick<TokenMaker, keyof TokenMaker>;
export type BatchesCalls = ReturnType<typeof createBatchesCalls>;

/**
 * A message from the worker `network` to the page: the result of a look for news, or the model of
 * an epoch for the learning curve.
 */
export type NetworkMessage =
  | { kind: "look"; status: Omit<LookStatus, "error"> & { error: ErrorMessage | null } }
  | { kind: "past"; epoch: number; release: PastRelease | null };
/** A message from the worker `batches` to the page. `error` is null if the last batch was made. */
export type BatchesMessage = { kind: "made"; error: ErrorMessage | null };

/** The names of the workers. */
export type WorkerName = "network" | "history" | "batches";

const DEFAULT_PACE_SECONDS = 30;

/** Answer the questions for the worker of this name on the current thread. */
export function serveAs(name: WorkerName, line: Line): void {
  const post = (message: NetworkMessage | BatchesMessage) => line.postMessage(message);
  const calls = {
    network: createNetworkCalls,
    history: createHistoryCalls,
    batches: createBatchesCalls,
  };
  serve(line, calls[name](post));
}

function createNetworkCalls(post: (message: NetworkMessage) => void) {
  let [network, poller] = [refuseBeforeOpen<Network>(), refuseBeforeOpen<Poller>()];
  const applyChoice = async (choose: (network: Network) => Promise<void>) => {
    await choose(network());
    poller().handleChoice();
  };
  return {
    async open(
      options: WorkerOptions,
      batches: MessagePort,
      page: MessagePort | null,
    ): Promise<void> {
      const { pace = DEFAULT_PACE_SECONDS, pastModels = 0 } = options;
      const pollingOptions = {
        pace: checkRange("pace", pace, TICK_SECONDS, 3600),
        pastModels,
        timer: systemTimer,
      };
      const make = (job: Job) => batches.postMessage(job);
      const newNetwork = await Network.open({
        ...options,
        make,
        tokenMaker: page && connectTokenMaker(page),
      });
      const newPoller = new Poller(newNetwork, createListener(post), pollingOptions);
      [network, poller] = [() => newNetwork, () => newPoller];
    },
    updateConditions: (conditions: Conditions) => poller().updateConditions(conditions),
    accept: (terms: Terms, limit: number) => applyChoice((network) => network.accept(terms, limit)),
    withdraw: () => applyChoice((network) => network.withdraw()),
    pause: (on: boolean) => applyChoice((network) => network.pause(on)),
    setLimit: (limit: number) => applyChoice((network) => network.setLimit(limit)),
    forget: () => applyChoice((network) => network.forget()),
  };
}

/**
 * Create a token maker that passes its calls to the page. Only the page can ask the product's backend.
 */
function connectTokenMaker(page: MessagePort): TokenMaker {
  const ask = connect<TokenMakerCalls>(page);
  page.start();
  return {
    request: (...args) => ask("request", ...args),
    finalize: (...args) => ask("finalize", ...args),
  };
}

function createListener(post: (message: NetworkMessage) => void) {
  return {
    onLook: ({ error, ...status }: LookStatus) =>
      post({ kind: "look", status: { ...status, error: error && toErrorMessage(error) } }),
    onPastRelease: (epoch: number, release: PastRelease | null) =>
      post({ kind: "past", epoch, release }),
  };
}

function createHistoryCalls() {
  let history = refuseBeforeOpen<History>();
  return {
    async open({ name }: WorkerOptions): Promise<void> {
      const opened = await History.open({ name });
      history = () => opened;
    },
    record: (ids: readonly string[], ordered: boolean) => history().record(ids, ordered),
    remove: (ids: readonly string[]) => history().remove(ids),
    listTouched: () => history().listTouched(),
    recommend: (n: number, tagsOnly: boolean) => history().recommend(n, tagsOnly),
    listPopular: (n: number) => history().listPopular(n),
    listItems: () => history().listItems(),
    listSimilar: (id: string, n: number) => history().listSimilar(id, n),
    score: (ids: readonly string[]) => history().score(ids),
    getStatus: () => history().getStatus(),
    summarize: (terms: Terms, limit: number) => history().summarize(terms, limit),
  };
}

function createBatchesCalls(post: (message: BatchesMessage) => void) {
  return {
    async open({ name }: WorkerOptions, network: MessagePort): Promise<void> {
      const history = await History.open({ name });
      network.onmessage = async ({ data }: MessageEvent<Job>) => {
        post({ kind: "made", error: await history.make(data).then(() => null, toErrorMessage) });
      };
    },
  };
}

/**
 * Return a placeholder that throws until the worker is open. `Client.open` asks nothing before
 * that.
 */
function refuseBeforeOpen<Side>(): () => Side {
  return () => {
    throw new Error("the client is not open yet");
  };
}
