/**
 * Time that passes when a test says so, for several threads at once.
 *
 * Threads that run are counted; while one does, time stands still. When all of them sleep or wait, time
 * goes on to the next alarm. So a thread takes no time except what it sleeps, and what two threads do is
 * the same in every run.
 */

import { IDBFactory } from "fake-indexeddb";
import type { TokenMaker } from "../src/accounts.js";
import type { Client, News } from "../src/client.js";
import type { Entropy } from "../src/coin.js";
import type { Terms } from "../src/epoch.js";
import type { PastRelease } from "../src/fetching.js";
import { History } from "../src/history.js";
import { Network } from "../src/network.js";
import type { OpenOptions } from "../src/options.js";
import { type LookStatus, Poller } from "../src/polling.js";
import { Store } from "../src/store.js";
import type { Job } from "../src/syncing.js";
import type { Timer } from "../src/timer.js";
import { seeded } from "./vectors.js";
import { DAY, type World } from "./world.js";

interface Alarm {
  at: number;
  handle: number;
  ring: () => void;
}

export class Virtual implements Timer {
  time = 1.5 * DAY;
  /** What somebody has done to the clock that can be set. */
  skew = 0;
  #running = 0;
  /** Somebody waits until nothing runs: to look again and again would keep a core busy. */
  #rest = () => {};
  #alarms: Alarm[] = [];
  #handles = 0;

  clock = () => this.time + this.skew;
  now = () => this.time;

  /** Do some work on a thread of its own. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#end();
    }
  }

  /** Let others go on while a thread that runs waits. */
  async waiting<Result>(promise: Promise<Result>): Promise<Result> {
    this.#end();
    try {
      return await promise;
    } finally {
      this.#running += 1;
    }
  }

  sleep = (seconds: number) =>
    this.waiting(new Promise<void>((done) => void this.#set(seconds, done)));

  start = (seconds: number, work: () => Promise<void>) =>
    this.#set(seconds, () => void this.run(work));

  stop = (handle: number) => {
    this.#alarms = this.#alarms.filter((alarm) => alarm.handle !== handle);
  };

  async pass(seconds: number): Promise<void> {
    const end = this.time + seconds;
    for (;;) {
      await this.#quiet();
      this.#alarms.sort((one, other) => one.at - other.at || one.handle - other.handle);
      const [next] = this.#alarms;
      if (next === undefined || next.at > end) break;
      this.#alarms.shift();
      this.time = Math.max(this.time, next.at);
      next.ring();
    }
    this.time = end;
  }

  async #quiet(): Promise<void> {
    for (let turns = 0; turns < 20; turns += 1) {
      await new Promise((done) => setImmediate(done));
      while (this.#running > 0) {
        await new Promise<void>((done) => {
          this.#rest = done;
        });
      }
    }
  }

  #end(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#rest();
  }

  #set(seconds: number, ring: () => void): number {
    this.#handles += 1;
    this.#alarms.push({ at: this.time + Math.max(seconds, 0), handle: this.#handles, ring });
    return this.#handles;
  }
}

/** As `navigator.locks`. */
export class Locks {
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(private readonly virtual: Virtual) {}

  async request<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(name) ?? Promise.resolve();
    let end = () => {};
    const release = new Promise<void>((done) => {
      end = done;
    });
    this.#last.set(name, release);
    await this.virtual.waiting(before);
    try {
      return await work();
    } finally {
      end();
    }
  }
}

/** One browser: what its tabs share. */
export class Browser {
  readonly virtual = new Virtual();
  readonly factory = new IDBFactory();
  readonly locks = new Locks(this.virtual);
  /** Every request of every tab: when, and what for. */
  readonly requests: [number, string][] = [];
  /** Seconds that everything takes which reads the history. */
  cost = 0;

  constructor(
    readonly world: World,
    readonly seed = 1,
  ) {}

