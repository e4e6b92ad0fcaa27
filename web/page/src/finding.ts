/**
 * Finds films by what people type: "spiderman" is Spider-Man, "godfather 2" is The Godfather: Part
 * II.
 *
 * Case, accents, punctuation, articles and the order of words do not matter. A word may be cut
 * short, two words may be written as one, and a number as a figure, a word or in Roman letters. If
 * nothing matches, the search takes titles with most of the same trigrams, and prefers well-known
 * ones.
 */

import type { Film } from "./state.js";

const COMBINING_MARKS = /\p{M}+/gu;
const APOSTROPHES = /['’`]/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
/** Alien³ is Alien 3. */
const RAISED_DIGITS = /[¹²³]/gu;
/** Letters that are not a plain letter with a mark. */
const PLAIN_LETTERS: Readonly<Record<string, string>> = {
  ...{ ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" },
};
const ODD_LETTERS = new RegExp(`[${Object.keys(PLAIN_LETTERS).join("")}]`, "gu");
/** Words that may be missing on either side. */
const SMALL_WORDS: ReadonlySet<string> = new Set(["the", "a", "an", "and"]);
/** Words that add nothing before a number. */
const PART_WORDS: ReadonlySet<string> = new Set(["part", "episode", "vol", "volume", "chapter"]);
const ROMAN_NUMBERS = numberWords("i ii iii iv v vi vii viii ix x xi xii xiii");
const SPELLED_NUMBERS = numberWords(
  "one two three four five six seven eight nine ten eleven twelve thirteen",
);
/** No series is longer; a larger number is part of a name, or a year. */
const MAX_EPISODES = 30;
const MIN_YEAR_DIGITS = 3;
/** Two films with the same beginning may have nothing else in common. */
const MIN_SERIES_FILMS = 3;
/** Separates two names; nobody types it. */
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

/** Return the number that a word stands for, if films are counted by it. */
function parseNumber(word: string | undefined): number | null {
  if (word === undefined) return null;
  const number = /^\d+$/u.test(word)
    ? Number(word)
    : (SPELLED_NUMBERS.get(word) ?? ROMAN_NUMBERS.get(word));
  return number === undefined || number > MAX_EPISODES ? null : number;
}

/** Check for a word such as "part" in "rocky part 2". */
function isBeforeNumber(words: readonly string[], at: number): boolean {
  return at > 0 && PART_WORDS.has(words[at] ?? "") && parseNumber(words[at + 1]) !== null;
}

/**
 * Write every number as a figure: "godfather part ii" is "godfather 2", but V for Vendetta keeps
 * its V.
 */
function writeFigures(words: readonly string[]): string[] {
  return words
    .map((word, at) =>
      at === 0 && ROMAN_NUMBERS.has(word) ? word : String(parseNumber(word) ?? word),
    )
    .filter((_, at) => !isBeforeNumber(words, at));
}

/** How a name fits: the whole name, its first words, first letters, or words inside of it. */
const FIT_RANKS = { whole: 0, words: 1, letters: 2, inside: 3 } as const;
/** The other name of a film fits a little worse. */
const OTHER_NAME_PENALTY = 0.5;

/** Rank a name as it is written and as it is counted, and take the better. */
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
  /** The words of its own name, and of its other one. */
  readonly names: readonly (readonly string[])[];
  /** Both names in one piece, and where a word begins that is not a small one. */
  readonly text: string;
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
 * Check whether a word begins a word of the film, and perhaps ends in the next one: "spiderman".
 */
function hasWord({ film, text, begins, numbers }: IndexEntry, word: string): boolean {
  const number = parseNumber(word);
  return (
    (number !== null && numbers.includes(number)) ||
    begins.some((at) => text.startsWith(word, at)) ||
    (word.length >= MIN_YEAR_DIGITS && (film.year?.startsWith(word) ?? false))
  );
}

/** What films of one series begin with, and the place of the film in it, if its title says so. */
interface SeriesPlace {
  readonly series: string;
  readonly place: number | null;
}

/**
 * Find the series: two words, or fewer before a number or a colon.
 *
 * A number that comes later counts parts of one film.
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

/** Share of the typed trigrams that a title must have: one slip spoils three of them. */
const MIN_SHARED_TRIGRAMS = 0.5;
/** Titles that are less similar than this share of the best are left out. */
const MIN_SIMILARITY_SHARE = 0.7;
/** What the length of a title and its being known weigh, against the trigrams that were typed. */
const [LENGTH, KNOWN] = [0.5, 0.3];

/**
 * Return three letters each, over the ends of words, in alphabetical order: fingers swap letters.
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
  /** Trigrams of every name, once they are needed. */
  #trigrams: readonly (readonly ReadonlySet<string>[])[] = [];
  #ranks: ReadonlyMap<string, number> = new Map();

  constructor(films: readonly Film[]) {
    this.#entries = films.map(createEntry);
  }

  /** Set the ids that are known best, best first: films that fit the same are sorted by it. */
  setPopular(ids: readonly string[]): void {
    this.#ranks = new Map(ids.map((id, rank) => [id, rank]));
  }

  /** Return the best `most` films: best fits first, and films of a series next to each other. */
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

  /** Find similar titles: "shinning" is The Shining. */
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
      (similarities[at] as number) + KNOWN * this.#computeFamiliarity(at);
    return [...similarities.keys()]
      .filter((at) => (similarities[at] as number) > MIN_SIMILARITY_SHARE * best)
      .sort((a, b) => score(b) - score(a))
      .flatMap((at) => this.#entries[at]?.film ?? []);
  }

  /** Return 1 for the best-known film, down to 0. */
  #computeFamiliarity(at: number): number {
    const rank = this.#ranks.get(this.#entries[at]?.film.id ?? "") ?? this.#ranks.size;
    return 1 - Math.log1p(rank) / Math.log1p(this.#ranks.size || 1);
  }
}

/**
 * Return the share of typed trigrams that a name has, and a little of the reverse; 0 for too few.
 */
function computeSimilarity(typed: ReadonlySet<string>, own: ReadonlySet<string>): number {
  let shared = 0;
  for (const trigram of typed) shared += Number(own.has(trigram));
  if (shared < MIN_SHARED_TRIGRAMS * typed.size) return 0;
  return shared / typed.size + (LENGTH * 2 * shared) / (typed.size + own.size);
}

function createHit(
  { film, names: [own = [], other = []] }: IndexEntry,
  typed: readonly string[],
): Hit {
  const fit = Math.min(rankFit(own, typed), rankFit(other, typed) + OTHER_NAME_PENALTY);
  return { film, fit, ...findPlace(film) };
}

/**
 * Sort hits: best fits first, then best-known ones, then series before single films, then short
 * titles.
 *
 * A film with exactly the typed name is not part of a series.
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

/** Return, for each series without a number 1, its oldest film without a number. */
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

/** Sort a series by number, then films without a number by year. */
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
