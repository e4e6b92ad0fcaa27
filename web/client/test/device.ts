/** Both sides of a client on one thread, for tests: what two workers do in a browser. */

import { Database } from "../src/database.js";
import type { SottovoceError } from "../src/errors.js";
import { Fetching } from "../src/fetching.js";
import { History } from "../src/history.js";
import type { Manifest } from "../src/manifest.js";
import { Network } from "../src/network.js";
import type { NetworkOptions } from "../src/options.js";
import { HttpProxy } from "../src/proxy.js";
import { STEP } from "../src/schedule.js";
import { Store } from "../src/store.js";
import type { Job, Synced } from "../src/syncing.js";
import { JITTER } from "../src/timing.js";
import type { Words } from "../src/words.js";
import type { World } from "./world.js";

export type Sleep = (seconds: number) => Promise<void>;

/** What a test may change. */
export type DeviceOptions = Partial<Omit<NetworkOptions, "timer" | "make" | "jitter">> & {
  sleep?: Sleep;
  words?: Words;
};

/** As far as it has to be known of the other thread: time stands still until it is done. */
class Making {
  done: Promise<void> = Promise.resolve();
  failed: SottovoceError | null = null;

  begin(history: History, job: Job): void {
    this.failed = null;
    this.done = history.make(job).catch((error) => {
      this.failed = error;
    });
  }
}

export class Device {
  readonly #networks = new Map<number, Network>();
  readonly #making = new Making();
  private history!: History;

  private constructor(
    private readonly world: World,
    private readonly options: DeviceOptions & { name: string; indexedDB: IDBFactory },
  ) {}

  static async open(world: World, given: DeviceOptions): Promise<Device> {
    const options = { name: "sottovoce", indexedDB: world.factory, ...given };
    const device = new Device(world, options);
    await device.#network(0);
    device.history = await History.open({ ...options, clock: () => world.now });
    return device;
  }

  async sync({ jitter = JITTER } = {}): Promise<Synced> {
    const network = await this.#network(jitter);
    const begun = await network.begin();
    if ("outcome" in begun) return begun;
    await this.#sleep(begun.until - STEP - this.world.now);
    try {
      return await network.goOn(begun);
    } finally {
      await this.#making.done;
    }
  }

  /** Fetches, and sends nothing. */
  async refresh(): Promise<Manifest> {
    const database = await Database.open(this.options.name, this.options.indexedDB);
    try {
      const { fetch } = this.options;
      const proxy = new HttpProxy(this.world.url, { clock: () => this.world.now, fetch });
      const instant = () => ({ clock: this.world.now, now: this.world.now });
      const store = new Store(database);
      const [settings, names] = [await store.settings(), await store.fileNames()];
      const known = { settings, names, waiting: undefined };
      return (await new Fetching(store, proxy, instant).refresh(known)).signed.manifest;
    } finally {
      database.close();
    }
  }

  async status() {
    const standing = await this.history.standing(null);
    const touched = await this.history.touched();
    const unknown = touched.filter(({ isKnown }) => !isKnown).map(({ id }) => id);
    return {
      ...standing,
      touched: touched.length,
      known: touched.length - unknown.length,
      unknown,
    };
  }

  record = (ids: readonly string[]) => this.history.record(ids);
  remove = (ids: readonly string[]) => this.history.remove(ids);
  touched = async () => (await this.history.touched()).map(({ id }) => id);
  recommend = (n = 10) => this.history.recommend(n);
  popular = (n = 10) => this.history.popular(n);
  catalogue = () => this.history.catalogue();
  accept = async (...[terms]: Parameters<Network["accept"]>) =>
    (await this.#network(0)).accept(terms);
  pause = async (on: boolean) => (await this.#network(0)).pause(on);
  setLimit = async (limit: number) => (await this.#network(0)).setLimit(limit);
  forget = async () => (await this.#network(0)).forget();
  release = async (epoch: number) => {
    const network = await this.#network(0);
    const settings = await network.settings();
    const present = await network.present(settings);
    return present?.manifest.epoch === epoch ? present : network.release(epoch, settings);
  };
  lastBatch = async () => (await this.status()).lastBatch;

  close(): void {
    this.history.close();
    for (const network of this.#networks.values()) network.close();
  }

  async #network(jitter: number): Promise<Network> {
    const known = this.#networks.get(jitter);
    if (known !== undefined) return known;
    const { world } = this;
    const { sleep: _, words: __, ...rest } = this.options;
    const network = await Network.open({
      ...{ proxy: world.url, key: world.key, limit: 100, locks: null },
      ...rest,
      jitter,
      make: (job) => this.#making.begin(this.history, job),
      timer: {
        clock: () => world.now,
        now: () => world.now,
        sleep: (seconds) => this.#sleep(seconds),
        start: () => 0,
        stop: () => undefined,
      },
    });
    this.#networks.set(jitter, network);
    return network;
  }

  /** What cannot be made is said here, where in a browser the other worker says it. */
  async #sleep(seconds: number): Promise<void> {
    const until = this.world.now + seconds;
    await this.#making.done;
    if (this.#making.failed !== null) throw this.#making.failed;
    if (this.options.sleep !== undefined) return this.options.sleep(seconds);
    this.world.now = Math.max(this.world.now, until);
  }
}