  async tab(
    options: Partial<OpenOptions> & {
      jitter?: number;
      tokenMaker?: TokenMaker | null | undefined;
    } = {},
  ): Promise<Tab> {
    const { virtual, factory: indexedDB, world } = this;
    const name = "sottovoce";
    const random = seeded(this.seed);
    const entropy: Entropy = (size) => Uint8Array.from({ length: size }, () => random() * 256);
    const network = await Network.open({
      ...{ proxy: world.url, key: world.key, limit: 1e6, name, indexedDB, entropy, timer: virtual },
      ...options,
      locks: this.locks as unknown as LockManager,
      make: (job) => void virtual.run(() => tab.make(job)),
      fetch: (input, init) => {
        const { pathname } = new URL(String(input));
        this.requests.push([virtual.time, `${init?.method ?? "GET"} ${pathname}`]);
        return fetch(input, init);
      },
    });
    const history = await History.open({ name, indexedDB, timer: virtual });
    const tab: Tab = new Tab(this, network, history, options);
    return tab;
  }

  /** Make everything that reads the history take its time; return how to undo it. */
  slow(): () => void {
    const { virtual } = this;
    const touched = Store.prototype.readHistory;
    const browser = this;
    Store.prototype.readHistory = async function slowly() {
      await virtual.sleep(browser.cost);
      return touched.call(this);
    };
    return () => {
      Store.prototype.readHistory = touched;
    };
  }
}

/** As `Client`, with both of its workers on threads of this virtual time. */
export class Tab {
  /** What an application does when there is news. */
  hear: (news: News) => void = () => {};
  hearPast: (epoch: number, release: PastRelease | null) => void = () => {};
  readonly poller: Poller;
  #seen: LookStatus = { lastSync: null, sentAt: null, error: null };
  #telling: Promise<void> = Promise.resolve();

  constructor(
    readonly browser: Browser,
    readonly network: Network,
    readonly history: History,
    { pace = 5, pastModels = 0 }: Partial<OpenOptions>,
  ) {
    const listener = {
      onLook: (status: LookStatus) => void this.tell(status),
      onPastRelease: (epoch: number, release: PastRelease | null) => this.hearPast(epoch, release),
    };
    this.poller = new Poller(network, listener, { pace, pastModels, timer: browser.virtual });
  }

  /** Tell the application what is new, as `Client` does. */
  tell(seen = this.#seen): Promise<void> {
    this.#seen = seen;
    this.#telling = this.#telling.then(async () => {
      this.hear({ ...(await this.history.getStatus()), ...this.#seen });
    });
    return this.#telling;
  }

  async make(job: Job): Promise<void> {
    await this.history.make(job);
    void this.tell();
  }

  show(visible = true, online = true): void {
    this.poller.updateConditions({ visible, online });
  }

  // As an application asks, on the other thread.
  record: Client["record"] = (ids, { ordered = true } = {}) =>
    this.#compute(() => this.history.record(ids, ordered));
  remove = (ids: readonly string[]) => this.#compute(() => this.history.remove(ids));
  listTouched = () => this.#compute(() => this.history.listTouched());
  recommend: Client["recommend"] = (n = 10, { tagsOnly = false } = {}) =>
    this.#compute(() => this.history.recommend(n, tagsOnly));
  listSimilar = (id: string, n = 10) => this.#compute(() => this.history.listSimilar(id, n));
  score = (ids: readonly string[]) => this.#compute(() => this.history.score(ids));
  listPopular = (n = 10) => this.#compute(() => this.history.listPopular(n));
  listItems = () => this.#compute(() => this.history.listItems());
  summarize = (terms: Terms, limit: number) =>
    this.#compute(() => this.history.summarize(terms, limit));

  // And on the network's.
  accept = (terms: Terms, limit?: number) =>
    this.#choose(async (network) =>
      network.accept(terms, limit ?? (await network.store.readSettings()).limit),
    );
  withdraw = () => this.#choose((network) => network.withdraw());
  pause = (on: boolean) => this.#choose((network) => network.pause(on));
  setLimit = (limit: number) => this.#choose((network) => network.setLimit(limit));
  forget = () => this.#choose((network) => network.forget());

  async #choose(choice: (network: Network) => Promise<void>): Promise<void> {
    await this.browser.virtual.run(() => choice(this.network));
    this.poller.handleChoice();
  }

  #compute<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.browser.virtual.run(work);
  }
}
