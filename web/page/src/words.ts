/**
 * Everything that the page says in words and numbers: amounts, odds, where reporting stands, reasons, the age
 * of a model.
 */

import {
  inHundred,
  type LeftDevice,
  type Manifest,
  type Odds,
  type Plan,
  type Synced,
} from "sottovoce-client";
import type { Because, Curve } from "./state.js";

/** By so much of itself a product of floats is off: three times 0.1 is not 0.31. */
const NOISE = 1e-14;

/** Thousands apart, at most two places. Not for a bound: see `atMostText`. */
export function amountText(value: number, places = 2): string {
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

/** An epsilon, or another bound: never rounded down. Two places, or two digits where it is small. */
export function atMostText(value: number): string {
  const places = value > 0 ? Math.max(2, 1 - Math.floor(Math.log10(value))) : 2;
  const scale = 10 ** places;
  return amountText(Math.ceil(value * scale * (1 - NOISE)) / scale, places);
}

/** "1 report", "50 reports". */
export function reportsText(reports: number): string {
  return reports === 1 ? "1 report" : `${amountText(reports)} reports`;
}

/** "1 epoch", "10 epochs". */
export function epochsText(epochs: number): string {
  return epochs === 1 ? "1 epoch" : `${amountText(epochs)} epochs`;
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** In hundredths: what is nearer to certainty is not told in digits. */
const LEAST_DOUBT = 1e-4;

/** A report as a weighted coin, in a sentence. */
export function oddsSentence({ truth, chance, random }: Odds): string {
  const beginning = `Each report is a weighted coin: ${shareText(truth)} times in 100 it tells`;
  return random === 0
    ? `${beginning} the sign that your films gave, otherwise the opposite.`
    : `${beginning} a direction that fits you; blind chance would in ${shareText(chance)} of 100.`;
}

/** What a limit is, where somebody meets the word first. */
export const LIMIT_SENTENCE =
  "Every report gives away a little about your films, and what has been given away adds up for ever. " +
  "The limit is the most that this device may give away; it is counted in epsilon. " +
  "When it is reached, reporting stops by itself.";

/** How sure somebody can be that you saw a film who took it for as likely as not. */
export function surenessText(epsilon: number): string {
  const sure = inHundred(epsilon);
  return sure === "always" ? "certain" : `${sure} in 100`;
}

/** "3", "12.2", "more than a million": e^epsilon, never rounded down. */
export function ratio(epsilon: number): string {
  const value = Math.exp(epsilon);
  if (value > 1e6) return "more than a million";
  return amountText(value < 100 ? Math.ceil(value * 10) / 10 : Math.ceil(value));
}

/** Never "100 in 100" of something that is not certain, nor "0 in 100" of what can happen. */
function shareText(share: number): string {
  const percent = share * 100;
  const rest = Math.min(percent, 100 - percent);
  if (rest < LEAST_DOUBT) return percent > 50 ? "more than 99.9999" : "fewer than 0.0001";
  return amountText(percent, rest < 1 ? 1 + Math.ceil(-Math.log10(rest)) : 0);
}

/** What the state line is made from. */
export interface ReportStanding {
  manifest: Pick<Manifest, "epoch" | "publicKey"> | null;
  agreed: boolean;
  takingPart: boolean;
  /** In how many epochs this device may still take part by its terms; null where nobody knows. */
  turnsLeft: number | null;
  batch: Pick<LeftDevice, "epoch" | "state" | "told"> | null;
  /** What the last sync of this session came to. */
  synced: Pick<Synced, "epoch" | "outcome" | "sentence"> | null;
  /** What the coins said last. */
  plan: Plan | null;
  /** Unix seconds. */
  now: number;
  /** When a batch left, if it was in this session; Unix seconds. */
  sentAt: { epoch: number; time: number } | null;
}

/** What becomes of this epoch's reports. */
export function stateLine(standing: ReportStanding): string {
  const { manifest, agreed, takingPart, batch } = standing;
  if (!agreed) return "You do not take part. Nothing leaves this device.";
  const own = batch !== null && batch.epoch === manifest?.epoch ? batch : null;
  if (own?.state === "sent") return left(own, standing);
  if (standing.turnsLeft === 0 && own === null) return DONE;
  if (!takingPart) return "Paused. Nothing leaves this device; recommendations go on.";
  if (manifest === null) return "Waiting for the server's first word.";
  if (own?.state === "charged") return waiting(own);
  return fromSync(manifest, standing);
}

const DONE =
  "Done: all that you agreed to is spent. No more reports are made; recommendations go on.";

type Batch = NonNullable<ReportStanding["batch"]>;

function left(batch: Batch, { sentAt, takingPart }: ReportStanding): string {
  const time = sentAt?.epoch === batch.epoch ? ` at ${clockText(sentAt.time)}` : "";
  const more = takingPart ? "" : " Paused: nothing more leaves this device.";
  return `Epoch ${batch.epoch}: your ${reportsText(batch.told.length)} left${time}.${more}`;
}

function waiting(batch: Batch): string {
  const reports = reportsText(batch.told.length);
  return `Epoch ${batch.epoch}: sealed and paid for, your ${reports} will be sent in a moment.`;
}

function fromSync(
  manifest: NonNullable<ReportStanding["manifest"]>,
  standing: ReportStanding,
): string {
  const { synced, plan, now } = standing;
  if (synced?.epoch === manifest.epoch) return synced.sentence;
  if (manifest.publicKey === null) return "No reports are asked for at present.";
  if (plan?.epoch === manifest.epoch && plan.sendAt > now) return planned(plan.epoch);
  return `Epoch ${manifest.epoch}: your reports are being made.`;
}

function planned(epoch: number): string {
  return (
    `Epoch ${epoch}: your reports leave within seconds, at a moment drawn at random. If this page is ` +
    "closed before, they leave at your next visit, if the epoch lasts."
  );
}

/** The time of day, as this device writes it. */
function clockText(time: number): string {
  return new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/** "7 days", "90 seconds": in the largest unit that fits a whole number of times. */
export function durationText(seconds: number): string {
  const [unit, size] = UNITS.find((each) => seconds > 0 && seconds % each[1] === 0) ?? [
    "second",
    1,
  ];
  const count = seconds / size;
  return `${amountText(count)} ${unit}${count === 1 ? "" : "s"}`;
}

/** What is left of an epoch: "0:42", "1:05:00". */
export function countdownText(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown.map((part, at) => (at === 0 ? `${part}` : `${part}`.padStart(2, "0"))).join(":");
}

/** A long statement, sentence by sentence: nobody reads it in one breath. */
export function sentencesOf(text: string): string[] {
  return text.split(/(?<=[.!?])\s+(?=\p{Lu})/u).filter((sentence) => sentence !== "");
}

/** A piece of the sentence: a film's name, a tag, or what stands between. */
export interface Word {
  kind: "film" | "tag" | "plain";
  text: string;
}

/**
 * "because you saw Alien and The Thing, and like Horror": what speaks most comes first, but years
 * after other tags, or they would seem to be of those ("films from 1995 and Horror").
 */
export function becauseWords(because: readonly Because[]): Word[] {
  const films = because.filter((one) => one.kind === "film").map(wordOf);
  const ofTags = because.filter((one) => one.kind === "tag");
  const tags = [...ofTags].sort((a, b) => Number(isYear(a)) - Number(isYear(b))).map(wordOf);
  const clauses = [clause("saw ", films), clause("like ", tags)].filter((each) => each.length > 0);
  if (because[0]?.kind === "tag") clauses.reverse();
  const [first, second] = clauses;
  if (first === undefined) return [];
  const rest = second === undefined ? [] : [plain(", and "), ...second];
  return [plain("because you "), ...first, ...rest];
}

function isYear(one: Because): boolean {
  return one.kind === "tag" && one.tag === "year";
}

function plain(text: string): Word {
  return { kind: "plain", text };
}

function wordOf(one: Because): Word {
  if (one.kind === "film") return { kind: "film", text: one.film.name };
  return { kind: "tag", text: tagText(one.tag, one.name) };
}

/** A genre says what it is; a number or another kind of label does not. */
function tagText(kind: string, name: string): string {
  if (kind === "genre") return name;
  return kind === "year" ? yearsText(name) : `${kind.replaceAll("_", " ")}: ${name}`;
}

/** Of a band: "films before 1960", "films from 1979 to 1984", "films from 2010 on". */
function yearsText(band: string): string {
  if (band.startsWith("under ")) return band.replace("under", "films before");
  return `films from ${band.replace("or more", "on")}`;
}

/** "saw A", "saw A and B", "saw A, B and C"; nothing for nothing. */
function clause(verb: string, words: readonly Word[]): Word[] {
  const joined = words.flatMap((word, at) => {
    if (at === 0) return [word];
    return [plain(at === words.length - 1 ? " and " : ", "), word];
  });
  return joined.length === 0 ? [] : [plain(verb), ...joined];
}

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
