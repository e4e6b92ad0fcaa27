/**
 * Three workers, told apart by their names: `network` speaks to the proxy and never reads what its owner
 * touched; `history` records and recommends, and `batches` makes batches, and both speak to nobody. From
 * the first to the last lies one channel, used in one direction: "make the batch of this epoch". So
 * nothing that can be seen from outside waits for a computation on a history, shares its thread, or asks
 * when it is done. And whatever an application asks of `history`, a batch does not queue behind it.
 */

import type { Account } from "./accounts.js";
import * as errors from "./errors.js";
import { History } from "./history.js";
import { Looking, Network, type Seen } from "./network.js";
import { type OpenOptions, systemTimer, within } from "./options.js";
import type { PastRelease } from "./release.js";
import type { Job } from "./syncing.js";
import type { Terms } from "./terms.js";
import { type Conditions, TICK } from "./timing.js";

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

/**
 * Questions to a worker and their answers. Each question gets exactly one answer, also if it fails, and
 * an error arrives as what it was.
 */

// biome-ignore lint/suspicious/noExplicitAny: the arguments are those of each function
export type Calls = Record<string, (...given: any[]) => unknown>;

/** What a worker, or the end of a channel, must be able to do. */
export interface Line {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  addEventListener(kind: "message", listener: (event: MessageEvent) => void): void;
}

interface Asked {
  number: number;
  name: string;
  given: unknown[];
}

type Answered = { number: number; value: unknown } | { number: number; failed: Told };

/** An error on its way. */
export interface Told {
  name: string;
  message: string;
  retryAfter: number | undefined;
  terms: { worse: readonly string[]; asked: Terms } | undefined;
}

export type Ask<Known extends Calls> = <Name extends keyof Known & string>(
  name: Name,
  ...given: Parameters<Known[Name]>
) => Promise<Awaited<ReturnType<Known[Name]>>>;

/**
 * Numbers the questions, and brings each answer to whoever asked; what is told unasked goes to `hear`.
 * Once it was ended, every question fails, also those that wait.
 */
export function connect<Known extends Calls>(
  line: Line,
  hear: (told: unknown) => void = () => {},
  ended: AbortSignal = new AbortController().signal,
): Ask<Known> {
  const pending = new Map<number, (answer: Answered) => void>();
  let asked = 0;
  const closed = (number: number) => ({ number, failed: told(new errors.SettingsError(CLOSED)) });
  ended.addEventListener("abort", () => {
    for (const [number, answer] of pending) answer(closed(number));
    pending.clear();
  });
  line.addEventListener("message", ({ data }: MessageEvent<Answered>) => {
    const waiting = pending.get(data.number);
    pending.delete(data.number);
    if (waiting === undefined) hear(data);
    else waiting(data);
  });
  return (name, ...given) =>
    new Promise((resolve, reject) => {
      asked += 1;
      pending.set(asked, (answer) => {
        if ("failed" in answer) reject(revived(answer.failed));
        else resolve(answer.value as Awaited<ReturnType<Known[typeof name]>>);
      });
      if (ended.aborted) return pending.get(asked)?.(closed(asked));
      const ports = given.filter((each) => each instanceof MessagePort);
      line.postMessage({ number: asked, name, given } satisfies Asked, ports);
    });
}

/**
 * Answers what is asked, one question after the other: none keeps another's transaction open. `heard` is
 * told after each whether it failed.
 */
export function serve(
  line: Line,
  calls: Calls,
  heard: (failed: Told | null) => void = () => {},
): void {
  let before: Promise<void> = Promise.resolve();
  line.addEventListener("message", ({ data }: MessageEvent<Asked>) => {
    before = before.then(async () => {
      const answered = await answer(calls, data);
      line.postMessage(answered);
      heard("failed" in answered ? answered.failed : null);
    });
  });
}

async function answer(calls: Calls, { number, name, given }: Asked): Promise<Answered> {
  try {
    return { number, value: await calls[name]?.(...given) };
  } catch (error) {
    return { number, failed: told(error) };
  }
}

/** As it can be sent: browsers keep neither the class nor the fields of an error. */
export function told(error: unknown): Told {
  const { name, message } = error instanceof Error ? error : { name: "", message: String(error) };
  const retryAfter = error instanceof errors.UnavailableError ? error.retryAfter : undefined;
  const terms =
    error instanceof errors.TermsError ? { worse: error.worse, asked: error.asked } : undefined;
  return { name, message, retryAfter, terms };
}

/** The error that it was; one that is none of ours is the storage's or the browser's. */
export function revived({ name, message, retryAfter, terms }: Told): errors.SottovoceError {
  if (terms !== undefined) return new errors.TermsError(terms.worse, terms.asked);
  if (name === "UnavailableError") return new errors.UnavailableError(message, retryAfter);
  if (name === "PostponedError") return new errors.PostponedError(message, retryAfter);
  const Kind = KINDS.find((each) => new each("").name === name) ?? errors.StoreError;
  return new Kind(message);
}

const CLOSED = "this client is closed";

const KINDS = [
  ...[errors.ClosedError, errors.LedgerError, errors.ProtocolError, errors.RefusedError],
  ...[errors.SettingsError, errors.SottovoceError, errors.StoreError, errors.UntrustedError],
];
