/**
 * The side of a client that speaks to the proxy. It runs in a worker of its own (`sottovoce-worker`)
 * and never reads what its owner touched: whatever it does, and when, comes from public data, the
 * owner's choices, its own coins and a clock.
 */

import { checkedTerms, epochsOf } from "./agreement.js";
import { fromHex, toHex } from "./bytes.js";
import { Database } from "./database.js";
import { type SottovoceError, TermsError } from "./errors.js";
import { Fetching, type Known, type PastEdition } from "./fetching.js";
import { type Budget, budgetOf, type Charge } from "./ledger.js";
import { alone } from "./locking.js";
import type { Manifest } from "./manifest.js";
import { type Offer, offerOf } from "./offer.js";
import {
  beginningOf,
  checkCryptography,
  checkedJitter,
  checkedLimit,
  type NetworkOptions,
  systemTimer,
} from "./options.js";
import { type LeftDevice, Outbox } from "./outbox.js";
import { HttpProxy } from "./proxy.js";
import type { State } from "./rows.js";
import { openManifest } from "./signed.js";
import { Store } from "./store.js";
import { type Early, type Synced, Syncing } from "./syncing.js";
import type { Terms } from "./terms.js";
import { JITTER, type Plan } from "./timing.js";
import { systemEntropy } from "./words.js";

/** Where a client stands; nothing of it depends on what its owner touched. */
export interface Standing extends Budget {
  readonly proxy: string;
  /** The one that holds; null before the first and after `forget`. */
  readonly manifest: Manifest | null;
  /** What it asks for; null where there is none. */
  readonly offer: Offer | null;
  /** Of the last manifest accepted; null before the first. */
  readonly epoch: number | null;
  /** What its owner accepted; null before. */
  readonly terms: Terms | null;
  /** In how many epochs of their training the device took part; 0 before there are terms. */
  readonly epochs: number;
  /** Everything that was ever charged, in any order. */
  readonly charges: readonly Charge[];
  /** What its coins said of the last epoch in which it could take part; null before. */
  readonly plan: Plan | null;
  readonly paused: boolean;
  /** How many, by what became of them. */
  readonly batches: Readonly<Record<State, number>>;
  /** The last batch that was made, bit for bit, as the owner may see it; null if there is none. */
  readonly lastBatch: LeftDevice | null;
}

/** One database of this browser, and one proxy. */
export class Network {
  readonly #offers = new Map<string, Offer>();
  #signed: { raw: Uint8Array; manifest: Manifest } | null = null;

  private constructor(
    private readonly database: Database,
    private readonly store: Store,
    private readonly outbox: Outbox,
    private readonly fetching: Fetching,
    private readonly syncing: Syncing,
  ) {}

  /** Begin a client in this browser, or take it up where it was; asks nobody. */
  static async open(options: NetworkOptions): Promise<Network> {
    checkCryptography();
    const { name, make, timer = systemTimer, entropy = systemEntropy } = options;
    const { clock, sleep } = timer;
    const beginning = beginningOf(options, clock());
    const jitter = checkedJitter(options.jitter ?? JITTER);
    const database = await Database.open(name, options.indexedDB ?? globalThis.indexedDB);
    const [store, outbox] = [new Store(database), new Outbox(database)];
    try {
      await store.enrol(beginning);
    } catch (error) {
      database.close();
      throw error;
    }
    const proxy = new HttpProxy(beginning.proxy, { clock, fetch: options.fetch });
    const fetching = new Fetching(store, proxy);
    const lock = alone(name, options.locks);
    const monotonic = timer.now;
    const used = { store, outbox, fetching, proxy, clock, monotonic, sleep, entropy };
    const syncing = new Syncing({ ...used, jitter, lock, make });
    return new Network(database, store, outbox, fetching, syncing);
  }

  /** All that the next request needs of what is stored. */
  prepare(): Promise<Known> {
    return this.fetching.prepare();
  }

  /** Fetch what was published and take part, or find out when; see `Syncing`. */
  begin(known: Known): Promise<Synced | Early> {
    return this.syncing.begin(known);
  }

  /** At the moment that `begin` found. */
  goOn(early: Early, known: Known): Promise<Synced> {
    return this.syncing.goOn(early, known);
  }

  /** The model of any epoch, as signed; null if the proxy has it no more. It is not stored. */
  edition(epoch: number): Promise<PastEdition | null> {
    return this.fetching.edition(epoch);
  }

  /** The owner was shown exactly these terms and said yes: nothing worse is reported under. */
  async accept(terms: Terms): Promise<void> {
    await this.store.choose({ terms: checkedTerms(terms) });
  }

  /** Whether nothing is to leave, not even a batch that waits. */
  pause(on: boolean): Promise<void> {
    return this.store.choose({ paused: on });
  }

  /** Another lifetime limit; what was spent stays spent. */
  async setLimit(limit: number): Promise<void> {
    await this.store.choose({ limit: checkedLimit(limit) });
  }

  /** Delete what the owner touched, the batch on its way, what was shown of it, and the model. */
  forget(): Promise<void> {
    return this.store.forget();
  }

  /** Where it stands; asks nobody. */
  async standing(): Promise<Standing> {
    const { store, outbox } = this;
    const settings = await store.settings();
    const [charges, manifest] = [await outbox.charges(), await this.#manifest(settings.trusted)];
    return {
      ...budgetOf(settings.limit, charges),
      proxy: settings.proxy,
      manifest,
      offer: manifest && this.#offer(manifest.terms, charges),
      epoch: settings.newest?.epoch ?? null,
      terms: settings.terms,
      epochs: settings.terms === null ? 0 : epochsOf(settings.terms, charges),
      charges,
      plan: await outbox.lastPlan(),
      paused: settings.paused,
      batches: await outbox.counts(),
      lastBatch: await outbox.lastBatch(),
    };
  }

  /** What an owner must say yes to before anything is reported again; null for any other error. */
  async question(error: SottovoceError): Promise<Question | null> {
    if (!(error instanceof TermsError)) return null;
    return { worse: error.worse, offer: this.#offer(error.asked, await this.outbox.charges()) };
  }

  close(): void {
    this.database.close();
  }

  async #manifest(trusted: string): Promise<Manifest | null> {
    const raw = await this.store.signedManifest();
    if (raw === null) return null;
    if (this.#signed === null || toHex(this.#signed.raw) !== toHex(raw)) {
      this.#signed = { raw, manifest: (await openManifest(raw, fromHex(trusted))).manifest };
    }
    return this.#signed.manifest;
  }

  /** Worked out once for the same terms after the same charges. */
  #offer(terms: Terms, charges: readonly Charge[]): Offer {
    const name = JSON.stringify([terms, charges.map(({ purpose }) => purpose)]);
    const offer = this.#offers.get(name) ?? offerOf(terms, charges);
    if (this.#offers.size >= MOST_OFFERS) this.#offers.clear();
    this.#offers.set(name, offer);
    return offer;
  }
}

/** Worse terms than were accepted wait for a yes. */
export interface Question {
  /** In plain words, everything that would be worse. */
  readonly worse: readonly string[];
  readonly offer: Offer;
}

const MOST_OFFERS = 4;
