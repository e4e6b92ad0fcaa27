/**
 * The learning curve: every epoch's model, as it was published and signed, measured on the public
 * panel. Anybody can work it out; this device does so by itself and trusts nobody's number.
 */
import {
  type Client,
  type Manifest,
  type Tags,
  tagsOf,
  UntrustedError,
  type WideModel,
  wideModel,
} from "sottovoce-client";
import { hex } from "../hex.js";
import type { Curve, Point } from "../messages.js";
import { fits, hitRatio, type Panel, popularityModel, readPanel, type Tested } from "./quality.js";

const LONGEST = 60;
const HEAVIEST = 4 * 2 ** 20;

/** How many epochs to look back: sixty, but no more than four megabytes of models, for phones. */
export function lookBack(items: number, factors: number): number {
  return Math.max(1, Math.min(LONGEST, Math.floor(HEAVIEST / (4 * items * factors))));
}

/** Test people who are measured in one go. */
const PORTION = 30;

interface Measured {
  quality: number | null;
  reports: number;
  /** Of the model file: an epoch that counted nothing leaves it as it was. */
  model: string;
  reportsBehind: number;
}

/** The panel, the tags of its catalogue, and what is measured once. */
interface Measuring extends Panel {
  tags: Tags;
  popularity: number | null;
}

/** What the history needs from a client. */
export type Editions = Pick<Client, "edition" | "catalogue">;

/** Where the panel comes from: null where there is none, an error where that is not known yet. */
export type FetchPanel = () => Promise<unknown>;

/** Asks the page's own server; the panel is public and the same for everybody. */
export const fetchPanel: FetchPanel = async () => {
  const answer = await fetch("/page/panel.json", { credentials: "omit" });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`the panel was answered with ${answer.status}`);
  return answer.json();
};

/** Grows by an epoch whenever there is a new one. */
export class History {
  readonly #editions: Editions;
  readonly #fetchPanel: FetchPanel;
  readonly #tell: (curve: Curve) => void;
  readonly #measured = new Map<number, Measured | null>();
  #panel: Measuring | null | undefined;
  #busy = false;

  constructor(editions: Editions, tell: (curve: Curve) => void, panel: FetchPanel = fetchPanel) {
    this.#editions = editions;
    this.#tell = tell;
    this.#fetchPanel = panel;
  }

  /** Measures what is missing, the newest first; what fails now is tried at the next news. */
  async extend(newest: Manifest): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      await this.#measureMissing(newest);
    } catch {
      // The curve is a courtesy: whatever it fails at, the loop meets as well, and tells.
    } finally {
      this.#busy = false;
    }
  }

  async #measureMissing(newest: Manifest): Promise<void> {
    await this.#readPanel(newest);
    const first = Math.max(1, newest.epoch - lookBack(newest.items, newest.terms.factors) + 1);
    for (let epoch = newest.epoch; epoch >= first; epoch -= 1) {
      if (this.#measured.has(epoch)) continue;
      this.#measured.set(epoch, await this.#measure(epoch));
      this.#tell(curveOf(this.#panel ?? null, this.#measured));
    }
  }

  async #readPanel(newest: Manifest): Promise<void> {
    if (this.#panel !== undefined) return;
    const panel = readPanel(await this.#fetchPanel());
    const ours = panel !== null && panel.catalogue === hex(newest.catalogue);
    const usable = ours && fits(panel, newest.items);
    this.#panel = usable ? await this.#measuring(panel) : null;
  }

  async #measuring(panel: Panel): Promise<Measuring> {
    const tags = await this.#tags();
    const known = panel.touched?.some((count) => count > 0) ? panel.touched : null;
    const popularity = known && (await inPortions(popularityModel(known, tags), panel.people));
    return { ...panel, tags, popularity };
  }

  /** Those of the panel's catalogue, which is the newest one. */
  async #tags(): Promise<Tags> {
    return tagsOf((await this.#editions.catalogue()).map((item) => item.tags));
  }

  async #measure(epoch: number): Promise<Measured | null> {
    const edition = await this.#editions.edition(epoch).catch(unbelievable);
    if (edition === null) return null;
    const { manifest, V } = edition;
    const { model, reportsBehind, terms } = manifest;
    const panel = this.#panel?.catalogue === hex(manifest.catalogue) ? this.#panel : null;
    const quality = panel && (await inPortions(wideModel(manifest, V, panel.tags), panel.people));
    return { quality, reports: terms.reports, model: hex(model), reportsBehind };
  }
}

/** A gap in the curve, as where an epoch is missing; whatever else fails is tried again later. */
function unbelievable(error: unknown): null {
  if (error instanceof UntrustedError) return null;
  throw error;
}

/** Lets the worker answer questions in between: somebody may be searching. */
async function inPortions(model: WideModel, people: readonly Tested[]): Promise<number> {
  let hits = 0;
  for (let from = 0; from < people.length; from += PORTION) {
    const portion = people.slice(from, from + PORTION);
    hits += hitRatio(model, portion) * portion.length;
    await new Promise((resolve) => setTimeout(resolve));
  }
  return hits / people.length;
}

/** A model that changed tells how many reports the epoch *before* counted. */
function curveOf(panel: Measuring | null, measured: ReadonlyMap<number, Measured | null>): Curve {
  const points: Point[] = [];
  for (const [epoch, own] of [...measured].sort(([a], [b]) => a - b)) {
    if (own === null) continue;
    const next = measured.get(epoch + 1) ?? null;
    points.push({ epoch, quality: own.quality, people: next && peopleBetween(own, next) });
  }
  const { people, popularity } = panel ?? {};
  return { panel: people?.length ?? null, popularity: popularity ?? null, points };
}

function peopleBetween(own: Measured, next: Measured): number {
  return next.model === own.model ? 0 : Math.round(next.reportsBehind / own.reports);
}
