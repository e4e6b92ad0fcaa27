/**
 * The desk, a web worker that searches titles and measures models so that the page stays responsive.
 * It never sees the visitor's films and makes no requests.
 *
 * The learning curve is the HR@10 of each epoch's published model on the public panel, computed as in
 * src/sottovoce/simulation/evaluation/panel.py. It is measured here, so that the page need not trust
 * figures of the operator.
 */

import {
  asksForNames,
  buildTags,
  buildWideModel,
  dropFactors,
  hasModel,
  type Item,
  type Matrix,
  type PastRelease,
  type TagColumns,
  type WideModel,
} from "sottovoce-client";
import { TitleIndex } from "./finding.js";
import {
  buildPopularityModel,
  computeHitRatio,
  fitsCatalogue,
  type Panel,
  parsePanel,
  type TestPerson,
} from "./panel.js";
import type { Curve, Film, NowFilm, Point } from "./state.js";
import { toFilm } from "./titles.js";
import { toHex } from "./words.js";

export type DeskCalls = ReturnType<typeof createDeskCalls>;

/** A message from the desk to the page. */
export interface DeskMessage {
  kind: "curve";
  curve: Curve;
}

/** Create the functions that the page can call, once for each page. */
export function createDeskCalls(post: (message: DeskMessage) => void) {
  const curveMeter = new CurveMeter((curve) => post({ kind: "curve", curve }));
  let index = new TitleIndex([]);
  let popularIds: readonly string[] = [];
  const updateRanks = () =>
    index.setPopular(popularIds.length > 0 ? popularIds : curveMeter.listMostTouched());
  return {
    /** Replace the catalogue; `hash` is that of its file. */
    setCatalogue: (hash: string, items: readonly Item[]) => {
      index = new TitleIndex(items.map(toFilm));
      curveMeter.setCatalogue(hash, items);
      updateRanks();
    },
    /** Set the panel that the operator publishes; null if there is none. */
    setPanel: (data: unknown) => {
      curveMeter.setPanel(data);
      updateRanks();
    },
    addModel: (epoch: number, release: PastRelease | null) => curveMeter.add(epoch, release),
    /** Set the most popular films by the model, best first; an empty list before any reports. */
    setPopular: (ids: readonly string[]) => {
      popularIds = ids;
      updateRanks();
    },
    search: (text: string, maxFilms: number): Film[] => index.search(text, maxFilms),
  };
}

/** Number of test people who are measured before the worker handles other messages. */
const PEOPLE_PER_PORTION = 30;

/** Number of films in the list of films that many people see now. */
const NOW_FILMS = 10;

/** The quality of one epoch's model. */
interface Measurement {
  quality: number | null;
  /** Number of reports that each person sends in an epoch. */
  reports: number;
  /** Hash of the model file: an epoch that counted nothing leaves it unchanged. */
  modelHash: string;
  /** Number of reports that the previous epoch counted. */
  reportsBehind: number;
  /** Name of the public table that the first model was learnt from, or null. */
  start: string | null;
  /** The films that many people see now; empty if reports do not name films. */
  now: readonly NowFilm[];
}

/** The panel, the tags of its catalogue, and the quality of the two baselines. */
interface MeasuredPanel extends Panel {
  tags: TagColumns;
  /** Quality of recommendations by popularity; null if the operator publishes no counts. */
  popularity: number | null;
  /** Quality of recommendations from tags only; null until the first model is measured. */
  tagsOnly: number | null;
}

/** Measures models, and publishes a curve that grows with each epoch. */
class CurveMeter {
  readonly #publish: (curve: Curve) => void;
  readonly #measurements = new Map<number, Measurement | null>();
  readonly #queue: (() => Promise<void>)[] = [];
  /** The panel as published, or null if there is none; undefined until it is known. */
  #data: unknown;
  #catalogue: { hash: string; items: readonly Item[] } | null = null;
  #panel: MeasuredPanel | null | undefined;
  #isBusy = false;

  constructor(publish: (curve: Curve) => void) {
    this.#publish = publish;
  }

  setPanel(data: unknown): void {
    this.#data = data ?? null;
    void this.#drainQueue();
  }

  setCatalogue(hash: string, items: readonly Item[]): void {
    this.#catalogue = { hash, items };
    void this.#drainQueue();
  }

