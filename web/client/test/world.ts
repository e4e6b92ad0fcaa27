/**
 * A server's keys and files, a proxy behind a real socket, a browser's storage in memory, and both sides of a
 * client on one thread: what two workers do in a browser.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { concatenate, encodeUtf8, fromHex, hashSha256, toHex } from "../src/bytes.js";
import type { Words } from "../src/coin.js";
import type { Manifest, Terms } from "../src/epoch.js";
import type { SottovoceError } from "../src/errors.js";
import { STEP_SECONDS } from "../src/grid.js";
import { History } from "../src/history.js";
import { HPKE_SUITE } from "../src/manifest.js";
import { Network } from "../src/network.js";
import type { NetworkOptions } from "../src/options.js";
import { hpkeSuite } from "../src/sealing.js";
import type { Job, SyncResult } from "../src/syncing.js";
import type { ItemTags } from "../src/tags.js";
import { toFields } from "../src/terms.js";
import { JITTER_SECONDS } from "../src/timing.js";
import { openSealed, seeded } from "./vectors.js";

export const ITEMS = 50;
export const FACTORS = 3;

export function item(number: number): string {
  return `secret-item-${String(number).padStart(4, "0")}`;
}

const ROUNDS_FACTOR = Number(process.env.SOTTOVOCE_ROUNDS ?? 1);
export const IS_NIGHTLY = ROUNDS_FACTOR > 1;

/** Return a number of rounds: `make nightly` plays several times as many of the same sequence. */
export function rounds(byDay: number): number {
  return byDay * ROUNDS_FACTOR;
}

export function itemMatrix(epoch: number): Float32Array {
  const random = seeded(epoch);
  return Float32Array.from({ length: ITEMS * FACTORS }, (_, place) => {
    // Multiples of 2^-9 are exact in bfloat16 if they are below 1/2.
    return Math.round(((random() - 0.5) * 0.4 + (place % FACTORS === 0 ? 0.2 : 0)) * 512) / 512;
  });
}

export function encodeModel(values: Float32Array, rows: number, columns: number): Uint8Array {
  const item_matrix = {
    dtype: "BF16",
    shape: [columns, rows],
    data_offsets: [0, 2 * values.length],
  };
  const header = encodeUtf8(JSON.stringify({ item_matrix }));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(header.length), true);
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  // The upper half of a float32, which is exact for what tests publish.
  const halves = Uint16Array.from(
    bits,
    (_, at) => (bits[(at % rows) * columns + Math.floor(at / rows)] as number) >>> 16,
  );
  return concatenate([length, header, new Uint8Array(halves.buffer)]);
}

const GENRES = ["Horror", "Comedy", "Drama"];

/** Return tags: a label that all items have, one that a third of them have, and a number. */
export function traitsOf(number: number): ItemTags {
  const genre = ["x".repeat(100), GENRES[number % GENRES.length] as string];
  return { genre, year: 1980 + (number % 7) };
}

export function encodeCatalogue(length: number, traits = traitsOf): Uint8Array {
  const items = Array.from({ length }, (_, number) => {
    return { id: item(number), title: `Title ${number}`, tags: traits(number) };
  });
  return encodeUtf8(JSON.stringify({ version: 2, items }));
}

/** Read the whole database, as any program of this origin could. */
export async function dump(
  factory: IDBFactory,
  name = "sottovoce",
): Promise<Record<string, unknown[]>> {
  const database = await promised(factory.open(name));
  const names = [...database.objectStoreNames];
  const transaction = database.transaction(names, "readonly");
  const rows: Record<string, unknown[]> = {};
  for (const store of names) {
    rows[store] = await promised(transaction.objectStore(store).getAll());
  }
  database.close();
  return rows;
}

/** Change a database behind a client's back. */
export async function meddle(
  factory: IDBFactory,
  store: string,
  work: (store: IDBObjectStore) => IDBRequest,
): Promise<void> {
  const database = await promised(factory.open("sottovoce"));
  await promised(work(database.transaction(store, "readwrite").objectStore(store)));
  database.close();
}

