/**
 * A worker for slow work that does not depend on what was seen: it searches titles and measures
 * models, so that the page's own thread stays free. It makes no requests.
 *
 * The learning curve: every epoch's model, as it was published and signed, is measured on the
 * public panel by HR@10. The measure is the one of src/sottovoce/evaluation. Anyone can compute it;
 * this device computes it itself and trusts nobody's number.
 */

import {
  buildTags,
  buildWideModel,
  type Charge,
  type Item,
  type PastRelease,
  summarize,
  type TagColumns,
  type Terms,
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
import type { Curve, Film, Point } from "./state.js";
import { toFilm } from "./titles.js";
import { toHex } from "./words.js";

export type DeskCalls = ReturnType<typeof createDeskCalls>;

/** A message of the desk. */
export interface DeskMessage {
  kind: "curve";
  curve: Curve;
}

/** Create the calls of the desk, once for each page. */
export function createDeskCalls(post: (message: DeskMessage) => void) {
  const curveMeter = new CurveMeter((curve) => post({ kind: "curve", curve }));
  let index = new TitleIndex([]);
  let popularIds: readonly string[] = [];
  const rank = () =>
    index.setPopular(popularIds.length > 0 ? popularIds : curveMeter.listBestKnown());
  return {
    /** Take the newest catalogue, by its hash. */
    setCatalogue: (hash: string, items: readonly Item[]) => {
      index = new TitleIndex(items.map(toFilm));
      curveMeter.setCatalogue(hash, items);
      rank();
    },
    /** Take what the operator publishes, if anything. */
    setPanel: (data: unknown) => {
      curveMeter.setPanel(data);
      rank();
    },
    addModel: (epoch: number, release: PastRelease | null) => curveMeter.add(epoch, release),
    /** Take the ids in the order of the model's popularity; none before the first reports. */
    setPopular: (ids: readonly string[]) => {
      popularIds = ids;
      rank();
    },
    search: (text: string, maxFilms: number): Film[] => index.search(text, maxFilms),
    /** Return the sentences that an owner is asked with, up to a limit. */
    summarize: (terms: Terms, charges: readonly Charge[], limit: number) =>
      summarize(terms, charges, limit),
  };
}

/** Test people who are measured at once. */
const PEOPLE_PER_PORTION = 30;

/** The quality of one epoch's model. */
interface Measurement {
  quality: number | null;
  reports: number;
  /** Hash of the model file: an epoch that counted nothing leaves it unchanged. */
  modelHash: string;
  reportsBehind: number;
}

/** The panel, the tags of its catalogue, and what is measured once. */
interface MeasuredPanel extends Panel {
  tags: TagColumns;
  popularity: number | null;
  /**
   * Quality of lists without anybody's reports; null until a model has given the weight of a film.
   */
  tagsAlone: number | null;
}

/** Measures models, and publishes a curve that grows with each epoch. */
class CurveMeter {
  readonly #publish: (curve: Curve) => void;
  readonly #measurements = new Map<number, Measurement | null>();
  readonly #queue: (() => Promise<void>)[] = [];
  /** What the operator published; undefined until it is known. */
  #data: unknown;
  #catalogue: { hash: string; items: readonly Item[] } | null = null;
  #panel: MeasuredPanel | null | undefined;
  #isBusy = false;

  constructor(publish: (curve: Curve) => void) {
    this.#publish = publish;
  }

  setPanel(data: unknown): void {
    this.#data = data ?? null;
    void this.#work();
  }

  setCatalogue(hash: string, items: readonly Item[]): void {
    this.#catalogue = { hash, items };
    void this.#work();
  }

  /** Return the ids of what the panel's people touched most, in its order, if it says so. */
  listBestKnown(): string[] {
    const { hash, items } = this.#catalogue ?? { hash: "", items: [] };
    const panel = parsePanel(this.#data);
    const touched = panel?.catalogue === hash ? (panel.touched ?? []) : [];
    const count = (row: number) => touched[row] ?? 0;
    const rows = [...touched.keys()].sort((a, b) => count(b) - count(a));
    return rows.flatMap((row) => items[row]?.id ?? []);
  }

  /** Measure a model when the panel and a catalogue are known. */
  add(epoch: number, release: PastRelease | null): void {
    this.#queue.push(async () => {
      this.#measurements.set(epoch, release && (await this.#measure(release)));
      this.#publish(createCurve(this.#panel ?? null, this.#measurements));
    });
    void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#isBusy || this.#data === undefined || this.#catalogue === null) return;
    this.#isBusy = true;
    this.#panel ??= await loadPanel(this.#data, this.#catalogue);
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      await next();
    }
    this.#isBusy = false;
  }

  async #measure({ manifest, V }: PastRelease): Promise<Measurement> {
    const { model, reportsBehind, terms } = manifest;
    const panel = this.#panel?.catalogue === toHex(manifest.catalogue) ? this.#panel : null;
    const measure = (reportsBehind: number, { tags, people }: MeasuredPanel) =>
      measureInPortions(buildWideModel({ ...manifest, reportsBehind }, V, tags), people);
    if (panel) panel.tagsAlone ??= await measure(0, panel);
    const quality = panel && (await measure(reportsBehind, panel));
    return { quality, reports: terms.reports, modelHash: toHex(model), reportsBehind };
  }
}

/** Return the panel if it belongs to this catalogue. */
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
  return { ...panel, tags, popularity, tagsAlone: null };
}

/** Measure in portions, so that the worker answers searches in between. */
async function measureInPortions(model: WideModel, people: readonly TestPerson[]): Promise<number> {
  let hits = 0;
  for (let from = 0; from < people.length; from += PEOPLE_PER_PORTION) {
    const portion = people.slice(from, from + PEOPLE_PER_PORTION);
    hits += computeHitRatio(model, portion) * portion.length;
    await new Promise((resolve) => setTimeout(resolve));
  }
  return hits / people.length;
}

/** Create the curve. A model that changed says how many reports the epoch *before* counted. */
function createCurve(
  panel: MeasuredPanel | null,
  measured: ReadonlyMap<number, Measurement | null>,
): Curve {
  const points: Point[] = [];
  for (const [epoch, own] of [...measured].sort(([a], [b]) => a - b)) {
    if (own === null) continue;
    const next = measured.get(epoch + 1) ?? null;
    points.push({ epoch, quality: own.quality, people: next && countPeopleBetween(own, next) });
  }
  const { people, popularity = null, tagsAlone = null } = panel ?? {};
  return { panel: people?.length ?? null, popularity, tagsAlone, points };
}

function countPeopleBetween(own: Measurement, next: Measurement): number {
  return next.modelHash === own.modelHash ? 0 : Math.round(next.reportsBehind / own.reports);
}
