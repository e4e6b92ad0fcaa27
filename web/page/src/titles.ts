/** Titles as people say them, and as people look for them. */
import type { Item } from "sottovoce-client";
import type { Film } from "./messages.js";

const ARTICLES =
  "the|a|an|le|la|les|l'|un|une|der|die|das|ein|eine|il|lo|gli|i|el|los|las|o|os|as|den|det|de";
const TRAILING_ARTICLE = new RegExp(`^(.+), (${ARTICLES})$`, "iu");
const LEADING_ARTICLE = /^(?:the|a|an) (?=.)/u;
const YEAR = /\s*\((\d{4})(?:[-–]\d{0,4})?\)\s*$/u;
/** Not "Birdman: Or (The Unexpected Virtue of Ignorance)": there the brackets go on. */
const OTHER_NAME = /^(.+?)(?<!\bor|:) \((?:a\.k\.a\. )?([^()]+)\)/iu;
const MARKS = /\p{M}+/gu;
const APOSTROPHES = /['’`]/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;

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

/** A film in one line. */
export function label(film: Film): string {
  return film.year === null ? film.name : `${film.name} (${film.year})`;
}

/** Lower case, without accents and punctuation: "Amélie" and "amelie" are the same. */
export function normalised(text: string): string {
  return text
    .normalize("NFD")
    .replace(MARKS, "")
    .replace(APOSTROPHES, "")
    .replace(/&/gu, " and ")
    .replace(SEPARATORS, " ")
    .trim()
    .toLowerCase();
}

interface Entry {
  film: Film;
  words: readonly string[];
  /** Without an article in front: "matrix 1999". */
  text: string;
}

/** Finds films by the beginnings of the words in their titles, in any order. */
export class TitleIndex {
  readonly #entries: readonly Entry[];

  constructor(films: readonly Film[]) {
    this.#entries = films.map(entry);
  }

  /** The best `most` films: titles that begin as the question does first, then the shorter ones. */
  search(question: string, most: number): Film[] {
    const asked = normalised(question);
    if (asked === "") return [];
    const words = asked.split(" ");
    const found = this.#entries.filter((each) => words.every((word) => hasWord(each, word)));
    const beginning = asked.replace(LEADING_ARTICLE, "");
    const ranked = found.map((each) => ({ film: each.film, rank: rank(each, beginning) }));
    return ranked
      .sort((a, b) => a.rank - b.rank)
      .slice(0, most)
      .map(({ film }) => film);
  }
}

function entry(film: Film): Entry {
  const text = normalised(`${label(film)} ${film.otherName ?? ""}`);
  return { film, words: text.split(" "), text: text.replace(LEADING_ARTICLE, "") };
}

function hasWord(entry: Entry, beginning: string): boolean {
  return entry.words.some((word) => word.startsWith(beginning));
}

/** Sorting keeps the catalogue's order among equals. */
function rank(entry: Entry, beginning: string): number {
  return (entry.text.startsWith(beginning) ? 0 : 10_000) + entry.text.length;
}