interface ChargeRow {
  training: string;
  epoch: number;
  purpose: string;
  epsilon: number;
  reports: number;
  loudFraction: number;
  clients: number;
  dummies: number;
}

/** Read the ledger, in the order of epochs. */
export async function charges(world: World, name = "sottovoce"): Promise<ChargeRow[]> {
  const rows = (await dump(world.factory, name)).charges as ChargeRow[];
  return rows.sort((a, b) => a.epoch - b.epoch);
}

function promised<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export type Sleep = (seconds: number) => Promise<void>;

/** What a test may change. */
export type DeviceOptions = Partial<Omit<NetworkOptions, "timer" | "make" | "jitter">> & {
  sleep?: Sleep;
  words?: Words;
};

/** What a client needs of its other thread: time stands still until a batch is made. */
class BatchMaker {
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
  readonly #maker = new BatchMaker();
  private history!: History;

  private constructor(
    private readonly world: World,
    private readonly options: DeviceOptions & { name: string; indexedDB: IDBFactory },
  ) {}

  static async open(world: World, chosen: DeviceOptions): Promise<Device> {
    const options = { name: "sottovoce", indexedDB: world.factory, ...chosen };
    const device = new Device(world, options);
    await device.#network(0);
    device.history = await History.open({
      ...options,
      timer: { clock: () => world.now, now: () => world.now, sleep: async () => {} },
    });
    return device;
  }

  async sync({ jitter = JITTER_SECONDS } = {}): Promise<SyncResult> {
    const network = await this.#network(jitter);
    const begun = await network.syncing.start();
    if ("outcome" in begun) return begun;
    await this.#sleep(begun.resumeAt - STEP_SECONDS - this.world.now);
    try {
      return await network.syncing.resume(begun);
    } finally {
      await this.#maker.done;
    }
  }

  /** Fetch, and send nothing. */
  async refresh(): Promise<Manifest> {
    const { fetching, store } = await this.#network(0);
    const [settings, names] = [await store.readSettings(), await store.listFiles()];
    return (await fetching.refresh({ settings, files: names, waiting: undefined })).signed.manifest;
  }

  async status() {
    const standing = await this.history.getStatus();
    const touched = await this.history.listTouched();
    const unknown = touched.filter(({ isKnown }) => !isKnown).map(({ id }) => id);
    return {
      ...standing,
      touched: touched.length,
      knownItems: touched.length - unknown.length,
      unknown,
    };
  }

