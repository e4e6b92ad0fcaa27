/**
 * How good a model is, measured on public test people: HR@10, as src/sottovoce/evaluation does.
 * One film of each person was left out; it is a hit if it ranks among the first ten of a hundred.
 */
import { type Matrix, userVector } from "sottovoce-client";

/** One public test person. */
export interface Tested {
  seen: readonly number[];
  left: number;
  others: readonly number[];
}

/** Whom models are tested on; rows are those of one catalogue. */
export interface Panel {
  catalogue: string;
  people: readonly Tested[];
}

/** How person vectors are solved. */
export interface Solving {
  alpha: number;
  regularization: number;
}

const CUTOFF = 10;

/** Reads the operator's panel; null if it is not one, since a curve is nothing to rely on. */
export function readPanel(data: unknown): Panel | null {
  if (!isRecord(data) || data.version !== 1) return null;
  const { catalogue, people } = data;
  if (typeof catalogue !== "string" || !Array.isArray(people) || people.length === 0) return null;
  return people.every(isTested) ? { catalogue, people } : null;
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
  return panel.people.every(
    ({ seen, left, others }) => inside(left) && seen.every(inside) && others.every(inside),
  );
}

/** The mean chance that the film left out is among the first ten. */
export function hitRatio(V: Matrix, people: readonly Tested[], solving: Solving): number {
  const hits = people.map((person) => hit(V, person, solving));
  return hits.reduce((sum, each) => sum + each, 0) / people.length;
}

/** A film that ties with t others lies anywhere among these t + 1 places with equal chance. */
function hit(V: Matrix, { seen, left, others }: Tested, solving: Solving): number {
  const x = userVector(V, seen, solving.alpha, solving.regularization);
  const own = score(V, x, left);
  const scores = others.map((row) => score(V, x, row));
  const better = scores.filter((each) => each > own).length;
  const ties = scores.filter((each) => each === own).length;
  return Math.min(1, Math.max(0, (CUTOFF - better) / (ties + 1)));
}

/** `x . v` in float32, factor by factor, so that ties are those of the Python side. */
function score(V: Matrix, x: Float32Array, row: number): number {
  const at = row * V.columns;
  let sum = 0;
  for (let factor = 0; factor < V.columns; factor += 1) {
    const product = Math.fround((x[factor] ?? 0) * (V.values[at + factor] ?? 0));
    sum = Math.fround(sum + product);
  }
  return sum;
}
