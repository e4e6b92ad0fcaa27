/**
 * A worker for what takes time and has nothing to do with what was seen: titles are searched, and
 * models measured, so that the page's own thread stays free. It asks nobody for anything.
 */
import type { Item, PastRelease } from "sottovoce-client";
import { TitleIndex } from "../finding.js";
import type { Curve, Film } from "../messages.js";
import { toFilm } from "../titles.js";
import { Measuring } from "./measuring.js";

/** What the desk can be asked. */
export type DeskCalls = ReturnType<typeof deskCalls>;

/** What it tells unasked. */
export interface DeskTold {
  kind: "curve";
  curve: Curve;
}

/** One for each page. */
export function deskCalls(tell: (told: DeskTold) => void) {
  const measuring = new Measuring((curve) => tell({ kind: "curve", curve }));
  let index = new TitleIndex([]);
  return {
    /** The newest one, by its hash. */
    catalogue: (hash: string, items: readonly Item[]) => {
      index = new TitleIndex(items.map(toFilm));
      measuring.setCatalogue(hash, items);
    },
    /** What the operator publishes, if anything. */
    panel: (data: unknown) => measuring.setPanel(data),
    past: (epoch: number, release: PastRelease | null) => measuring.add(epoch, release),
    search: (text: string, most: number): Film[] => index.search(text, most),
  };
}
