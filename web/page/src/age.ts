/** Explains what to expect from the lists of a young model. */

import type { Manifest } from "sottovoce-client";
import type { Curve } from "./state.js";
import { formatAmount, formatEpochs } from "./words.js";

/** The model counts as young in this many first epochs of a service. */
const YOUNG_EPOCHS = 3;

/** The public values of a model on which its age depends. */
export type ModelAge = Pick<Manifest, "epoch" | "items" | "reportsBehind" | "start"> & {
  terms: Pick<Manifest["terms"], "reports">;
};

/** The quality of the models and of a list of popular films, as far as it was measured. */
export type LearningProgress = Pick<Curve, "points" | "popularity">;

/** Return a sentence about why a list may be poor; null for a mature model. */
export function describeYoungModel(
  model: ModelAge,
  progress: LearningProgress | null,
): string | null {
  const { epoch, items, reportsBehind, start, terms } = model;
  // With a start, reports move the model only as far as they say more than chance.
  if (start !== null && reportsBehind < items) return null;
  const beginning = "This model is young: ";
  if (reportsBehind === 0)
    return `${beginning}nobody's reports are behind it yet. Your list goes by tags alone, such as genres.`;
  if (reportsBehind < items) {
    const people = formatAmount(Math.round(reportsBehind / terms.reports));
    return `${beginning}the reports of ${people} people are few for ${formatAmount(items)} films. Some of this list is chance.`;
  }
  if (isBehindPopularity(progress))
    return `${beginning}so far it does no better for its test people than a list of what is popular.`;
  if (epoch > YOUNG_EPOCHS) return null;
  return `${beginning}people have taught it in ${formatEpochs(epoch - 1)} so far. Your list gets better with the next ones.`;
}

function isBehindPopularity(progress: LearningProgress | null): boolean {
  const quality = progress?.points.at(-1)?.quality ?? null;
  const popularity = progress?.popularity ?? null;
  return quality !== null && popularity !== null && quality <= popularity;
}
