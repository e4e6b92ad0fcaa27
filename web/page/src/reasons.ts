/** Why a film is recommended, in plain words. */
import type { Because } from "./messages.js";

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
  return kind === "year" ? `films from ${name}` : `${kind.replaceAll("_", " ")}: ${name}`;
}

/** "saw A", "saw A and B", "saw A, B and C"; nothing for nothing. */
function clause(verb: string, words: readonly Word[]): Word[] {
  const joined = words.flatMap((word, at) => {
    if (at === 0) return [word];
    return [plain(at === words.length - 1 ? " and " : ", "), word];
  });
  return joined.length === 0 ? [] : [plain(verb), ...joined];
}
