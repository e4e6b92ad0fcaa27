/** A model that has learnt little yet says so. */
import type { Manifest } from "sottovoce-client";
import { amountText } from "./odds.js";
import { epochsText } from "./sentences.js";

/** Until so many epochs are over, each of the next ones changes a list a lot. */
const FEW_EPOCHS = 3;

/** What the age of a model is read from: nothing but what everybody is told. */
export type Aged = Pick<Manifest, "epoch" | "items" | "reportsBehind"> & {
  terms: Pick<Manifest["terms"], "reports">;
};

/** Why not to expect much of a list; null for a model that has grown up. */
export function youngText({ epoch, items, reportsBehind, terms }: Aged): string | null {
  const young = "This model is young: ";
  if (reportsBehind === 0)
    return `${young}nobody's reports are behind it yet. Your list goes by tags alone, such as genre and year.`;
  if (reportsBehind < items) {
    const people = amountText(Math.round(reportsBehind / terms.reports));
    return `${young}the reports of ${people} people are few for ${amountText(items)} films. Some of this list is chance.`;
  }
  if (epoch > FEW_EPOCHS) return null;
  return `${young}people have taught it in ${epochsText(epoch - 1)} so far. Your list gets better with the next ones.`;
}
