/**
 * Compares the list from which the first report of a visit left with the lists of later models.
 *
 * Everything is compared on the device: lists depend on the history and never leave it.
 */

import type { ListChange, State } from "./state.js";
import { formatAmount } from "./words.js";

type Shelf = Pick<State, "films" | "advice">;

/** A list to compare with. */
interface Baseline {
  films: string;
  list: readonly string[];
  since: ListChange["since"];
}

/** The comparison of one visit. */
export class ListComparison {
  /** Epoch of the first report of this visit; null before it. */
  #epoch: number | null = null;
  #baseline: Baseline | null = null;

  /** Begin with the list from the model of an epoch in which a report has left. */
  begin(epoch: number, shelf: Shelf): void {
    if (this.#epoch !== null || shelf.advice.length === 0) return;
    this.#epoch = epoch;
    this.#baseline = createBaseline(shelf, "report");
  }

  /**
   * Compare a list from the model of an epoch. Return null until a model has counted the report.
   *
   * Only two lists for the same films show what models have changed, so the comparison begins again
   * after another choice of films.
   */
  compare(epoch: number, shelf: Shelf): ListChange | null {
    if (this.#epoch === null || this.#baseline === null) return null;
    const isCounted = epoch > this.#epoch;
    const current = createBaseline(shelf, isCounted ? "films" : "report");
    if (current.films !== this.#baseline.films) this.#baseline = current;
    if (!isCounted || current.list.length === 0) return null;
    const { list, since } = this.#baseline;
    const places = current.list.filter((id, at) => id !== list[at]).length;
    const newFilms = current.list.filter((id) => !list.includes(id)).length;
    return { places, newFilms, since };
  }

  /** Forget the films and the list. */
  clear(): void {
    [this.#epoch, this.#baseline] = [null, null];
  }
}

function createBaseline({ films, advice }: Shelf, since: ListChange["since"]): Baseline {
  const ids = films.map(({ id }) => id).sort();
  return { films: JSON.stringify(ids), list: advice.map(({ id }) => id), since };
}

/** Describe what has changed, as the work of everybody's reports: nobody can tell one report's. */
export function describeListChange({ places, newFilms, since }: ListChange): string {
  const begin = `Since ${since === "report" ? "your first report" : "you changed your films"}`;
  if (places === 0) return `${begin}, all reports together have not changed your list.`;
  const films = newFilms === 1 ? "1 film is new" : `${newFilms || "no"} films are new`;
  const where = places === 1 ? "1 place" : `${formatAmount(places)} places`;
  return `${begin}, all reports together changed ${where} of your list: ${films}.`;
}
