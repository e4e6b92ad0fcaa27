/** A model that has learnt little yet says so. */
import type { Manifest } from "sottovoce-client";
import { amountText, epochsText } from "./amounts.js";
import type { Curve } from "./messages.js";

/** Until so many epochs are over, each of the next ones changes a list a lot. */
const FEW_EPOCHS = 3;

/** What the age of a model is read from: nothing but what everybody is told. */
export type Aged = Pick<Manifest, "epoch" | "items" | "reportsBehind"> & {
  terms: Pick<Manifest["terms"], "reports">;
};

/** How good its models were, and a list of what is popular, where that is measured. */
export type Learnt = Pick<Curve, "points" | "popularity">;

/** Why not to expect much of a list; null for a model that has grown up. */
export function youngText(model: Aged, learnt: Learnt | null): string | null {
  const { epoch, items, reportsBehind, terms } = model;
  const young = "This model is young: ";
  if (reportsBehind === 0)
    return `${young}nobody's reports are behind it yet. Your list goes by tags alone, such as genres.`;
  if (reportsBehind < items) {
    const people = amountText(Math.round(reportsBehind / terms.reports));
    return `${young}the reports of ${people} people are few for ${amountText(items)} films. Some of this list is chance.`;
  }
  if (isBehindPopularity(learnt))
    return `${young}so far it does no better for its test people than a list of what is popular.`;
  if (epoch > FEW_EPOCHS) return null;
  return `${young}people have taught it in ${epochsText(epoch - 1)} so far. Your list gets better with the next ones.`;
}

function isBehindPopularity(learnt: Learnt | null): boolean {
  const quality = learnt?.points.at(-1)?.quality ?? null;
  const popularity = learnt?.popularity ?? null;
  return quality !== null && popularity !== null && quality <= popularity;
}
