/**
 * Finds films by the titles that people type: "spiderman" finds Spider-Man, "godfather 2" finds The
 * Godfather: Part II.
 *
 * Case, accents, punctuation, articles and the order of words do not matter. A word may be cut
 * short, two words may be written as one, and a number may be written in digits, as a word or in
 * Roman numerals. If no title matches, the search returns titles that share most of the typed
 * trigrams, and prefers well-known ones.
 */

import type { Film } from "./state.js";

const COMBINING_MARKS = /\p{M}+/gu;
const APOSTROPHES = /['’`]/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
/** Raised digits count as digits: Alien³ is found as "alien 3". */
const RAISED_DIGITS = /[¹²³]/gu;
/** Replacements for letters that do not consist of a plain letter and a mark. */
const PLAIN_LETTERS: Readonly<Record<string, string>> = {
  ...{ ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" },
};
const ODD_LETTERS = new RegExp(`[${Object.keys(PLAIN_LETTERS).join("")}]`, "gu");
/** Words that may be missing in the title or in the typed text. */
const SMALL_WORDS: ReadonlySet<string> = new Set(["the", "a", "an", "and"]);
/** Words without meaning before a number, as in "part 2". */
const PART_WORDS: ReadonlySet<string> = new Set(["part", "episode", "vol", "volume", "chapter"]);
const ROMAN_NUMBERS = numberWords("i ii iii iv v vi vii viii ix x xi xii xiii");
const SPELLED_NUMBERS = numberWords(
  "one two three four five six seven eight nine ten eleven twelve thirteen",
);
/** Largest number that counts films of a series. Larger numbers are parts of names, or years. */
const MAX_EPISODES = 30;
const MIN_YEAR_DIGITS = 3;
/**
 * Minimum number of films of a series. Two films with the same beginning may have nothing else in
 * common.
 */
const MIN_SERIES_FILMS = 3;
/** Separator between the two names of a film. Typed text never contains it. */
const NAME_SEPARATOR = "\n";

function numberWords(words: string): ReadonlyMap<string, number> {
  return new Map(words.split(" ").map((word, at) => [word, at + 1]));
}

/** Convert to lower case, without accents and punctuation: "Amélie" and "amelie" are the same. */
export function normalize(text: string): string {
  return text
    .replace(RAISED_DIGITS, " $&")
    .normalize("NFKD")
    .replace(COMBINING_MARKS, "")
    .toLowerCase()
    .replace(ODD_LETTERS, (letter) => PLAIN_LETTERS[letter] ?? letter)
    .replace(APOSTROPHES, "")
    .replace(/[&+]/gu, " and ")
    .replace(SEPARATORS, " ")
    .trim();
}

function splitWords(text: string): string[] {
  const plain = normalize(text);
  return plain === "" ? [] : plain.split(" ");
}

function dropSmallWords(words: readonly string[]): readonly string[] {
  const large = words.filter((word) => !SMALL_WORDS.has(word));
  return large.length === 0 ? words : large;
}

/** Return the number that a word stands for; null if it is not a number that counts films. */
function parseNumber(word: string | undefined): number | null {
  if (word === undefined) return null;
  const number = /^\d+$/u.test(word)
    ? Number(word)
    : (SPELLED_NUMBERS.get(word) ?? ROMAN_NUMBERS.get(word));
  return number === undefined || number > MAX_EPISODES ? null : number;
}

/** Check whether the word at a place is one such as "part" in "rocky part 2". */
function isBeforeNumber(words: readonly string[], at: number): boolean {
  return at > 0 && PART_WORDS.has(words[at] ?? "") && parseNumber(words[at + 1]) !== null;
}

/**
 * Write every number in digits: "godfather part ii" becomes "godfather 2", but V for Vendetta keeps
 * its V.
 */
function writeFigures(words: readonly string[]): string[] {
  return words
    .map((word, at) =>
      at === 0 && ROMAN_NUMBERS.has(word) ? word : String(parseNumber(word) ?? word),
    )
    .filter((_, at) => !isBeforeNumber(words, at));
}

/**
 * How the typed words fit a name, best first: they are the whole name, its first words, its first
 * letters, or they occur elsewhere in it.
 */
const FIT_RANKS = { whole: 0, words: 1, letters: 2, inside: 3 } as const;
/** Penalty for a fit of the film's other name. */
const OTHER_NAME_PENALTY = 0.5;

/**
 * Return the better of two ranks: that of the words as they are written, and that of the words with
 * all numbers in digits.
 */
function rankFit(name: readonly string[], typed: readonly string[]): number {
  const [own, question] = [dropSmallWords(name), dropSmallWords(typed)];
  return Math.min(
    rankExactFit(own, question),
    rankExactFit(writeFigures(own), writeFigures(question)),
  );
}

function rankExactFit(words: readonly string[], question: readonly string[]): number {
  const [text, begin] = [words.join(""), question.join("")];
  if (text === begin) return FIT_RANKS.whole;
  if (!text.startsWith(begin)) return FIT_RANKS.inside;
  let end = 0;
  for (const word of words) {
    end += word.length;
    if (end === begin.length) return FIT_RANKS.words;
  }
  return FIT_RANKS.letters;
}

interface IndexEntry {
  readonly film: Film;
  /** The words of the film's name, and of its other name. */
  readonly names: readonly (readonly string[])[];
  /** Both names without spaces. */
  readonly text: string;
  /** Indexes in `text` at which words begin, except small ones. */
  readonly begins: readonly number[];
  readonly numbers: readonly number[];
}

function createEntry(film: Film): IndexEntry {
  const names = [splitWords(film.name), splitWords(film.otherName ?? "")];
  const words = [...(names[0] ?? []), NAME_SEPARATOR, ...(names[1] ?? [])];
  const begins: number[] = [];
  let at = 0;
  for (const word of words) {
    if (!SMALL_WORDS.has(word)) begins.push(at);
    at += word.length;
  }
  const numbers = words.map(parseNumber).filter((number) => number !== null);
  return { film, names, text: words.join(""), begins, numbers };
}

/**
 * Check whether a typed word matches a film: it is the beginning of a word of the film, and may
 * continue into the next one ("spiderman").
 */
function hasWord({ film, text, begins, numbers }: IndexEntry, word: string): boolean {
  const number = parseNumber(word);
  return (
    (number !== null && numbers.includes(number)) ||
    begins.some((at) => text.startsWith(word, at)) ||
    (word.length >= MIN_YEAR_DIGITS && (film.year?.startsWith(word) ?? false))
  );
}

/**
 * The beginning that the names of a series share, and the number of a film in the series. The
 * number is null if the name of the film has none.
 */
interface SeriesPlace {
  readonly series: string;
  readonly place: number | null;
}

/**
 * Find the series of a film by the beginning of its name: the words before a number or a colon, at
 * most two. Only a number right after these words is the place in the series. A later number counts
 * the parts of one film, and is ignored.
 */
function findPlace({ name }: Film): SeriesPlace {
  const words = dropSmallWords(splitWords(name));
  const beforeColon = dropSmallWords(splitWords(name.split(": ", 1)[0] ?? "")).length;
  const at = words.findIndex(
    (word, at) => at > 0 && (isBeforeNumber(words, at) || parseNumber(word)),
  );
  const length = Math.min(2, beforeColon, at > 0 ? at : 2);
  const number = parseNumber(words[at]) ?? parseNumber(words[at + 1]);
  return { series: words.slice(0, length).join(" "), place: at === length ? number : null };
}

interface Hit extends SeriesPlace {
  readonly film: Film;
  readonly fit: number;
}

/**
 * Minimum share of the typed trigrams that a title must have. One typing error spoils three of
 * them.
 */
const MIN_SHARED_TRIGRAMS = 0.5;
/** Titles whose similarity is below this share of the best one are left out. */
const MIN_SIMILARITY_SHARE = 0.7;
/** Weight of the Dice coefficient of both sets of trigrams, added to the share of typed ones. */
const TITLE_WEIGHT = 0.5;
/** Weight of how well a film is known. It is added to the similarity of its title. */
const FAMILIARITY_WEIGHT = 0.3;

/**
 * Return all groups of three consecutive characters, also across words. The letters of a group are
 * sorted, because people often swap letters when they type.
 */
function makeTrigrams(words: readonly string[]): ReadonlySet<string> {
  const text = ` ${writeFigures(dropSmallWords(words)).join(" ")} `;
  return new Set(
    Array.from({ length: text.length - 2 }, (_, at) => [...text.slice(at, at + 3)].sort().join("")),
  );
}

/** An index of titles. */
export class TitleIndex {
  readonly #entries: readonly IndexEntry[];
  /** Trigrams of every name, computed when they are first needed. */
  #trigrams: readonly (readonly ReadonlySet<string>[])[] = [];
  #ranks: ReadonlyMap<string, number> = new Map();

  constructor(films: readonly Film[]) {
    this.#entries = films.map(createEntry);
  }

  /**
   * Set the ids of the best-known films, best known first. Films that fit equally well are sorted
   * in this order.
   */
  setPopular(ids: readonly string[]): void {
    this.#ranks = new Map(ids.map((id, rank) => [id, rank]));
  }

  /** Return at most `most` films: best fits first, and films of a series next to each other. */
  search(question: string, most: number): Film[] {
    const words = splitWords(question);
    if (words.length === 0) return [];
    const hits = this.#findHits(words);
    const films = hits.length > 0 ? sortHits(hits, this.#ranks) : this.#findSimilar(words);
    return films.slice(0, most);
  }

  #findHits(typed: readonly string[]): Hit[] {
    const required = dropSmallWords(typed).filter((_, at, words) => !isBeforeNumber(words, at));
    return this.#entries
      .filter((entry) => required.every((word) => hasWord(entry, word)))
      .map((entry) => createHit(entry, typed));
  }

  /** Find similar titles: "shinning" finds The Shining. */
  #findSimilar(words: readonly string[]): Film[] {
    if (this.#trigrams.length === 0)
      this.#trigrams = this.#entries.map(({ names }) =>
        names.filter((name) => name.length > 0).map(makeTrigrams),
      );
    const typed = makeTrigrams(words);
    const similarities = this.#trigrams.map((names) =>
      Math.max(0, ...names.map((own) => computeSimilarity(typed, own))),
    );
    const best = similarities.reduce((one, other) => Math.max(one, other), 0);
    const score = (at: number) =>
      (similarities[at] as number) + FAMILIARITY_WEIGHT * this.#computeFamiliarity(at);
    return [...similarities.keys()]
      .filter((at) => (similarities[at] as number) > MIN_SIMILARITY_SHARE * best)
      .sort((a, b) => score(b) - score(a))
      .flatMap((at) => this.#entries[at]?.film ?? []);
  }

  /** Return a number from 1 for the best-known film down to 0. */
  #computeFamiliarity(at: number): number {
    const rank = this.#ranks.get(this.#entries[at]?.film.id ?? "") ?? this.#ranks.size;
    return 1 - Math.log1p(rank) / Math.log1p(this.#ranks.size || 1);
  }
}

/**
 * Return the similarity of a name to the typed text; 0 if they share too few trigrams.
 *
 * It is the share of typed trigrams that the name has, plus a smaller term that prefers names
 * without many other trigrams.
 */
function computeSimilarity(typed: ReadonlySet<string>, own: ReadonlySet<string>): number {
  let shared = 0;
  for (const trigram of typed) shared += Number(own.has(trigram));
  if (shared < MIN_SHARED_TRIGRAMS * typed.size) return 0;
  return shared / typed.size + (TITLE_WEIGHT * 2 * shared) / (typed.size + own.size);
}

function createHit(
  { film, names: [own = [], other = []] }: IndexEntry,
  typed: readonly string[],
): Hit {
  const fit = Math.min(rankFit(own, typed), rankFit(other, typed) + OTHER_NAME_PENALTY);
  return { film, fit, ...findPlace(film) };
}

/**
 * Sort hits: best fits first, then the best-known ones, then series before single films, then short
 * titles.
 *
 * A film whose whole name was typed does not count as part of a series.
 */
function sortHits(hits: readonly Hit[], ranks: ReadonlyMap<string, number>): Film[] {
  const firsts = findFirstFilms(hits);
  const findMin = (group: readonly Hit[], measure: (film: Film) => number) =>
    group.reduce((min, { film }) => Math.min(min, measure(film)), ranks.size + 1e6);
  const keyOf = ({ fit, series, film }: Hit) =>
    `${fit} ${fit === FIT_RANKS.whole ? film.id : series}`;
  return groupHits(hits, keyOf)
    .map((group) => ({
      group,
      fit: group[0]?.fit ?? 0,
      rank: findMin(group, ({ id }) => ranks.get(id) ?? ranks.size),
      isSeries: Number(group.length >= MIN_SERIES_FILMS),
      length: findMin(group, ({ name }) => name.length),
    }))
    .sort(
      (a, b) => a.fit - b.fit || a.rank - b.rank || b.isSeries - a.isSeries || a.length - b.length,
    )
    .flatMap(({ group }) => sortSeries(group, firsts))
    .map(({ film }) => film);
}

function groupHits(hits: readonly Hit[], keyOf: (hit: Hit) => string): Hit[][] {
  const groups = new Map<string, Hit[]>();
  for (const hit of hits) {
    const group = groups.get(keyOf(hit));
    if (group === undefined) groups.set(keyOf(hit), [hit]);
    else group.push(hit);
  }
  return [...groups.values()];
}

/**
 * Return a first film for each series that has no number 1: the oldest of its films without a
 * number.
 */
function findFirstFilms(hits: readonly Hit[]): ReadonlySet<Hit> {
  const firsts = groupHits(hits, ({ series }) => series).flatMap((series) => {
    if (series.some(({ place }) => place === 1)) return [];
    return series
      .filter(({ place }) => place === null)
      .sort(compareYears)
      .slice(0, 1);
  });
  return new Set(firsts);
}

/** Sort the films of a series by number, then those without a number by year. */
function sortSeries(group: readonly Hit[], firsts: ReadonlySet<Hit>): Hit[] {
  const rank = (hit: Hit) => (firsts.has(hit) ? 1 : (hit.place ?? MAX_EPISODES + 1));
  return [...group].sort((a, b) => rank(a) - rank(b) || compareYears(a, b));
}

function compareYears(a: Hit, b: Hit): number {
  return getYear(a) - getYear(b);
}

function getYear({ film }: Hit): number {
  return Number(film.year ?? "9999");
}
