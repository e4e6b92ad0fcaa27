/** The types of all data that the page shows. */

import type { Amount, Charge, LeftDevice, Manifest, Offer } from "sottovoce-client";

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

/**
 * A reason for a recommended film: a film of the history, a tag of films in the history, or `now`,
 * which means that many people see the film at present.
 */
export type Reason =
  | { kind: "film"; name: string }
  | { kind: "tag"; tag: string; name: string }
  | { kind: "now" };

/** A recommended film with its most telling reason; null if nothing supports it. */
export interface Advice extends Film {
  reason: Reason | null;
}

/** How new models have changed the list for the same films. */
export interface ListChange {
  /** Number of places of the list that have another film. */
  places: number;
  /** Number of films in the list that were not in it. */
  newFilms: number;
  /** Where the comparison begins: at the report, or at a later choice of films. */
  since: "report" | "films";
}

/** A problem, classified by its meaning for the owner. */
export interface Trouble {
  /**
   * "untrusted" and "terms": the server or the proxy cannot be trusted. "storage": this device
   * fails. "refused": the proxy or the client refused a request. "unavailable": the proxy cannot be
   * reached.
   */
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
  /** Offer of worse terms that the owner has not accepted yet, or null. */
  newOffer: Offer | null;
  /** Every way in which the terms of `newOffer` are worse, in plain words. */
  worse: readonly string[];
  /** Whether the owner has accepted terms and not withdrawn the consent. */
  agreed: boolean;
  /** Whether reporting is on and not paused. */
  takingPart: boolean;
  /** Number of epochs of this training in which this device took part. */
  epochs: number;
  /** Epsilon that this device has spent, rounded up. */
  spentEpsilon: number;
  /** What this device has paid for, in any order. */
  charges: readonly Charge[];
  /** The spent epsilon, as an exact amount. */
  spentAmount: Amount;
  /** Maximum epsilon that this device spends. */
  limit: number;
  films: readonly Film[];
  advice: readonly Advice[];
  /** Whether recommendations come from the model; false: from tags alone, for comparison. */
  whispers: boolean;
  suggestions: readonly Film[];
  /** Whether there are films to search. */
  searchable: boolean;
  /** The state of this epoch's reports, in a sentence. */
  reportState: string;
  /** What new models have changed in the list since a report of this visit; null before that. */
  listChange: ListChange | null;
  trouble: Trouble | null;
}

/** One epoch of the learning curve. */
export interface Point {
  epoch: number;
  /** HR@10 of its model on the panel (published test people); null if there is no panel. */
  quality: number | null;
  /**
   * Number of people who took part in the epoch; null until the manifest of the next epoch is
   * known.
   */
  people: number | null;
}

/** A film that many see now. */
export interface NowFilm extends Film {
  /** Share of the film in all names, 0..1. */
  share: number;
}

/** The learning curve. */
export interface Curve {
  /** Number of people in the panel; null if the operator publishes no panel. */
  panel: number | null;
  /**
   * HR@10 of a list of the most popular films, for the same people; null if the operator publishes
   * no counts.
   */
  popularity: number | null;
  /** HR@10 of recommendations from tags only, without reports; null before it is measured. */
  tagsOnly: number | null;
  points: readonly Point[];
  /** Name of the public table that the first model was learnt from; null if it was not. */
  start: string | null;
  /**
   * The films that most people see now, by the latest model. It is empty if reports do not name
   * films, or none has been counted yet.
   */
  now: readonly NowFilm[];
}

/** What the page receives from its workers. */
export type Event =
  | { kind: "state"; state: State }
  | { kind: "batch"; batch: LeftDevice | null }
  | { kind: "curve"; curve: Curve };