  /** List the ids of the items, most touched first; empty if the panel has no counts. */
  listMostTouched(): string[] {
    const { hash, items } = this.#catalogue ?? { hash: "", items: [] };
    const panel = parsePanel(this.#data);
    const touched = panel?.catalogue === hash ? (panel.touched ?? []) : [];
    const count = (row: number) => touched[row] ?? 0;
    const rows = [...touched.keys()].sort((a, b) => count(b) - count(a));
    return rows.flatMap((row) => items[row]?.id ?? []);
  }

  /** Queue a model; it is measured once the panel and a catalogue are known. */
  add(epoch: number, release: PastRelease | null): void {
    this.#queue.push(async () => {
      this.#measurements.set(epoch, release && (await this.#measure(release)));
      this.#publish(createCurve(this.#panel ?? null, this.#measurements));
    });
    void this.#drainQueue();
  }

  async #drainQueue(): Promise<void> {
    if (this.#isBusy || this.#data === undefined || this.#catalogue === null) return;
    this.#isBusy = true;
    this.#panel ??= await loadPanel(this.#data, this.#catalogue);
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      await next();
    }
    this.#isBusy = false;
  }

  async #measure({ manifest, V }: PastRelease): Promise<Measurement> {
    const { model, reportsBehind, start, terms } = manifest;
    const panel = this.#panel?.catalogue === toHex(manifest.catalogue) ? this.#panel : null;
    const settings = { ...manifest, hasShares: asksForNames(terms) };
    const measure = (used: Matrix, { tags, people }: MeasuredPanel) =>
      measureInPortions(buildWideModel(settings, used, tags), people);
    if (panel) panel.tagsOnly ??= await measure(dropFactors(V), panel);
    const quality = panel && (await measure(hasModel(manifest) ? V : dropFactors(V), panel));
    return {
      quality,
      reports: terms.reports,
      modelHash: toHex(model),
      reportsBehind,
      start: start?.name ?? null,
      now: this.#listNow({ manifest, V }),
    };
  }

  /** List the films with the largest shares of names. Without a catalogue they have no titles. */
  #listNow({ manifest, V }: PastRelease): NowFilm[] {
    const { hash, items } = this.#catalogue ?? { hash: "", items: [] };
    const isKnown = hash === toHex(manifest.catalogue) && manifest.reportsBehind > 0;
    if (!isKnown || !asksForNames(manifest.terms)) return [];
    // An honest server publishes shares that sum to 1, but nothing else here relies on that.
    const shares = items.map((_, row) => Math.max(V.values[row * V.columns] ?? 0, 0));
    const total = shares.reduce((sum, share) => sum + share, 0) || 1;
    const films = items.map((item, row) => ({
      ...toFilm(item),
      share: (shares[row] ?? 0) / total,
    }));
    return films.sort((a, b) => b.share - a.share).slice(0, NOW_FILMS);
  }
}

/** Parse the panel and measure popularity on it; null unless it belongs to this catalogue. */
async function loadPanel(
  data: unknown,
  { hash, items }: { hash: string; items: readonly Item[] },
): Promise<MeasuredPanel | null> {
  const panel = parsePanel(data);
  if (panel === null || panel.catalogue !== hash || !fitsCatalogue(panel, items.length))
    return null;
  const tags = buildTags(items.map((item) => item.tags));
  const counts = panel.touched?.some((count) => count > 0) ? panel.touched : null;
  const popularity =
    counts && (await measureInPortions(buildPopularityModel(counts, tags), panel.people));
  return { ...panel, tags, popularity, tagsOnly: null };
}

/** Compute HR@10 in portions, so that the worker can answer searches in between. */
async function measureInPortions(model: WideModel, people: readonly TestPerson[]): Promise<number> {
  let hits = 0;
  for (let from = 0; from < people.length; from += PEOPLE_PER_PORTION) {
    const portion = people.slice(from, from + PEOPLE_PER_PORTION);
    hits += computeHitRatio(model, portion) * portion.length;
    await new Promise((resolve) => setTimeout(resolve));
  }
  return hits / people.length;
}

/**
 * Create the curve. How many people took part in an epoch is known only from the manifest of the next
 * one, which counts their reports.
 */
function createCurve(
  panel: MeasuredPanel | null,
  measurements: ReadonlyMap<number, Measurement | null>,
): Curve {
  const points: Point[] = [];
  for (const [epoch, current] of [...measurements].sort(([a], [b]) => a - b)) {
    if (current === null) continue;
    const next = measurements.get(epoch + 1) ?? null;
    points.push({ epoch, quality: current.quality, people: next && countPeople(current, next) });
  }
  const { people, popularity = null, tagsOnly = null } = panel ?? {};
  const latest = measurements.get(Math.max(...measurements.keys()));
  const { now = [], start = null } = latest ?? {};
  return { panel: people?.length ?? null, popularity, tagsOnly, points, start, now };
}

function countPeople(current: Measurement, next: Measurement): number {
  if (next.modelHash === current.modelHash) return 0;
  return Math.round(next.reportsBehind / current.reports);
}
