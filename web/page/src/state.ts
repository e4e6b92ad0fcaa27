/** Everything that the page shows. */

import type { Amount, LeftDevice, Manifest, Offer } from "sottovoce-client";

export interface Film {
  id: string;
  name: string;
  /** Another name, such as the original title. */
  otherName: string | null;
  year: string | null;
  genres: readonly string[];
}

export interface SearchResult extends Film {
  seen: boolean;
}

/** The reason for a recommended film: one that was seen, or a tag of such films. */
export type Because = { kind: "film"; film: Film } | { kind: "tag"; tag: string; name: string };

/** A recommended film with its reasons, the strongest first. */
export interface Advice extends Film {
  because: readonly Because[];
}

/** A problem, by what it means for its owner. */
export interface Trouble {
  /** untrusted, terms: the server or the proxy cannot be trusted. storage: this device fails. */
  kind: "untrusted" | "terms" | "storage" | "refused" | "unavailable";
  /** What happened, in a sentence or two. */
  text: string;
}

/** Everything that the page shows, except the batch and the curve. */
export interface State {
  /** Manifest of the model that recommendations come from; null before the first. */
  manifest: Manifest | null;
  /** The offer of that manifest. */
  offer: Offer | null;
  /** An offer with worse terms that waits for a yes. */
  newOffer: Offer | null;
  /** Everything that would be worse about it. */
  worse: readonly string[];
  /** Whether terms were ever accepted: until then the limit is 0. */
  agreed: boolean;
  takingPart: boolean;
  /** Epochs of this training in which this device took part. */
  epochs: number;
  spentEpsilon: number;
  /** The spent epsilon, exactly. */
  spentAmount: Amount;
  limit: number;
  films: readonly Film[];
  advice: readonly Advice[];
  /** Whether recommendations come from the model, or from tags alone, to compare. */
  whispers: boolean;
  suggestions: readonly Film[];
  /** Whether there are films to search. */
  searchable: boolean;
  /** State of this epoch's reports, in a sentence. */
  reportState: string;
  trouble: Trouble | null;
}

/** One epoch of the history that everybody can check. */
export interface Point {
  epoch: number;
  /** HR@10 of its model on the panel; null if there is no panel. */
  quality: number | null;
  /** People who took part in it; null while it is not over. */
  people: number | null;
}

/** The learning curve. */
export interface Curve {
  /** Number of test people; null if the operator publishes no panel. */
  panel: number | null;
  /**
   * HR@10 of the most popular films, on the same people; null if the operator does not publish
   * counts.
   */
  popularity: number | null;
  /** HR@10 of recommendations from tags only, without reports; null before it is measured. */
  tagsOnly: number | null;
  points: readonly Point[];
}

/** What the page receives from its workers. */
export type Event =
  | { kind: "state"; state: State }
  | { kind: "batch"; batch: LeftDevice | null }
  | { kind: "curve"; curve: Curve };
