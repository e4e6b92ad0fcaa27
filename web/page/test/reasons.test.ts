import assert from "node:assert/strict";
import test from "node:test";
import type { Because } from "../src/messages.js";
import { becauseWords } from "../src/reasons.js";
import { toFilm } from "../src/titles.js";

function seen(title: string): Because {
  return { kind: "film", film: toFilm({ id: title, title, tags: {} }) };
}

function likes(tag: string, name: string): Because {
  return { kind: "tag", tag, name };
}

const said = (...because: Because[]) =>
  becauseWords(because)
    .map(({ text }) => text)
    .join("");

const [ALIEN, THING, HORROR] = [
  seen("Alien (1979)"),
  seen("Thing, The (1982)"),
  likes("genre", "Horror"),
];

test("own films are named as people say them", () => {
  assert.equal(said(ALIEN), "because you saw Alien");
  assert.equal(said(ALIEN, THING), "because you saw Alien and The Thing");
  assert.equal(said(ALIEN, THING, seen("Jaws")), "because you saw Alien, The Thing and Jaws");
});

test("a genre stands for itself, years and other kinds say what they are", () => {
  const years = likes("year", "1979 to 1984");
  assert.equal(said(HORROR), "because you like Horror");
  assert.equal(said(HORROR, years), "because you like Horror and films from 1979 to 1984");
  assert.equal(said(years, HORROR), "because you like Horror and films from 1979 to 1984");
  assert.equal(said(likes("year", "1994")), "because you like films from 1994");
  assert.equal(said(likes("brand", "Acme")), "because you like brand: Acme");
  assert.equal(said(likes("price_eur", "9.5 to 12")), "because you like price eur: 9.5 to 12");
});

test("films and tags come together, what speaks most first, and no reason is no sentence", () => {
  assert.equal(said(HORROR, ALIEN), "because you like Horror, and saw Alien");
  assert.equal(said(ALIEN, HORROR, THING), "because you saw Alien and The Thing, and like Horror");
  assert.deepEqual(becauseWords([]), []);
  assert.deepEqual(
    becauseWords([HORROR, ALIEN]).map(({ kind }) => kind),
    ["plain", "plain", "tag", "plain", "plain", "film"],
  );
});

test("genres are the labels of that kind alone", () => {
  const film = (tags: Parameters<typeof toFilm>[0]["tags"]) =>
    toFilm({ id: "1", title: "A (1999)", tags });
  assert.deepEqual(film({ year: 1999, genre: ["Horror"], brand: ["Acme"] }).genres, ["Horror"]);
  assert.deepEqual(film({ year: 1999 }).genres, []);
  assert.deepEqual(film({ genre: 7 }).genres, []);
});
