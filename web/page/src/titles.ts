/** Converts titles of the catalogue to the form that people use. */

import type { Item } from "sottovoce-client";
import type { Film } from "./state.js";

const ARTICLE_WORDS =
  "the|a|an|le|la|les|l'|un|une|der|die|das|ein|eine|il|lo|gli|i|el|los|las|o|os|as|den|det|de";
const TRAILING_ARTICLE = new RegExp(`^(.+), (${ARTICLE_WORDS})$`, "iu");
const YEAR_PATTERN = /\s*\((\d{4})(?:[-–]\d{0,4})?\)\s*$/u;
/**
 * Matches a title with another name in brackets. In "Birdman: Or (The Unexpected Virtue of
 * Ignorance)", the brackets continue the title.
 */
const OTHER_NAME_PATTERN = /^(.+?)(?<!\bor|:) \((?:a\.k\.a\. )?([^()]+)\)/iu;

/**
 * Split a title: "Matrix, The (1999)" is The Matrix of 1999. Other text in brackets is another name
 * of the film.
 */
export function splitTitle(title: string): Pick<Film, "name" | "otherName" | "year"> {
  const year = YEAR_PATTERN.exec(title)?.[1] ?? null;
  const whole = title.replace(YEAR_PATTERN, "");
  const [, first = whole, other = null] = OTHER_NAME_PATTERN.exec(whole) ?? [];
  return {
    name: moveArticle(first) || title,
    otherName: other === null ? null : moveArticle(other),
    year,
  };
}

function moveArticle(part: string): string {
  const match = TRAILING_ARTICLE.exec(part);
  if (match === null) return part;
  const [, rest = "", article = ""] = match;
  return article.endsWith("'") ? article + rest : `${article} ${rest}`;
}

/** Convert an item of the catalogue to a film. */
export function toFilm({ id, title, tags }: Item): Film {
  return { id, ...splitTitle(title), genres: Array.isArray(tags.genre) ? tags.genre : [] };
}

export function formatTitle(film: Film): string {
  return film.year === null ? film.name : `${film.name} (${film.year})`;
}
