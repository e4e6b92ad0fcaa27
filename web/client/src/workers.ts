/**
 * Three workers, told apart by their names: `network` speaks to the proxy and never reads what its owner
 * touched; `history` records and recommends, and `batches` makes batches, and both speak to nobody. From
 * the first to the last lies one channel, used in one direction: "make the batch of this epoch". So
 * nothing that can be seen from outside waits for a computation on a history, shares its thread, or asks
 * when it is done. And whatever an application asks of `history`, a batch does not queue behind it.
 */

import type { Account } from "./accounts.js";
import type { Terms } from "./epoch.js";
import type { PastRelease } from "./fetching.js";
import { History } from "./history.js";
import { connect, type Line, serve, type Told, told } from "./messages.js";
import { Network } from "./network.js";
import { type OpenOptions, within } from "./options.js";
import { Looking, type Seen } from "./polling.js";
import { type Conditions, systemTimer, TICK } from "./schedule.js";
import type { Job } from "./syncing.js";

export { type Ask, connect, type Line, serve } from "./messages.js";

/** Options with every default filled in that both workers need. */
export type Named = OpenOptions & { name: string };

export type NetworkCalls = ReturnType<typeof networkCalls>;
export type HistoryCalls = ReturnType<typeof historyCalls>;
export type AccountCalls = Pick<Account, keyof Account>;
export type BatchesCalls = ReturnType<typeof batchesCalls>;

/** What the worker `network` tells unasked. */
export type NetworkTold =
  | { kind: "seen"; seen: Omit<Seen, "error"> & { error: Told | null } }
  | { kind: "past"; epoch: number; release: PastRelease | null };
/** What the worker `batches` tells unasked: whether the last one could be made. */
export type BatchesTold = { kind: "made"; error: Told | null };

/** The names under which `serveAs` is known. */
export type WorkerName = "network" | "history" | "batches";

const PACE = 30;

/** Does the work of one of them on this thread. */
export function serveAs(name: WorkerName, line: Line): void {
  const tell = (told: NetworkTold | BatchesTold) => line.postMessage(told);
  const calls = { network: networkCalls, history: historyCalls, batches: batchesCalls };
  serve(line, calls[name](tell));
}

function networkCalls(tell: (told: NetworkTold) => void) {
  let [network, looking] = [unopened<Network>(), unopened<Looking>()];
  const chosen = async (choose: (network: Network) => Promise<void>) => {
    await choose(network());
    looking().chosen();
  };
  return {
    async open(options: Named, batches: MessagePort, page: MessagePort | null): Promise<void> {
      const { pace = PACE, past = 0 } = options;
      const used = { pace: within("pace", pace, TICK, 3600), past, timer: systemTimer };
      const make = (job: Job) => batches.postMessage(job);
      const opened = await Network.open({ ...options, make, account: page && accountAt(page) });
      const begun = new Looking(opened, listenerOf(tell), used);
      [network, looking] = [() => opened, () => begun];
    },
    meet: (conditions: Conditions) => looking().meet(conditions),
    accept: (terms: Terms) => chosen((network) => network.accept(terms)),
    pause: (on: boolean) => chosen((network) => network.pause(on)),
    setLimit: (limit: number) => chosen((network) => network.setLimit(limit)),
    forget: () => chosen((network) => network.forget()),
  };
}

/** The page's, which alone can speak to the product's own backend for its owner. */
function accountAt(page: MessagePort): Account {
  const ask = connect<AccountCalls>(page);
  page.start();
  return {
    request: (...given) => ask("request", ...given),
    finalize: (...given) => ask("finalize", ...given),
  };
}

function listenerOf(tell: (told: NetworkTold) => void) {
  return {
    seen: ({ error, ...seen }: Seen) =>
      tell({ kind: "seen", seen: { ...seen, error: error && told(error) } }),
    past: (epoch: number, release: PastRelease | null) => tell({ kind: "past", epoch, release }),
  };
}

function historyCalls() {
  let history = unopened<History>();
  return {
    async open({ name }: Named): Promise<void> {
      const opened = await History.open({ name });
      history = () => opened;
    },
    record: (ids: readonly string[]) => history().record(ids),
    remove: (ids: readonly string[]) => history().remove(ids),
    touched: () => history().touched(),
    recommend: (n: number, byTagsAlone: boolean) => history().recommend(n, byTagsAlone),
    popular: (n: number) => history().popular(n),
    catalogue: () => history().catalogue(),
    standing: (asked: Terms | null) => history().standing(asked),
    short: (terms: Terms) => history().short(terms),
  };
}

function batchesCalls(tell: (told: BatchesTold) => void) {
  return {
    async open({ name }: Named, network: MessagePort): Promise<void> {
      const history = await History.open({ name });
      network.onmessage = async ({ data }: MessageEvent<Job>) => {
        tell({ kind: "made", error: await history.make(data).then(() => null, told) });
      };
    },
  };
}

/** `Client.open` asks for nothing else before it is open. */
function unopened<Side>(): () => Side {
  return () => {
    throw new Error("it is not open");
  };
}