  record = (ids: readonly string[], { ordered = true } = {}) => this.history.record(ids, ordered);
  remove = (ids: readonly string[]) => this.history.remove(ids);
  touched = async () => (await this.history.listTouched()).map(({ id }) => id);
  recommend = (n = 10) => this.history.recommend(n);
  popular = (n = 10) => this.history.listPopular(n);
  catalogue = () => this.history.listItems();
  summarize = (terms: Terms, limit: number) => this.history.summarize(terms, limit);
  accept = async (terms: Terms, limit?: number) => {
    const network = await this.#network(0);
    await network.accept(terms, limit ?? (await network.store.readSettings()).limit);
  };
  withdraw = async () => (await this.#network(0)).withdraw();
  pause = async (on: boolean) => (await this.#network(0)).pause(on);
  setLimit = async (limit: number) => (await this.#network(0)).setLimit(limit);
  forget = async () => (await this.#network(0)).forget();
  release = async (epoch: number) => {
    const { fetching, store } = await this.#network(0);
    const present = await fetching.loadCurrent();
    if (present?.manifest.epoch === epoch) return present;
    return fetching.fetchPast(epoch, await store.readSettings());
  };
  lastBatch = async () => (await this.status()).lastBatch;

  close(): void {
    this.history.close();
    for (const network of this.#networks.values()) network.close();
  }

  async #network(jitter: number): Promise<Network> {
    const existing = this.#networks.get(jitter);
    if (existing !== undefined) return existing;
    const { world } = this;
    const { sleep: _, words: __, ...rest } = this.options;
    const network = await Network.open({
      ...{ proxy: world.url, key: world.key, limit: 100, locks: null },
      ...rest,
      jitter,
      make: (job) => this.#maker.begin(this.history, job),
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

  /** Sleep, and throw the error of a failed batch, which in a browser comes from the other worker. */
  async #sleep(seconds: number): Promise<void> {
    const until = this.world.now + seconds;
    await this.#maker.done;
    if (this.#maker.failed !== null) throw this.#maker.failed;
    if (this.options.sleep !== undefined) return this.options.sleep(seconds);
    this.world.now = Math.max(this.world.now, until);
  }
}

export const REPORTS = 4;
export const EPSILON = 2.5;
export const COST = REPORTS * EPSILON;
export const DAY = 86_400;
export const TERMS: Terms = {
  training: "0f".repeat(16),
  mechanism: "loudest",
  parameters: { directions_seed: 3, block: 64, loud: 10 },
  epsilon: EPSILON,
  loudFraction: 0.1,
  reports: REPORTS,
  epochs: 1000,
  share: 1,
  minClients: 10, // the bound of a larger crowd takes longer
  hold: 0,
  dummies: 0,
  factors: FACTORS,
  maxItems: 2 * ITEMS,
  accounts: false,
  trial: false,
};
/** The same terms where dummies carry the promise: as many directions are loud as they allow. */
export const DUMMY_TERMS: Terms = {
  ...TERMS,
  parameters: { ...TERMS.parameters, loud: 38 },
  dummies: 40,
};
/** Seconds between the decision to make a batch and the moment at which it leaves. */
export const LEAD = 5 + (ITEMS * (FACTORS ** 2 + 256)) / 2 ** 23 + REPORTS / 200;
/** Return the first moment from this one on at which a request can leave: every world begins on the grid. */
export const onGrid = (moment: number) => Math.ceil(moment / STEP_SECONDS - 1e-6) * STEP_SECONDS;
/** For a sync that does not wait for a moment that was drawn. */
export const AT_ONCE = { jitter: 0 };

/** Fields of a manifest, as they are written; those of its terms replace one by one. */
export type Changes = Record<string, unknown> & { terms?: Record<string, unknown> };
export type Call =
  | ("manifest" | "shelf" | "manifests" | "models" | "catalogues" | "patches")
  | ("batches" | "taken");

export interface Signed {
  raw: Uint8Array;
  hash: Uint8Array;
  fields: Changes;
}

export interface Recorded {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Uint8Array;
}

/** Answers in the proxy's place; false: the proxy answers itself. */
export type Answer = (
  response: ServerResponse,
  call: Call,
  body: Uint8Array,
) => boolean | Promise<boolean>;

const ITSELF: Answer = () => false;

/** Return the same words every time, so that tests can make the same reports again. */
export function sameWords(reports: number): BigUint64Array {
  const random = seeded(7);
  return BigUint64Array.from(
    { length: (reports + 1) * 4 },
    () =>
      BigInt(Math.floor(random() * 2 ** 32)) * 2n ** 32n + BigInt(Math.floor(random() * 2 ** 32)),
  );
}

/** Epoch e is open during day e. */
export class World {
  now = 1.5 * DAY;
  factory = new IDBFactory();
  readonly files = new Map<string, Uint8Array>();
  readonly earlier = new Map<number, Uint8Array>();
  readonly requests: Recorded[] = [];
  readonly received: Uint8Array[] = [];
  readonly #epochKeys = new Map<number, CryptoKeyPair>();
  readonly #server: Server;
  readonly #statements: Uint8Array[] = [];
  #shelf = { published: 0, catalogue: "" };
  /** Hash of the patch that the next shelf names. */
  patch: string | null = null;
  manifest = new Uint8Array();
  shelf = new Uint8Array();
  answer = ITSELF;
  url = "";

  private constructor(
    private signing: CryptoKeyPair,
    readonly key: string,
    private readonly changes: Changes,
  ) {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  static async begin(test: TestContext, changes: Changes = {}): Promise<World> {
    const signing = await newSigningKey();
    const world = new World(signing, toHex(await rawKey(signing)), changes);
    await new Promise<void>((done) => world.#server.listen(0, "127.0.0.1", done));
    world.url = `http://127.0.0.1:${(world.#server.address() as AddressInfo).port}`;
    test.after(() => world.stop());
    await world.publish(1);
    return world;
  }

  stop(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()));
    this.#server.closeAllConnections();
    return closed;
  }

  open(options: DeviceOptions = {}): Promise<Device> {
    return Device.open(this, options);
  }

  /** Open a client whose owner has accepted the usual terms. */
  async accepted(options: DeviceOptions = {}): Promise<Device> {
    const client = await this.open(options);
    await client.accept(TERMS);
    return client;
  }

  /** Open a client whose owner has accepted them and touched three items. */
  async client(options: DeviceOptions = {}): Promise<Device> {
    const client = await this.accepted(options);
    await client.record([item(3), item(7), item(20)]);
    return client;
  }

  /** Serve an epoch from now on. */
  async publish(epoch: number, changes: Changes = {}): Promise<Signed> {
    const signed = await this.signed(epoch, changes);
    this.manifest = new Uint8Array(signed.raw);
    this.earlier.set(epoch, signed.raw);
    const { opens, catalogue } = signed.fields as { opens: number; catalogue: string };
    const { published, catalogue: before } = this.#shelf;
    await this.layOut(Math.max(opens, published + Number(before !== catalogue)), catalogue);
    return signed;
  }

  /** Serve this shelf from now on. */
  async layOut(published: number, catalogue: string, by = this.signing): Promise<void> {
    const text = encodeUtf8(
      JSON.stringify({ version: 2, published, catalogue, patch: this.patch }),
    );
    const signature = await sign(by, "sottovoce shelf 2", text);
    this.shelf = concatenate([this.#head("SVS2"), signature, text]);
    this.#shelf = { published, catalogue };
  }

  async signed(epoch: number, changes: Changes = {}, by = this.signing): Promise<Signed> {
    const terms = { ...toFields(TERMS), ...this.changes.terms, ...changes.terms };
    const fields = { ...(await this.#fields(epoch)), ...this.changes, ...changes, terms };
    const text = encodeUtf8(JSON.stringify(fields));
    const signature = await sign(by, "sottovoce manifest 2", text);
    const raw = concatenate([this.#head("SVM2"), signature, text]);
    return { raw, hash: await hashSha256(text), fields };
  }

  #head(magic: string): Uint8Array {
    const count = Uint8Array.of(this.#statements.length);
    return concatenate([encodeUtf8(magic), count, ...this.#statements]);
  }

  /** Name the server's next key, and sign with that one from now on. */
  async turnKey(): Promise<string> {
    const next = await newSigningKey();
    const [before, after] = [await rawKey(this.signing), await rawKey(next)];
    const signature = await sign(this.signing, "sottovoce key 2", concatenate([before, after]));
    this.#statements.push(concatenate([after, signature]));
    this.signing = next;
    return toHex(after);
  }

  /** Serve a file; return its hash. */
  async add(content: Uint8Array): Promise<string> {
    const hash = toHex(await hashSha256(content));
    this.files.set(hash, content);
    return hash;
  }

  calls(): string[] {
    return this.requests.map(callOf);
  }

  /** Open a sealed batch as the server does; return its reports. */
  async opened(batch: Uint8Array): Promise<number[]> {
    const view = new DataView(batch.buffer, batch.byteOffset);
    const { privateKey } = await this.#epochKey(view.getUint32(4, true));
    return openSealed(batch.subarray(56), privateKey, batch.subarray(8, 40));
  }

  async #fields(epoch: number): Promise<Changes> {
    const key = await this.#epochKey(epoch);
    return {
      ...{ version: 2, suite: HPKE_SUITE, epoch, items: ITEMS, alpha: 1.5, regularization: 0.01 },
      model: await this.add(encodeModel(itemMatrix(epoch), ITEMS, FACTORS)),
      catalogue: await this.add(encodeCatalogue(ITEMS)),
      public_key: toHex(new Uint8Array(await hpkeSuite.kem.serializePublicKey(key.publicKey))),
      ...{ token_key: null, next_token_key: null, epochs_left: 0, reports_behind: 1000 },
      ...{ start: null, model_patch: null, catalogue_patch: null },
      ...{ opens: epoch * DAY, closes: (epoch + 1) * DAY },
    };
  }

  async #epochKey(epoch: number): Promise<CryptoKeyPair> {
    const key = this.#epochKeys.get(epoch) ?? (await hpkeSuite.kem.generateKeyPair());
    this.#epochKeys.set(epoch, key);
    return key;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Uint8Array[] = [];
    for await (const piece of request) {
      pieces.push(piece);
    }
    const [path, method, body] = [request.url ?? "", request.method ?? "", concatenate(pieces)];
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    this.requests.push({ method, path, headers, body });
    const call = callOf({ method, path });
    if (!(await this.answer(response, call, body))) {
      this.#answer(response, call, path.split("/").at(-1) ?? "", body);
    }
  }

  #answer(response: ServerResponse, call: Call, last: string, body: Uint8Array): void {
    if (call === "batches") {
      this.received.push(body);
      reply(response, 202);
      return;
    }
    if (call === "taken") {
      reply(response, 204);
      return;
    }
    const content = {
      manifest: this.manifest,
      shelf: this.shelf,
      manifests: this.earlier.get(Number(last)),
      models: this.files.get(last),
      catalogues: this.files.get(last),
      patches: this.files.get(last),
    }[call];
    reply(response, content === undefined ? 404 : 200, content);
  }
}

/** Let time pass while a client sleeps; do something in this sleep while its first batch waits to be sent. */
export function whileWaiting(world: World, happens: () => Promise<void>, which = 0): Sleep {
  let left = which;
  return async (seconds) => {
    world.now += seconds;
    const observer = await world.open();
    const { charged } = (await observer.status()).batches;
    observer.close();
    if (charged === 0 || left < 0) return;
    left -= 1;
    if (left < 0) await happens();
  };
}

/** Open a client that has seen epoch 2 and could report in epoch 3. */
export async function seeEpochTwo(test: TestContext): Promise<[World, Device]> {
  const world = await World.begin(test);
  await world.publish(2);
  const client = await world.client();
  await client.refresh();
  world.now = 3.5 * DAY;
  world.requests.length = 0;
  return [world, client];
}

export function reply(
  response: ServerResponse,
  status: number,
  body: Uint8Array | string = "",
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, { "content-length": Buffer.byteLength(body), ...headers });
  response.end(body);
  return true;
}

/** Return an answerer of batches that leaves the rest to the proxy. */
export function toBatches(status: number, body = "", headers = {}): Answer {
  return (response, call) => call === "batches" && reply(response, status, body, headers);
}

export async function newSigningKey(): Promise<CryptoKeyPair> {
  return (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
}

export async function rawKey(pair: CryptoKeyPair): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
}

async function sign(by: CryptoKeyPair, what: string, content: Uint8Array): Promise<Uint8Array> {
  const message = concatenate([encodeUtf8(`${what}\0`), content]);
  return new Uint8Array(await crypto.subtle.sign("Ed25519", by.privateKey, message));
}

export async function hashOf(content: Uint8Array): Promise<string> {
  return toHex(await hashSha256(content));
}

/** Different batches among those that arrived. */
export function distinct(batches: readonly Uint8Array[]): string[] {
  return [...new Set(batches.map(toHex))];
}

export function epochOf(batch: string): number {
  return new DataView(fromHex(batch).buffer).getUint32(4, true);
}

/** Name a request; a GET of batches asks whether one would be taken. */
function callOf({ method, path }: Pick<Recorded, "method" | "path">): Call {
  const call = path.split("/")[2] as Call;
  return call === "batches" && method === "GET" ? "taken" : call;
}
