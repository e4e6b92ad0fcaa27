/** Formats the reasons for a recommendation as a sentence. */

import type { Film, Reason } from "./state.js";

/** A part of a sentence: a film's name, a tag, or the text between. */
export interface TextPart {
  kind: "film" | "tag" | "plain";
  text: string;
}

/**
 * Format reasons: "because you saw Alien and The Thing, and like Horror, and many see it now".
 *
 * The strongest reasons come first, but years come after other tags: in "films from 1995 and
 * Horror", both would seem to be one reason.
 */
export function explainReasons(reasons: readonly Reason[]): TextPart[] {
  const films = reasons.flatMap((one) => (one.kind === "film" ? [one] : []));
  const tags = reasons.flatMap((one) => (one.kind === "tag" ? [one] : []));
  tags.sort((a, b) => Number(a.tag === "year") - Number(b.tag === "year"));
  const clauses = {
    film: joinParts("saw ", films.map(toFilmPart)),
    tag: joinParts("like ", tags.map(toTagPart)),
    now: [toPlainPart("many see it now")],
  };
  const kinds = [...new Set(reasons.map(({ kind }) => kind))];
  return kinds.flatMap((kind, at) => {
    const link = at === 0 ? "because " : ", and ";
    const isNewSubject = kind !== "now" && (at === 0 || kinds[at - 1] === "now");
    return [toPlainPart(isNewSubject ? `${link}you ` : link), ...clauses[kind]];
  });
}

function toPlainPart(text: string): TextPart {
  return { kind: "plain", text };
}

function toFilmPart({ film }: { film: Film }): TextPart {
  return { kind: "film", text: film.name };
}

function toTagPart({ tag, name }: { tag: string; name: string }): TextPart {
  return { kind: "tag", text: formatTag(tag, name) };
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

/** Join the parts of a clause: "saw A", "saw A and B", "saw A, B and C". */
function joinParts(verb: string, words: readonly TextPart[]): TextPart[] {
  const joined = words.flatMap((word, at) => {
    if (at === 0) return [word];
    return [toPlainPart(at === words.length - 1 ? " and " : ", "), word];
  });
  return [toPlainPart(verb), ...joined];
}
