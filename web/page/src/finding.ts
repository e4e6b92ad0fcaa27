/**
 * Finds films by what people type: "spiderman" is Spider-Man,
 * "godfather 2" is The Godfather: Part II.
 *
 * Case, accents, punctuation, articles and the order of words do not matter; a word may be cut short,
 * two words may be written as one, and a number as a figure, a word or in Roman letters. Where nothing is
 * found, words that no title has are taken for slips of the nearest ones.
 */

import type { Film } from "./session.js";

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

/** Letters that a word needs before it is taken for a slip, and before it may have two. */
const [ONE_SLIP, TWO_SLIPS] = [4, 8];

export class TitleIndex {
  readonly #entries: readonly Entry[];
  /** Every word of a title, and titles in one word. */
  readonly #words: ReadonlySet<string>;
  #ranks: ReadonlyMap<string, number> = new Map();

  constructor(films: readonly Film[]) {
    this.#entries = films.map(entryOf);
    this.#words = new Set(
      this.#entries.flatMap(({ names }) =>
        names.flatMap((name) => [...name, withoutSmall(name).join("")]),
      ),
    );
  }

  /** The ids of those that are known best, the first one most: of films that fit alike they come first. */
  setPopular(ids: readonly string[]): void {
    this.#ranks = new Map(ids.map((id, rank) => [id, rank]));
  }

  /** The best `most` films: those whose titles fit best, films of a series one after the other. */
  search(question: string, most: number): Film[] {
    const words = wordsOf(question);
    if (words.length === 0) return [];
    for (const asked of [words, ...inPairs(words), ...withoutNumber(words), null]) {
      const hits = this.#hits(asked ?? words.map((word) => this.#nearest(word)));
      if (hits.length > 0) return ordered(hits, this.#ranks).slice(0, most);
    }
    return [];
  }

  #hits(asked: readonly string[]): Hit[] {
    const needed = withoutSmall(asked).filter((_, at, words) => !announces(words, at));
    return this.#entries
      .filter((entry) => needed.every((word) => has(entry, word)))
      .map((entry) => hitOf(entry, asked));
  }

  /** A word as some title has it: "shinning" is shining. What is right, or too far off, stays. */
  #nearest(word: string): string {
    if (word.length < ONE_SLIP || this.#entries.some((entry) => has(entry, word))) return word;
    let [nearest, least] = [word, word.length < TWO_SLIPS ? 2 : 3];
    for (const each of this.#words) {
      if (Math.abs(each.length - word.length) >= least) continue;
      const slips = slipsBetween(word, each);
      if (slips < least) [nearest, least] = [each, slips];
    }
    return nearest;
  }
}

/** Letters that were changed, added, left out, or swapped with their neighbour. */
function slipsBetween(one: string, other: string): number {
  let [before, last] = [[0], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const at = (from: readonly number[], place: number) => from[place] as number;
      const change = at(last, j - 1) + Number(one[i - 1] !== other[j - 1]);
      const isSwap = i > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const swap = isSwap ? at(before, j - 2) + 1 : change;
      row.push(Math.min(change, swap, at(last, j) + 1, at(row, j - 1) + 1));
    }
    [before, last] = [last, row];
  }
  return last[other.length] as number;
}

function hitOf({ film, names: [own = [], other = []] }: Entry, asked: readonly string[]): Hit {
  const fit = Math.min(fitOf(own, asked), fitOf(other, asked) + OTHER);
  return { film, fit, ...placeOf(film) };
}

/** "star gate" may be Stargate. */
function inPairs(words: readonly string[]): string[][] {
  return words
    .slice(1)
    .map((word, at) => [...words.slice(0, at), `${words[at]}${word}`, ...words.slice(at + 2)]);
}

/** "harry potter 3" has no such number in its title: then all of the series is shown. */
function withoutNumber(words: readonly string[]): string[][] {
  return words.length > 1 && numberOf(words.at(-1)) !== null ? [words.slice(0, -1)] : [];
}

/** The best fits first, of these what is known best, then series before single films, short titles first. */
function ordered(hits: readonly Hit[], ranks: ReadonlyMap<string, number>): Film[] {
  const firsts = firstOfSeries(hits);
  const least = (group: readonly Hit[], of: (film: Film) => number) =>
    group.reduce((so, { film }) => Math.min(so, of(film)), ranks.size + 1e6);
  return grouped(hits, ({ fit, series }) => `${fit} ${series}`)
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
