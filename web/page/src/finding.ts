/**
 * Finds films by the titles that people type: "spiderman" finds Spider-Man, "godfather 2" finds The
 * Godfather: Part II.
 *
 * Case, accents, punctuation, articles and the order of words do not matter. A word may be cut
 * short, two words may be written as one, and a number may be written in digits, as a word or in
 * Roman numerals. If no title matches, words may have a typing error: a letter too many, missing,
 * wrong, or swapped with the next one. Text that is no title with errors finds nothing.
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
  /** The words of both names except small ones, and the indexes in `text` at which they begin. */
  readonly begins: readonly { word: string; at: number }[];
  readonly numbers: readonly number[];
}

function createEntry(film: Film): IndexEntry {
  const names = [splitWords(film.name), splitWords(film.otherName ?? "")];
  const words = [...(names[0] ?? []), NAME_SEPARATOR, ...(names[1] ?? [])];
  const begins: { word: string; at: number }[] = [];
  let at = 0;
  for (const word of words) {
    if (!SMALL_WORDS.has(word)) begins.push({ word, at });
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
    begins.some(({ at }) => text.startsWith(word, at)) ||
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

/** Minimum length of a typed word that may have one typing error. */
const MIN_LENGTH_WITH_ERROR = 4;
/** Shorter words may have no wrong letter: too many words would differ by just one. */
const MIN_LENGTH_WITH_WRONG_LETTER = 5;
/** Minimum length of a typed word with an error that may be cut short, or be two words of a title. */
const MIN_CUT_LENGTH_WITH_ERROR = 7;
/** Minimum length of a typed word that may have two typing errors. */
const MIN_LENGTH_WITH_TWO_ERRORS = 9;

/** Number of first words of which two may be one, so that a pasted text takes no long time. */
const MAX_JOINED_WORDS = 6;

/** Which errors a typed word may have. */
interface Tolerance {
  maxErrors: number;
  /** Whether a letter may be another one. */
  hasWrongLetters: boolean;
  /** Whether the word may be the beginning of the text. */
  isCut: boolean;
}

function getTolerance({ length }: string): Tolerance {
  return {
    maxErrors: length >= MIN_LENGTH_WITH_TWO_ERRORS ? 2 : 1,
    hasWrongLetters: length >= MIN_LENGTH_WITH_WRONG_LETTER,
    isCut: length >= MIN_CUT_LENGTH_WITH_ERROR,
  };
}

/** Count the typing errors in a word that stands for a text; infinite if there are too many. */
function countErrors(word: string, text: string, tolerance: Tolerance): number {
  const { maxErrors, hasWrongLetters, isCut } = tolerance;
  let at = 0;
  while (at < word.length && word[at] === text[at]) at += 1;
  const [rest, other] = [word.slice(at), text.slice(at)];
  if (rest === "" && (isCut || other === "")) return 0;
  if (maxErrors === 0) return Number.POSITIVE_INFINITY;
  const isSwapped = rest.length > 1 && rest[0] === other[1] && rest[1] === other[0];
  const pairs = [
    [rest, other.slice(1)], // a letter is missing
    [rest.slice(1), other], // there is a letter too many
    ...(hasWrongLetters ? [[rest.slice(1), other.slice(1)]] : []),
    ...(isSwapped ? [[rest.slice(2), other.slice(2)]] : []),
  ] as [string, string][];
  const fewer = { ...tolerance, maxErrors: maxErrors - 1 };
  return 1 + Math.min(...pairs.map(([a, b]) => countErrors(a, b, fewer)));
}

/** Check the first letter, which people may leave out or swap, but hardly ever get wrong. */
function canStandFor(typed: string, word: string): boolean {
  return typed[0] === word[0] || typed[0] === word[1];
}

/** The word of a name that a typed word stands for, and the number of errors in the typed word. */
interface Correction {
  word: string;
  errors: number;
}

/** Return the word of a film that a typed word stands for; null if there is none. */
function correctWord(entry: IndexEntry, typed: string): Correction | null {
  if (hasWord(entry, typed)) return { word: typed, errors: 0 };
  const tolerance = getTolerance(typed);
  const length = typed.length + tolerance.maxErrors;
  const begins = entry.begins.filter(({ word }) => canStandFor(typed, word));
  const corrections = begins.map(({ word, at }) => {
    const text = tolerance.isCut ? entry.text.slice(at, at + length) : word;
    return { word, errors: countErrors(typed, text, tolerance) };
  });
  // A word as small as an article may be missing in the title.
  if (typed.length < MIN_LENGTH_WITH_ERROR)
    for (const word of SMALL_WORDS)
      corrections.push({ word, errors: countErrors(typed, word, tolerance) });
  const [best] = corrections.sort((a, b) => a.errors - b.errors);
  return best !== undefined && Number.isFinite(best.errors) ? best : null;
}

/** A hit of words with typing errors. */
interface CorrectedHit {
  hit: Hit;
  errors: number;
}

/** Return the hit of a film for words with typing errors, or null. */
function createCorrectedHit(entry: IndexEntry, typed: readonly string[]): CorrectedHit | null {
  const corrections: Correction[] = [];
  for (const word of typed) {
    const correction = correctWord(entry, word);
    if (correction === null) return null;
    corrections.push(correction);
  }
  // A short word with an error is too easily another word, if no other word supports it.
  const isSure = corrections.some(
    ({ word, errors }, at) =>
      !SMALL_WORDS.has(word) &&
      (typed[at] ?? "").length >= MIN_LENGTH_WITH_ERROR - Number(errors === 0),
  );
  if (!isSure) return null;
  const words = corrections.map(({ word }) => word);
  const errors = corrections.reduce((sum, correction) => sum + correction.errors, 0);
  return { hit: createHit(entry, words), errors };
}

/** An index of titles. */
export class TitleIndex {
  readonly #entries: readonly IndexEntry[];
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
    // A word may have been typed as two: "star gate".
    const joined = words.slice(1, MAX_JOINED_WORDS).map((_, at) => joinTwo(words, at));
    const variants = [words, ...joined];
    const find = [
      ...variants.map((variant) => () => this.#findHits(variant)),
      ...variants.map((variant) => () => this.#findCorrected(variant)),
    ];
    for (const findHits of find) {
      const hits = findHits();
      if (hits.length > 0) return sortHits(hits, this.#ranks).slice(0, most);
    }
    return [];
  }

  #findHits(typed: readonly string[]): Hit[] {
    const required = dropNeedless(typed);
    return this.#entries
      .filter((entry) => required.every((word) => hasWord(entry, word)))
      .map((entry) => createHit(entry, typed));
  }

  /** Find the titles with the fewest typing errors: "shinning" finds The Shining. */
  #findCorrected(typed: readonly string[]): Hit[] {
    const required = dropNeedless(typed);
    const hits = this.#entries
      .map((entry) => createCorrectedHit(entry, required))
      .filter((hit) => hit !== null);
    const fewest = hits.reduce(
      (min, { errors }) => Math.min(min, errors),
      Number.POSITIVE_INFINITY,
    );
    return hits.filter(({ errors }) => errors === fewest).map(({ hit }) => hit);
  }
}

/** Join the word at an index with the next one. */
function joinTwo(words: readonly string[], at: number): string[] {
  return [...words.slice(0, at), words.slice(at, at + 2).join(""), ...words.slice(at + 2)];
}

/** Leave out the words that titles need not have. */
function dropNeedless(typed: readonly string[]): readonly string[] {
  return dropSmallWords(typed).filter((_, at, words) => !isBeforeNumber(words, at));
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
