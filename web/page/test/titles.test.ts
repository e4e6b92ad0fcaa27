/**
 * Titles, and how they are found.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gunzipSync } from "node:zlib";
import { normalize, TitleIndex } from "../src/finding.js";
import { formatTitle, splitTitle, toFilm } from "../src/titles.js";

const film = (title: string) => toFilm({ id: "a", title, tags: {} });

test("titles are shown as people say them", () => {
  assert.deepEqual(splitTitle("Matrix, The (1999)"), {
    name: "The Matrix",
    otherName: null,
    year: "1999",
  });
  assert.equal(
    film("City of Lost Children, The (Cité des enfants perdus, La) (1995)").name,
    "The City of Lost Children",
  );
  assert.equal(
    film("City of Lost Children, The (Cité des enfants perdus, La) (1995)").otherName,
    "La Cité des enfants perdus",
  );
  assert.equal(film("Seven (a.k.a. Se7en) (1995)").otherName, "Se7en");
  assert.equal(formatTitle(film("Avventura, L' (1960)")), "L'Avventura (1960)");
});

test("brackets that belong to a title stay", () => {
  assert.equal(film("(500) Days of Summer (2009)").name, "(500) Days of Summer");
  assert.equal(
    film("Birdman: Or (The Unexpected Virtue of Ignorance) (2014)").name,
    "Birdman: Or (The Unexpected Virtue of Ignorance)",
  );
});

const BUNDLED = "../../src/sottovoce/data/bundled/ml-latest-small/movies.csv";
const RATINGS = "../../src/sottovoce/data/bundled/ml-latest-small/ratings.csv.gz";
const LINE = /^(\d+),(?:"((?:[^"]|"")*)"|([^,]*)),/gmu;

const films = [...readFileSync(BUNDLED, "utf8").matchAll(LINE)].map(([, id = "", quoted, plain]) =>
  toFilm({ id, title: quoted?.replaceAll('""', '"') ?? plain ?? "", tags: {} }),
);
const index = new TitleIndex(films);
const searchTitles = (question: string, most = 10) => index.search(question, most).map(formatTitle);
const first = (question: string) => searchTitles(question)[0];

test("a catalogue may have as many films of one name as it likes", () => {
  const many = Array.from({ length: 200_000 }, (_, at) =>
    toFilm({ id: String(at), title: "aa bb", tags: {} }),
  );
  assert.equal(new TitleIndex(many).search("aa", 8).length, 8);
});

test("case, accents, apostrophes, hyphens and signs do not matter", () => {
  assert.equal(normalize("  Amélie’s ÉTÉ &  Ço! "), "amelies ete and co");
  assert.equal(normalize("Straße, Ørsted + Cœur³"), "strasse orsted and coeur 3");
  assert.equal(first("AMÉLIE"), "Amelie (2001)");
  assert.equal(first("schindlers list"), "Schindler's List (1993)");
  assert.ok(searchTitles("fast and furious", 2).includes("Fast & Furious (2009)"));
  assert.equal(first("les miserables"), "Les Misérables (1995)");
  assert.equal(first("xmen"), "X-Men (2000)");
  assert.equal(first("walle"), "WALL·E (2008)");
  assert.equal(first("et"), "E.T. the Extra-Terrestrial (1982)");
  assert.equal(first("alien 3"), "Alien³ (1992)");
});

test("words may be joined or apart, in any order, and cut short", () => {
  const spiderMan = ["Spider-Man (2002)", "Spider-Man 2 (2004)", "Spider-Man 3 (2007)"];
  for (const question of ["spiderman", "spider-man", "spider man", "SPIDERM"]) {
    assert.deepEqual(searchTitles(question, 3), spiderMan, question);
  }
  assert.equal(first("star gate"), "Stargate (1994)");
  assert.equal(first("fiction pulp"), "Pulp Fiction (1994)");
  assert.equal(first("shawsh redem"), "The Shawshank Redemption (1994)");
  assert.ok(
    searchTitles("matrix toy").every(
      (title) => title.includes("matrix") || title.includes("Matrix"),
    ),
  );
  assert.deepEqual(searchTitles("  ... "), []);
});

test("articles may be missing or too many, years and other names are found", () => {
  assert.equal(first("godfather"), "The Godfather (1972)");
  assert.equal(first("the godfather"), "The Godfather (1972)");
  assert.equal(first("the toy story"), "Toy Story (1995)");
  assert.deepEqual(searchTitles("matrix 1999"), ["The Matrix (1999)"]);
  assert.ok(searchTitles("enfants perdus")[0]?.startsWith("The City of Lost Children"));
  assert.equal(first("se7en"), "Seven (1995)");
  assert.equal(index.search("1995", 2).length, 2);
});

test("a number may be a figure, a word or Roman, and 'part' may be left out", () => {
  for (const question of ["godfather 2", "the godfather part ii", "godfather two", "2 godfather"]) {
    assert.equal(first(question), "The Godfather: Part II (1974)", question);
  }
  assert.deepEqual(searchTitles("rocky 4"), ["Rocky IV (1985)"]);
  assert.equal(first("star wars 5"), "Star Wars: Episode V - The Empire Strikes Back (1980)");
  assert.equal(first("kill bill 2"), "Kill Bill: Vol. 2 (2004)");
  assert.equal(first("oceans 12"), "Ocean's Twelve (2004)");
  assert.equal(first("twelve angry men"), "12 Angry Men (1957)");
  assert.equal(first("v for vendetta"), "V for Vendetta (2006)");
});

test("episodes of a series come in their order", () => {
  assert.deepEqual(
    searchTitles("star wars", 7).map((title) => /Episode (\w+)/u.exec(title)?.[1]),
    ["I", "II", "III", "IV", "V", "VI", "VII"],
  );
  assert.deepEqual(
    searchTitles("rocky", 5).map((title) => title.slice(0, -7)),
    ["Rocky", "Rocky II", "Rocky III", "Rocky IV", "Rocky V"],
  );
  const potter = searchTitles("potter", 8).map((title) => Number(title.slice(-5, -1)));
  assert.deepEqual(potter, [2001, 2002, 2004, 2005, 2007, 2009, 2010, 2011]);
  assert.deepEqual(searchTitles("godf", 3), [
    ...["The Godfather (1972)", "The Godfather: Part II (1974)", "The Godfather: Part III (1990)"],
  ]);
});

test("what is called just so comes first, then what begins so, then the rest", () => {
  assert.deepEqual(searchTitles("star trek", 2), [
    ...["Star Trek (2009)", "Star Trek: The Motion Picture (1979)"],
  ]);
  const alien = searchTitles("alien");
  assert.deepEqual(alien.slice(0, 2), ["Alien (1979)", "Alien³ (1992)"]);
  assert.ok(alien.indexOf("Alien Nation (1988)") < alien.indexOf("Aliens (1986)"));
  assert.equal(alien.at(-1), "Evil Aliens (2005)");
});

const wholeIndex = new TitleIndex(films);
const ID = /^\d+,(\d+),/gmu;
const counts = new Map<string, number>();
for (const [, id = ""] of gunzipSync(readFileSync(RATINGS)).toString().matchAll(ID))
  counts.set(id, (counts.get(id) ?? 0) + 1);
const ranked = [...counts].sort(([, a], [, b]) => b - a).map(([id]) => id);
wholeIndex.setPopular(ranked.slice(0, 1000));

test("a slip of a finger is forgiven, nonsense is not", () => {
  for (const [typed, meant] of [
    ...[
      ["shinning", "The Shining (1980)"],
      ["Exorsist", "The Exorcist (1973)"],
    ],
    ...[
      ["matrx", "The Matrix (1999)"],
      ["pulp fictoin", "Pulp Fiction (1994)"],
    ],
    ...[
      ["teh matrix", "The Matrix (1999)"],
      ["pyscho", "Psycho (1960)"],
    ],
    ...[
      ["teh matrx", "The Matrix (1999)"],
      ["matrix teh", "The Matrix (1999)"],
      ["fictoin pulp", "Pulp Fiction (1994)"],
      ["ratatoullie", "Ratatouille (2007)"],
      ["alein", "Alien (1979)"],
      ["godfater 2", "The Godfather: Part II (1974)"],
      ["spidermann", "Spider-Man (2002)"],
    ],
  ] as [string, string][]) {
    assert.equal(wholeIndex.search(typed, 1).map(formatTitle)[0], meant);
  }
  for (const nonsense of ["qqqqxyz", "zzzz", "asdf", "asdfgh", "qwer", "xyz"])
    assert.deepEqual(wholeIndex.search(nonsense, 10), [], nonsense);
  const others = new TitleIndex(films.filter(({ name }) => !/^Paras[iy]te/u.test(name)));
  assert.deepEqual(others.search("Parasite", 10), []);
});

test("of 100 well-known films with a letter too few, 95 are found first", () => {
  const best = ranked.slice(0, 150).map((id) => films.find((film) => film.id === id));
  const asked = best.filter((film) => film !== undefined && film.name.length > 7);
  const missed = asked.filter((film, at) => {
    const cut = 1 + (at % ((film?.name.length ?? 0) - 2));
    const typed = `${film?.name.slice(0, cut)}${film?.name.slice(cut + 1)}`;
    return wholeIndex.search(typed, 1)[0]?.id !== film?.id;
  });
  assert.ok(missed.length < asked.length / 20, missed.map((film) => film?.name).join(", "));
});

test("of films that fit alike those come first that are known best", () => {
  assert.deepEqual(wholeIndex.search("1994", 4).map(formatTitle), [
    ...["Forrest Gump (1994)", "The Shawshank Redemption (1994)", "Pulp Fiction (1994)"],
    "True Lies (1994)",
  ]);
  assert.deepEqual(wholeIndex.search("titanic", 1).map(formatTitle), ["Titanic (1997)"]);
});
