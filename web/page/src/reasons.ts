/** Chooses the reason of each recommendation, and explains it in words. */

import type { Recommendation } from "sottovoce-client";
import type { Reason } from "./state.js";
import { splitTitle } from "./titles.js";

type ClientReason = Recommendation["reasons"][number];

/**
 * Return the most telling reason of each recommendation; null for one without reasons.
 *
 * A film that everybody knows supports every recommendation, so it is the strongest reason for most
 * of them and says little. The most telling reason has a large share, and a larger one than for the
 * rest of the list: its square, divided by its mean in the list, is the largest.
 */
export function chooseReasons(list: readonly Pick<Recommendation, "reasons">[]): (Reason | null)[] {
  const sums = new Map<string, number>();
  for (const { reasons } of list)
    for (const reason of reasons)
      sums.set(nameReason(reason), (sums.get(nameReason(reason)) ?? 0) + reason.share);
  const measure = (reason: ClientReason) => reason.share ** 2 / (sums.get(nameReason(reason)) ?? 1);
  return list.map(({ reasons }) => {
    const [best] = [...reasons].sort((a, b) => measure(b) - measure(a));
    return best === undefined ? null : toReason(best);
  });
}

function nameReason(reason: ClientReason): string {
  if (reason.kind === "item") return `item ${reason.id}`;
  return reason.kind === "tag" ? `tag ${reason.tag} ${reason.name}` : "now";
}

function toReason(reason: ClientReason): Reason {
  if (reason.kind === "item") return { kind: "film", name: splitTitle(reason.title).name };
  return reason.kind === "tag" ? { kind: "tag", tag: reason.tag, name: reason.name } : reason;
}

/** A part of a sentence: a film's name, or other text. */
export interface TextPart {
  isFilm: boolean;
  text: string;
}

/** Explain a reason: "because of Alien", "because of Horror", "because many see it now". */
export function explainReason(reason: Reason): TextPart[] {
  const because = { isFilm: false, text: "because " };
  if (reason.kind === "now") return [because, { isFilm: false, text: "many see it now" }];
  const isFilm = reason.kind === "film";
  const text = reason.kind === "film" ? reason.name : formatTag(reason.tag, reason.name);
  return [because, { isFilm: false, text: "of " }, { isFilm, text }];
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
