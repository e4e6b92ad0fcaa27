import type { Amount, LeftDevice, Manifest, Offer, Terms } from "sottovoce-client";

export interface Film {
  id: string;
  name: string;
  /** Such as the original title. */
  otherName: string | null;
  year: string | null;
  genres: readonly string[];
}

export interface Found extends Film {
  seen: boolean;
}

/** What speaks for a recommended film: one that was seen, or a tag that such films have. */
export type Because = { kind: "film"; film: Film } | { kind: "tag"; tag: string; name: string };

/** A recommended film, with what speaks for it most, the strongest first. */
export interface Advice extends Film {
  because: readonly Because[];
}

/** Why something did not go as it should, by what it means for its owner. */
export interface Trouble {
  /** untrusted, terms: the server or the proxy cannot be believed. storage: this device fails. */
  kind: "untrusted" | "terms" | "storage" | "refused" | "unavailable";
  /** What happened, in a sentence or two. */
  text: string;
  /** For `terms`: everything that would be worse, and what would be accepted. */
  terms: { worse: readonly string[]; asked: Terms } | null;
}

/** All that the page shows, but for the batch and the curve. */
export interface State {
  /** Of the model that recommendations come from; null before the first. */
  manifest: Manifest | null;
  /** What it asks for. */
  offer: Offer | null;
  /** Worse terms that wait for a yes. */
  asked: Offer | null;
  /** Whether terms were ever accepted: until then the limit is 0. */
  agreed: boolean;
  takingPart: boolean;
  /** In how many epochs of this training this device took part. */
  epochs: number;
  spent: number;
  /** The same, exactly. */
  gone: Amount;
  limit: number;
  films: readonly Film[];
  advice: readonly Advice[];
  /** Whether they come from the model; else from tags alone, to compare. */
  whispers: boolean;
  suggestions: readonly Film[];
  /** Whether there are films to search. */
  searchable: boolean;
  /** What becomes of this epoch's reports, in a sentence. */
  line: string;
  trouble: Trouble | null;
}

/** One epoch in the history that everybody can check. */
export interface Point {
  epoch: number;
  /** HR@10 of its model on the panel, or null where there is no panel. */
  quality: number | null;
  /** Who took part in it; null while it is not over. */
  people: number | null;
}

export interface Curve {
  /** Public test people in the panel; null: the operator publishes none. */
  panel: number | null;
  /** HR@10 of what is popular, on the same people; null where the operator does not say what is. */
  popularity: number | null;
  /** HR@10 of the lists that there would be without anybody's reports; null before it is measured. */
  tagsAlone: number | null;
  points: readonly Point[];
}

/** What the page is told unasked. */
export type Event =
  | { kind: "state"; state: State }
  | { kind: "batch"; batch: LeftDevice | null }
  | { kind: "curve"; curve: Curve };
