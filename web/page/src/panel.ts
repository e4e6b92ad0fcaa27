/** The public panel: test people on whom models are measured, and the hit ratio of a model. */

import {
  buildWideModel,
  computeScore,
  solveWideVector,
  type TagColumns,
  type WideModel,
} from "sottovoce-client";

/** A test person; all films are rows of the catalogue. */
export interface TestPerson {
  /** Films of the history. */
  seen: readonly number[];
  /** The hidden film, which the person has seen too. */
  left: number;
  /** Films among which the hidden film is ranked. */
  others: readonly number[];
}

/** The panel for one catalogue. */
export interface Panel {
  /** Hash of the catalogue. */
  catalogue: string;
  people: readonly TestPerson[];
  /** Number of other people who touched each row, if the operator publishes it. */
  touched?: readonly number[] | undefined;
}

const LIST_LENGTH = 10;

/**
 * Parse the operator's panel. Return null if it is not valid, since the learning curve is optional.
 */
export function parsePanel(data: unknown): Panel | null {
  if (!isRecord(data) || data.version !== 1) return null;
  const { catalogue, people, touched } = data;
  if (typeof catalogue !== "string" || !Array.isArray(people) || people.length === 0) return null;
  if (touched !== undefined && !isRowList(touched)) return null;
  return people.every(isTestPerson) ? { catalogue, people, touched } : null;
}

function isRecord(data: unknown): data is Record<string, unknown> {
  return typeof data === "object" && data !== null;
}

function isTestPerson(data: unknown): data is TestPerson {
  if (!isRecord(data)) return false;
  const { seen, left, others } = data;
  return isRow(left) && isRowList(seen) && isRowList(others) && others.length > 0;
}

function isRowList(data: unknown): data is number[] {
  return Array.isArray(data) && data.every(isRow);
}

function isRow(data: unknown): data is number {
  return Number.isSafeInteger(data) && (data as number) >= 0;
}

/** Check that a model with this number of items has a row for each film of the panel. */
export function fitsCatalogue(panel: Panel, items: number): boolean {
  const isRowOfModel = (row: number) => row < items;
  const hasCounts = panel.touched === undefined || panel.touched.length === items;
  return (
    hasCounts &&
    panel.people.every(
      ({ seen, left, others }) =>
        isRowOfModel(left) && seen.every(isRowOfModel) && others.every(isRowOfModel),
    )
  );
}

/**
 * Build a model that ranks by popularity: its only factor is each count divided by the largest one,
 * as in src/sottovoce/simulation/evaluation/panel.py.
 */
export function buildPopularityModel(touched: readonly number[], tags: TagColumns): WideModel {
  const largest = touched.reduce((one, other) => Math.max(one, other), 0);
  const values = Float32Array.from(touched, (count) => count / largest);
  const settings = { alpha: 1, regularization: 1e-6, hasShares: false };
  return buildWideModel(settings, { values, rows: touched.length, columns: 1 }, tags);
}

/** Return the mean probability that the hidden film is among the first ten. */
export function computeHitRatio(model: WideModel, people: readonly TestPerson[]): number {
  const hits = people.map((person) => computeHitChance(model, person));
  return hits.reduce((sum, chance) => sum + chance, 0) / people.length;
}

/**
 * Return the probability of a hit for one person.
 *
 * If the hidden film has the same score as t others, each of these t + 1 places is equally likely.
 * A panel has no order of touches, so all items of a history have the same weight.
 */
function computeHitChance(model: WideModel, { seen, left, others }: TestPerson): number {
  const solution = solveWideVector(model, seen);
  // Rounded to float32, so that equal films get equal scores whatever the order of the sum was.
  const score = (row: number) => Math.fround(computeScore(model, solution, row));
  const own = score(left);
  const scores = others.map(score);
  const better = scores.filter((other) => other > own).length;
  const ties = scores.filter((other) => other === own).length;
  return Math.min(1, Math.max(0, (LIST_LENGTH - better) / (ties + 1)));
}
