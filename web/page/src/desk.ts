/**
 * A worker for what takes time and has nothing to do with what was seen: titles are searched, and
 * models measured, so that the page's own thread stays free. It asks nobody for anything.
 *
 * The learning curve: every epoch's model, as it was published and signed, measured on the public
 * panel by HR@10, as src/sottovoce/evaluation does. Anybody can work it out; this device does so by
 * itself and trusts nobody's number.
 */

import {
  type Charge,
  type Item,
  inShort,
  type PastRelease,
  type Tags,
  type Terms,
  tagsOf,
  type WideModel,
  wideModel,
} from "sottovoce-client";
import { TitleIndex } from "./finding.js";
import { fits, hitRatio, type Panel, popularityModel, readPanel, type Tested } from "./panel.js";
import type { Curve, Film, Point } from "./state.js";
import { toFilm } from "./titles.js";
import { hex } from "./words.js";

export type DeskCalls = ReturnType<typeof deskCalls>;

export interface DeskTold {
  kind: "curve";
  curve: Curve;
}

/** One for each page. */
export function deskCalls(tell: (told: DeskTold) => void) {
  const measuring = new Measuring((curve) => tell({ kind: "curve", curve }));
  let index = new TitleIndex([]);
  let best: readonly string[] = [];
  const rank = () => index.setPopular(best.length > 0 ? best : measuring.bestKnown());
  return {
    /** The newest one, by its hash. */
    catalogue: (hash: string, items: readonly Item[]) => {
      index = new TitleIndex(items.map(toFilm));
      measuring.setCatalogue(hash, items);
      rank();
    },
    /** What the operator publishes, if anything. */
    panel: (data: unknown) => {
      measuring.setPanel(data);
      rank();
    },
    past: (epoch: number, release: PastRelease | null) => measuring.add(epoch, release),
    /** The ids of what the model knows best, in its order; none as long as it knows nothing. */
    popular: (ids: readonly string[]) => {
      best = ids;
      rank();
    },
    search: (text: string, most: number): Film[] => index.search(text, most),
    /** What somebody is asked who would accept these terms up to a limit. */
    short: (terms: Terms, charges: readonly Charge[], limit: number) =>
      inShort(terms, charges, limit),
  };
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
interface Measurable extends Panel {
  tags: Tags;
  popularity: number | null;
  /** Without anybody's reports; null until a model has said how much a film weighs. */
  tagsAlone: number | null;
}

/** Grows by an epoch whenever there is a new one. */
class Measuring {
  readonly #tell: (curve: Curve) => void;
  readonly #measured = new Map<number, Measured | null>();
  readonly #waiting: (() => Promise<void>)[] = [];
  /** What the operator published; undefined as long as that is not known. */
  #data: unknown;
  #catalogue: { hash: string; items: readonly Item[] } | null = null;
  #panel: Measurable | null | undefined;
  #isBusy = false;

  constructor(tell: (curve: Curve) => void) {
    this.#tell = tell;
  }

  setPanel(data: unknown): void {
    this.#data = data ?? null;
    void this.#work();
  }

  setCatalogue(hash: string, items: readonly Item[]): void {
    this.#catalogue = { hash, items };
    void this.#work();
  }

  /** The ids of what the panel's people touched most, in its order, if it says so. */
  bestKnown(): string[] {
    const { hash, items } = this.#catalogue ?? { hash: "", items: [] };
    const panel = readPanel(this.#data);
    const touched = panel?.catalogue === hash ? (panel.touched ?? []) : [];
    const count = (row: number) => touched[row] ?? 0;
    const rows = [...touched.keys()].sort((a, b) => count(b) - count(a));
    return rows.flatMap((row) => items[row]?.id ?? []);
  }

  /** Measures it when the panel and a catalogue are known. */
  add(epoch: number, release: PastRelease | null): void {
    this.#waiting.push(async () => {
      this.#measured.set(epoch, release && (await this.#measure(release)));
      this.#tell(curveOf(this.#panel ?? null, this.#measured));
    });
    void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#isBusy || this.#data === undefined || this.#catalogue === null) return;
    this.#isBusy = true;
    this.#panel ??= await readable(this.#data, this.#catalogue);
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await next();
    }
    this.#isBusy = false;
  }

  async #measure({ manifest, V }: PastRelease): Promise<Measured> {
    const { model, reportsBehind, terms } = manifest;
    const panel = this.#panel?.catalogue === hex(manifest.catalogue) ? this.#panel : null;
    const measured = (reportsBehind: number, { tags, people }: Measurable) =>
      inPortions(wideModel({ ...manifest, reportsBehind }, V, tags), people);
    if (panel) panel.tagsAlone ??= await measured(0, panel);
    const quality = panel && (await measured(reportsBehind, panel));
    return { quality, reports: terms.reports, model: hex(model), reportsBehind };
  }
}

/** The panel, if it is one of this catalogue. */
async function readable(
  data: unknown,
  { hash, items }: { hash: string; items: readonly Item[] },
): Promise<Measurable | null> {
  const panel = readPanel(data);
  if (panel === null || panel.catalogue !== hash || !fits(panel, items.length)) return null;
  const tags = tagsOf(items.map((item) => item.tags));
  const known = panel.touched?.some((count) => count > 0) ? panel.touched : null;
  const popularity = known && (await inPortions(popularityModel(known, tags), panel.people));
  return { ...panel, tags, popularity, tagsAlone: null };
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
function curveOf(panel: Measurable | null, measured: ReadonlyMap<number, Measured | null>): Curve {
  const points: Point[] = [];
  for (const [epoch, own] of [...measured].sort(([a], [b]) => a - b)) {
    if (own === null) continue;
    const next = measured.get(epoch + 1) ?? null;
    points.push({ epoch, quality: own.quality, people: next && peopleBetween(own, next) });
  }
  const { people, popularity = null, tagsAlone = null } = panel ?? {};
  return { panel: people?.length ?? null, popularity, tagsAlone, points };
}

function peopleBetween(own: Measured, next: Measured): number {
  return next.model === own.model ? 0 : Math.round(next.reportsBehind / own.reports);
}
