import { scoreOf, solution, type Tags, type WideModel, wideModel } from "sottovoce-client";

export interface Tested {
  seen: readonly number[];
  left: number;
  others: readonly number[];
}

/** Whom models are tested on; rows are those of one catalogue. */
export interface Panel {
  catalogue: string;
  people: readonly Tested[];
  /** How many others touched each row; none where that is not known. */
  touched?: readonly number[] | undefined;
}

const CUTOFF = 10;

/** Reads the operator's panel; null if it is not one, since a curve is nothing to rely on. */
export function readPanel(data: unknown): Panel | null {
  if (!isRecord(data) || data.version !== 1) return null;
  const { catalogue, people, touched } = data;
  if (typeof catalogue !== "string" || !Array.isArray(people) || people.length === 0) return null;
  if (touched !== undefined && !areRows(touched)) return null;
  return people.every(isTested) ? { catalogue, people, touched } : null;
}

function isRecord(data: unknown): data is Record<string, unknown> {
  return typeof data === "object" && data !== null;
}

function isTested(data: unknown): data is Tested {
  if (!isRecord(data)) return false;
  const { seen, left, others } = data;
  return isRow(left) && areRows(seen) && areRows(others) && others.length > 0;
}

function areRows(data: unknown): data is number[] {
  return Array.isArray(data) && data.every(isRow);
}

function isRow(data: unknown): data is number {
  return Number.isSafeInteger(data) && (data as number) >= 0;
}

/** Whether every film of the panel is a row of the model. */
export function fits(panel: Panel, items: number): boolean {
  const inside = (row: number) => row < items;
  const counted = panel.touched === undefined || panel.touched.length === items;
  return (
    counted &&
    panel.people.every(
      ({ seen, left, others }) => inside(left) && seen.every(inside) && others.every(inside),
    )
  );
}

/** Counts as the only factor, in shares of the largest: as src/sottovoce/evaluation/panel.py has it. */
export function popularityModel(touched: readonly number[], tags: Tags): WideModel {
  const most = touched.reduce((one, other) => Math.max(one, other), 0);
  const values = Float32Array.from(touched, (count) => count / most);
  const counted = { alpha: 1, regularization: 1e-6, reportsBehind: 1 };
  return wideModel(counted, { values, rows: touched.length, columns: 1 }, tags);
}

/** The mean chance that the film left out is among the first ten. */
export function hitRatio(model: WideModel, people: readonly Tested[]): number {
  const hits = people.map((person) => hit(model, person));
  return hits.reduce((sum, each) => sum + each, 0) / people.length;
}

/**
 * A film that ties with t others lies anywhere among these t + 1 places with equal chance. A panel
 * knows no order, so all of a history weighs the same.
 */
function hit(model: WideModel, { seen, left, others }: Tested): number {
  const solved = solution(model, seen);
  // In float32, so that films alike in everything tie whatever the order of a sum was.
  const score = (row: number) => Math.fround(scoreOf(model, solved, row));
  const own = score(left);
  const scores = others.map(score);
  const better = scores.filter((each) => each > own).length;
  const ties = scores.filter((each) => each === own).length;
  return Math.min(1, Math.max(0, (CUTOFF - better) / (ties + 1)));
}
