/** Where a client stands, worked out from what is stored; nothing of it depends on what was touched. */

import { epochsOf } from "./agreement.js";
import { fromHex } from "./bytes.js";
import { type Budget, budgetOf, type Charge } from "./ledger.js";
import type { Manifest } from "./manifest.js";
import { type Offer, offerOf } from "./offer.js";
import type { LeftDevice, Outbox } from "./outbox.js";
import type { State } from "./rows.js";
import { openManifest } from "./signed.js";
import type { Store } from "./store.js";
import type { Terms } from "./terms.js";
import type { Plan } from "./timing.js";

/** All that can be said of it. */
export interface Standing extends Budget {
  readonly proxy: string;
  /** The one that holds; null before the first and after `forget`. */
  readonly manifest: Manifest | null;
  /** What the owner accepted, or is asked to accept; null before there is a model. */
  readonly offer: Offer | null;
  /** The worse terms that were asked about, and wait for a yes; null where there are none. */
  readonly asked: Offer | null;
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

const MOST_OFFERS = 4;

/** Works it out anew each time, but for promises, which take some tenths of a second. */
export class Standings {
  readonly #offers = new Map<string, Offer>();

  constructor(
    private readonly store: Store,
    private readonly outbox: Outbox,
  ) {}

  async now(asked: Terms | null): Promise<Standing> {
    const { store, outbox } = this;
    const settings = await store.settings();
    const [charges, raw] = [await outbox.charges(), await store.signedManifest()];
    const signed = raw && (await openManifest(raw, fromHex(settings.trusted)));
    const manifest = signed?.manifest ?? null;
    return {
      ...budgetOf(settings.limit, charges),
      proxy: settings.proxy,
      manifest,
      offer: manifest && this.#offer(settings.terms ?? manifest.terms, charges),
      asked: asked && this.#offer(asked, charges),
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

  /** Worked out once for the same terms after the same charges. */
  #offer(terms: Terms, charges: readonly Charge[]): Offer {
    const name = JSON.stringify([terms, charges.map(({ purpose }) => purpose)]);
    const offer = this.#offers.get(name) ?? offerOf(terms, charges);
    if (this.#offers.size >= MOST_OFFERS) this.#offers.clear();
    this.#offers.set(name, offer);
    return offer;
  }
}
