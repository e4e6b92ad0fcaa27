/**
 * Finds films by what people type: "spiderman" is Spider-Man,
 * "godfather 2" is The Godfather: Part II.
 *
 * Case, accents, punctuation, articles and the order of words do not matter; a word may be cut short,
 * two words may be written as one, and a number as a figure, a word or in Roman letters. Where nothing is
 * found, titles that share most of their trigrams with it are taken to be meant, and rather well-known ones.
 */

import type { Film } from "./state.js";

const MARKS = /\p{M}+/gu;
const APOSTROPHES = /['’`]/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
/** Alien³ is Alien 3. */
const RAISED = /[¹²³]/gu;
/** Letters that are no plain letter with a mark. */
const LETTERS: Readonly<Record<string, string>> = {
  ...{ ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" },
};
const ODD_LETTERS = new RegExp(`[${Object.keys(LETTERS).join("")}]`, "gu");
/** May be missing on either side. */
const SMALL_WORDS: ReadonlySet<string> = new Set(["the", "a", "an", "and"]);
/** Before a number they say nothing more. */
const COUNTED: ReadonlySet<string> = new Set(["part", "episode", "vol", "volume", "chapter"]);
const ROMAN = numbered("i ii iii iv v vi vii viii ix x xi xii xiii");
const SPELT = numbered("one two three four five six seven eight nine ten eleven twelve thirteen");
/** No series is longer; a larger number is part of a name, or a year. */
const MOST_EPISODES = 30;
const LEAST_YEAR_DIGITS = 3;
/** Two films that begin alike may have nothing to do with each other. */
const LEAST_SERIES = 3;
/** Between two names: nothing that is typed has it. */
const GAP = "\n";

function numbered(words: string): ReadonlyMap<string, number> {
  return new Map(words.split(" ").map((word, at) => [word, at + 1]));
}

/** Lower case, without accents and punctuation: "Amélie" and "amelie" are the same. */
export function normalised(text: string): string {
  return text
    .replace(RAISED, " $&")
    .normalize("NFKD")
    .replace(MARKS, "")
    .toLowerCase()
    .replace(ODD_LETTERS, (letter) => LETTERS[letter] ?? letter)
    .replace(APOSTROPHES, "")
    .replace(/[&+]/gu, " and ")
    .replace(SEPARATORS, " ")
    .trim();
}

function wordsOf(text: string): string[] {
  const plain = normalised(text);
  return plain === "" ? [] : plain.split(" ");
}

function withoutSmall(words: readonly string[]): readonly string[] {
  const large = words.filter((word) => !SMALL_WORDS.has(word));
  return large.length === 0 ? words : large;
}

/** The number that a word stands for, if it is one that films are counted by. */
function numberOf(word: string | undefined): number | null {
  if (word === undefined) return null;
  const number = /^\d+$/u.test(word) ? Number(word) : (SPELT.get(word) ?? ROMAN.get(word));
  return number === undefined || number > MOST_EPISODES ? null : number;
}

/** "part" in "rocky part 2". */
function announces(words: readonly string[], at: number): boolean {
  return at > 0 && COUNTED.has(words[at] ?? "") && numberOf(words[at + 1]) !== null;
}

/** With every number as a figure: "godfather part ii" is "godfather 2", but V for Vendetta keeps its V. */
function counted(words: readonly string[]): string[] {
  return words
    .map((word, at) => (at === 0 && ROMAN.has(word) ? word : String(numberOf(word) ?? word)))
    .filter((_, at) => !announces(words, at));
}

/** How well a name fits: it is what was asked for, begins so, begins with half a word of it, or has it. */
const FITS = { whole: 0, words: 1, letters: 2, inside: 3 } as const;
/** A little worse: it is another name of the film that fits. */
const OTHER = 0.5;

/** As it is written, or as it is counted. */
function fitOf(name: readonly string[], asked: readonly string[]): number {
  const [own, question] = [withoutSmall(name), withoutSmall(asked)];
  return Math.min(fitAs(own, question), fitAs(counted(own), counted(question)));
}

function fitAs(words: readonly string[], question: readonly string[]): number {
  const [text, begin] = [words.join(""), question.join("")];
  if (text === begin) return FITS.whole;
  if (!text.startsWith(begin)) return FITS.inside;
  let end = 0;
  for (const word of words) {
    end += word.length;
    if (end === begin.length) return FITS.words;
  }
  return FITS.letters;
}

interface Entry {
  readonly film: Film;
  /** The words of its own name, and of its other one. */
  readonly names: readonly (readonly string[])[];
  /** Both in one piece, and where a word begins that is not a small one. */
  readonly text: string;
  readonly begins: readonly number[];
  readonly numbers: readonly number[];
}

function entryOf(film: Film): Entry {
  const names = [wordsOf(film.name), wordsOf(film.otherName ?? "")];
  const words = [...(names[0] ?? []), GAP, ...(names[1] ?? [])];
  const begins: number[] = [];
  let at = 0;
  for (const word of words) {
    if (!SMALL_WORDS.has(word)) begins.push(at);
    at += word.length;
  }
  const numbers = words.map(numberOf).filter((number) => number !== null);
  return { film, names, text: words.join(""), begins, numbers };
}

/** From the beginning of a word on, perhaps over the end of it: "spiderman". */
function has({ film, text, begins, numbers }: Entry, word: string): boolean {
  const number = numberOf(word);
  return (
    (number !== null && numbers.includes(number)) ||
    begins.some((at) => text.startsWith(word, at)) ||
    (word.length >= LEAST_YEAR_DIGITS && (film.year?.startsWith(word) ?? false))
  );
}

/** What films of one series begin with, and which one of them it is, where its title says so. */
interface Place {
  readonly series: string;
  readonly place: number | null;
}

/** Two words, or fewer before a number or a colon. A number that comes later counts parts of one film. */
function placeOf({ name }: Film): Place {
  const words = withoutSmall(wordsOf(name));
  const beforeColon = withoutSmall(wordsOf(name.split(": ", 1)[0] ?? "")).length;
  const at = words.findIndex((word, at) => at > 0 && (announces(words, at) || numberOf(word)));
  const length = Math.min(2, beforeColon, at > 0 ? at : 2);
  const number = numberOf(words[at]) ?? numberOf(words[at + 1]);
  return { series: words.slice(0, length).join(" "), place: at === length ? number : null };
}

interface Hit extends Place {
  readonly film: Film;
  readonly fit: number;
}

/** Of the trigrams that were typed, so many must be a title's: one slip spoils three of them. */
const LEAST_SHARED = 0.5;
/** What is less like it than so much of the best is not shown beside that. */
const NEARLY = 0.7;
/** What the length of a title and its being known weigh, against the trigrams that were typed. */
const [LENGTH, KNOWN] = [0.5, 0.3];

/** Three letters each, over the ends of words; in the order of the alphabet, since fingers swap them. */
function trigramsOf(words: readonly string[]): ReadonlySet<string> {
  const text = ` ${counted(withoutSmall(words)).join(" ")} `;
  return new Set(
    Array.from({ length: text.length - 2 }, (_, at) => [...text.slice(at, at + 3)].sort().join("")),
  );
}

export class TitleIndex {
  readonly #entries: readonly Entry[];
  /** Of every name, once they are needed. */
  #trigrams: readonly (readonly ReadonlySet<string>[])[] = [];
  #ranks: ReadonlyMap<string, number> = new Map();

  constructor(films: readonly Film[]) {
    this.#entries = films.map(entryOf);
  }

  /** The ids of those that are known best, the first one most: of films that fit alike they come first. */
  setPopular(ids: readonly string[]): void {
    this.#ranks = new Map(ids.map((id, rank) => [id, rank]));
  }

  /** The best `most` films: those whose titles fit best, films of a series one after the other. */
  search(question: string, most: number): Film[] {
    const words = wordsOf(question);
    if (words.length === 0) return [];
    const hits = this.#hits(words);
    const films = hits.length > 0 ? ordered(hits, this.#ranks) : this.#nearest(words);
    return films.slice(0, most);
  }

  #hits(asked: readonly string[]): Hit[] {
    const needed = withoutSmall(asked).filter((_, at, words) => !announces(words, at));
    return this.#entries
      .filter((entry) => needed.every((word) => has(entry, word)))
      .map((entry) => hitOf(entry, asked));
  }

  /** "shinning" is The Shining. */
  #nearest(words: readonly string[]): Film[] {
    if (this.#trigrams.length === 0)
      this.#trigrams = this.#entries.map(({ names }) =>
        names.filter((name) => name.length > 0).map(trigramsOf),
      );
    const typed = trigramsOf(words);
    const worth = this.#trigrams.map((names) =>
      Math.max(0, ...names.map((own) => likeness(typed, own))),
    );
    const best = worth.reduce((one, other) => Math.max(one, other), 0);
    const score = (at: number) => (worth[at] as number) + KNOWN * this.#known(at);
    return [...worth.keys()]
      .filter((at) => (worth[at] as number) > NEARLY * best)
      .sort((a, b) => score(b) - score(a))
      .flatMap((at) => this.#entries[at]?.film ?? []);
  }

  /** From 1 for what is known best to 0. */
  #known(at: number): number {
    const rank = this.#ranks.get(this.#entries[at]?.film.id ?? "") ?? this.#ranks.size;
    return 1 - Math.log1p(rank) / Math.log1p(this.#ranks.size || 1);
  }
}

/** How much of what was typed a name has, and a little of the other way round; 0 for too little. */
function likeness(typed: ReadonlySet<string>, own: ReadonlySet<string>): number {
  let shared = 0;
  for (const each of typed) shared += Number(own.has(each));
  if (shared < LEAST_SHARED * typed.size) return 0;
  return shared / typed.size + (LENGTH * 2 * shared) / (typed.size + own.size);
}

function hitOf({ film, names: [own = [], other = []] }: Entry, asked: readonly string[]): Hit {
  const fit = Math.min(fitOf(own, asked), fitOf(other, asked) + OTHER);
  return { film, fit, ...placeOf(film) };
}

/**
 * The best fits first, of these what is known best, then series before single films, short titles first. What
 * is called just so is no series.
 */
function ordered(hits: readonly Hit[], ranks: ReadonlyMap<string, number>): Film[] {
  const firsts = firstOfSeries(hits);
  const least = (group: readonly Hit[], of: (film: Film) => number) =>
    group.reduce((so, { film }) => Math.min(so, of(film)), ranks.size + 1e6);
  const keyOf = ({ fit, series, film }: Hit) => `${fit} ${fit === FITS.whole ? film.id : series}`;
  return grouped(hits, keyOf)
    .map((group) => ({
      group,
      fit: group[0]?.fit ?? 0,
      rank: least(group, ({ id }) => ranks.get(id) ?? ranks.size),
      isSeries: Number(group.length >= LEAST_SERIES),
      length: least(group, ({ name }) => name.length),
    }))
    .sort(
      (a, b) => a.fit - b.fit || a.rank - b.rank || b.isSeries - a.isSeries || a.length - b.length,
    )
    .flatMap(({ group }) => inSeries(group, firsts))
    .map(({ film }) => film);
}

function grouped(hits: readonly Hit[], keyOf: (hit: Hit) => string): Hit[][] {
  const groups = new Map<string, Hit[]>();
  for (const hit of hits) {
    const group = groups.get(keyOf(hit));
    if (group === undefined) groups.set(keyOf(hit), [hit]);
    else group.push(hit);
  }
  return [...groups.values()];
}

/** In each series without a number 1, the oldest film that has no number. */
function firstOfSeries(hits: readonly Hit[]): ReadonlySet<Hit> {
  const firsts = grouped(hits, ({ series }) => series).flatMap((series) => {
    if (series.some(({ place }) => place === 1)) return [];
    return series
      .filter(({ place }) => place === null)
      .sort(byYear)
      .slice(0, 1);
  });
  return new Set(firsts);
}

/** By number, then what has none by year. */
function inSeries(group: readonly Hit[], firsts: ReadonlySet<Hit>): Hit[] {
  const rank = (hit: Hit) => (firsts.has(hit) ? 1 : (hit.place ?? MOST_EPISODES + 1));
  return [...group].sort((a, b) => rank(a) - rank(b) || byYear(a, b));
}

function byYear(a: Hit, b: Hit): number {
  return yearOf(a) - yearOf(b);
}

function yearOf({ film }: Hit): number {
  return Number(film.year ?? "9999");
}
