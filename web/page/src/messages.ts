/**
 * What the page and its worker say to each other. The page asks, the worker answers each question
 * once, and tells of its own accord what has changed.
 */
import type { Amount, Explanation, LeftDevice, Manifest, Terms } from "sottovoce-client";

/** A film, ready to be shown. */
export interface Film {
  id: string;
  name: string;
  /** Such as the original title. */
  otherName: string | null;
  year: string | null;
  genres: readonly string[];
}

/** A film that the search found. */
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

/** Terms, ready to be shown. Worked out in the worker: the page's own thread knows no mechanism. */
export interface Offer extends Explanation {
  terms: Terms;
  /** What is promised, in sentences: from the terms and the ledger, and not the operator's word. */
  promise: readonly string[];
  /** In how many epochs this device may still take part under them. */
  turns: number;
  /** Everything spent so far, and all that they may still cost. */
  lifetime: number;
  /** What is left of it where the proxy mixes honestly; null where that adds nothing. */
  mixed: number | null;
}

/** All that the page shows, but for the batch and the curve. */
export interface State {
  /** Of the model that recommendations come from; null before the first. */
  manifest: Manifest | null;
  /** What it asks for. */
  offer: Offer | null;
  /** Worse terms that wait for a yes. */
  asked: Offer | null;
  /** Whether terms were ever accepted: until then the lifetime limit is 0. */
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
  suggestions: readonly Film[];
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

/** The learning curve so far. */
export interface Curve {
  /** Public test people in the panel; null: the operator publishes none. */
  panel: number | null;
  /** HR@10 of what is popular, on the same people; null where the operator does not say what is. */
  popularity: number | null;
  points: readonly Point[];
}

/** What the page may ask for. */
export type Request =
  | { kind: "open"; proxy: string; key: string; name: string; jitter: number }
  | { kind: "conditions"; visible: boolean; online: boolean }
  | { kind: "search"; text: string }
  | { kind: "add"; id: string }
  | { kind: "remove"; id: string }
  | { kind: "agree"; terms: Terms; limit: number }
  | { kind: "takePart"; on: boolean }
  | { kind: "setLimit"; limit: number }
  | { kind: "acceptTerms"; terms: Terms }
  | { kind: "forget" };

/** What each question is answered with. */
export interface Answers {
  open: null;
  conditions: null;
  search: readonly Found[];
  add: null;
  remove: null;
  agree: null;
  takePart: null;
  setLimit: null;
  acceptTerms: null;
  forget: null;
}

/** A question of one kind. */
export type RequestOf<K extends Request["kind"]> = Extract<Request, { kind: K }>;

/** Asks the worker. */
export type Ask = <K extends Request["kind"]>(request: RequestOf<K>) => Promise<Answers[K]>;

/** A question on its way, with a number to know its answer by. */
export interface Asked {
  number: number;
  request: Request;
}

/** An answer on its way. */
export type Answered =
  | { kind: "answer"; number: number; value: Answers[Request["kind"]] }
  | { kind: "failed"; number: number; trouble: Trouble };

/** What the worker tells unasked. */
export type Event =
  | { kind: "state"; state: State }
  | { kind: "batch"; batch: LeftDevice | null }
  | { kind: "curve"; curve: Curve };

/** Everything that comes from the worker. */
export type FromWorker = Answered | Event;
