/** Formats the reasons for a recommendation as a sentence. */

import type { Reason } from "./state.js";

/** A part of a sentence: a film's name, a tag, or the text between. */
export interface TextPart {
  kind: "film" | "tag" | "plain";
  text: string;
}

/**
 * Format reasons: "because you saw Alien and The Thing, and like Horror".
 *
 * The strongest reasons come first, but years come after other tags: in "films from 1995 and
 * Horror", both would seem to be one reason.
 */
export function explainReasons(reasons: readonly Reason[]): TextPart[] {
  const films = reasons.filter((one) => one.kind === "film").map(toPart);
  const ofTags = reasons.filter((one) => one.kind === "tag");
  const tags = [...ofTags].sort((a, b) => Number(isYear(a)) - Number(isYear(b))).map(toPart);
  const clauses = [joinParts("saw ", films), joinParts("like ", tags)].filter(
    (parts) => parts.length > 0,
  );
  if (reasons[0]?.kind === "tag") clauses.reverse();
  const [first, second] = clauses;
  if (first === undefined) return [];
  const secondClause = second === undefined ? [] : [toPlainPart(", and "), ...second];
  return [toPlainPart("because you "), ...first, ...secondClause];
}

function isYear(one: Reason): boolean {
  return one.kind === "tag" && one.tag === "year";
}

function toPlainPart(text: string): TextPart {
  return { kind: "plain", text };
}

function toPart(one: Reason): TextPart {
  if (one.kind === "film") return { kind: "film", text: one.film.name };
  return { kind: "tag", text: formatTag(one.tag, one.name) };
}

/** Format a tag. A genre needs no further words; years and other kinds of tags do. */
function formatTag(kind: string, name: string): string {
  if (kind === "genre") return name;
  return kind === "year" ? formatYears(name) : `${kind.replaceAll("_", " ")}: ${name}`;
}

/** Format a band of years: "films before 1960", "films from 1979 to 1984", "films from 2010 on". */
function formatYears(band: string): string {
  if (band.startsWith("under ")) return band.replace("under", "films before");
  return `films from ${band.replace("or more", "on")}`;
}

/**
 * Join the parts of a clause: "saw A", "saw A and B", "saw A, B and C". Return no parts for an
 * empty list.
 */
function joinParts(verb: string, words: readonly TextPart[]): TextPart[] {
  const joined = words.flatMap((word, at) => {
    if (at === 0) return [word];
    return [toPlainPart(at === words.length - 1 ? " and " : ", "), word];
  });
  return joined.length === 0 ? [] : [toPlainPart(verb), ...joined];
}
