/** Titles as people say them. */

import type { Item } from "sottovoce-client";
import type { Film } from "./state.js";

const ARTICLES =
  "the|a|an|le|la|les|l'|un|une|der|die|das|ein|eine|il|lo|gli|i|el|los|las|o|os|as|den|det|de";
const TRAILING_ARTICLE = new RegExp(`^(.+), (${ARTICLES})$`, "iu");
const YEAR = /\s*\((\d{4})(?:[-–]\d{0,4})?\)\s*$/u;
/** Not "Birdman: Or (The Unexpected Virtue of Ignorance)": there the brackets go on. */
const OTHER_NAME = /^(.+?)(?<!\bor|:) \((?:a\.k\.a\. )?([^()]+)\)/iu;

/** "Matrix, The (1999)" is The Matrix, of 1999; what else stands in brackets is another name. */
export function splitTitle(title: string): Pick<Film, "name" | "otherName" | "year"> {
  const year = YEAR.exec(title)?.[1] ?? null;
  const whole = title.replace(YEAR, "");
  const [, first = whole, other = null] = OTHER_NAME.exec(whole) ?? [];
  return {
    name: articleFirst(first) || title,
    otherName: other === null ? null : articleFirst(other),
    year,
  };
}

function articleFirst(part: string): string {
  const found = TRAILING_ARTICLE.exec(part);
  if (found === null) return part;
  const [, rest = "", article = ""] = found;
  return article.endsWith("'") ? article + rest : `${article} ${rest}`;
}

/** An item of the catalogue, as a film to show. */
export function toFilm({ id, title, tags }: Item): Film {
  return { id, ...splitTitle(title), genres: Array.isArray(tags.genre) ? tags.genre : [] };
}

export function label(film: Film): string {
  return film.year === null ? film.name : `${film.name} (${film.year})`;
}
