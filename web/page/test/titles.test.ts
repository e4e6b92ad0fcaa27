import assert from "node:assert/strict";
import test from "node:test";
import { label, normalised, splitTitle, TitleIndex, toFilm } from "../src/titles.js";

const TITLES = [
  "Toy Story (1995)",
  "Matrix Reloaded, The (2003)",
  "Matrix, The (1999)",
  "Amelie (Fabuleux destin d'Amélie Poulain, Le) (2001)",
  "City of Lost Children, The (Cité des enfants perdus, La) (1995)",
  "Schindler's List (1993)",
  "Fast & Furious (2009)",
  "Seven (a.k.a. Se7en) (1995)",
  "(500) Days of Summer (2009)",
  "Birdman: Or (The Unexpected Virtue of Ignorance) (2014)",
  "Babylon 5",
];

const films = TITLES.map((title, at) => toFilm({ id: `film-${at}`, title, tags: {} }));
const index = new TitleIndex(films);
const found = (question: string) => index.search(question, 5).map(label);

test("titles are shown as people say them", () => {
  assert.deepEqual(splitTitle("Matrix, The (1999)"), {
    name: "The Matrix",
    otherName: null,
    year: "1999",
  });
  assert.equal(films[4]?.name, "The City of Lost Children");
  assert.equal(films[4]?.otherName, "La Cité des enfants perdus");
  assert.equal(films[7]?.otherName, "Se7en");
  assert.equal(
    label(toFilm({ id: "a", title: "Avventura, L' (1960)", tags: {} })),
    "L'Avventura (1960)",
  );
});

test("brackets that belong to a title stay", () => {
  assert.equal(films[8]?.name, "(500) Days of Summer");
  assert.equal(films[9]?.name, "Birdman: Or (The Unexpected Virtue of Ignorance)");
});

test("a title without a year is left as it is", () => {
  assert.deepEqual(splitTitle("Babylon 5"), { name: "Babylon 5", otherName: null, year: null });
  assert.deepEqual(splitTitle("(1999)"), { name: "(1999)", otherName: null, year: "1999" });
});

test("case, accents, apostrophes and signs do not matter", () => {
  assert.equal(normalised("  Amélie’s ÉTÉ &  Ço! "), "amelies ete and co");
  assert.deepEqual(found("AMÉLIE"), ["Amelie (2001)"]);
  assert.deepEqual(found("schindlers"), ["Schindler's List (1993)"]);
  assert.deepEqual(found("fast and furious"), ["Fast & Furious (2009)"]);
});

test("articles, years and other names are found", () => {
  assert.deepEqual(found("the matrix"), ["The Matrix (1999)", "The Matrix Reloaded (2003)"]);
  assert.deepEqual(found("matrix 2003"), ["The Matrix Reloaded (2003)"]);
  assert.deepEqual(found("enfants perdus"), ["The City of Lost Children (1995)"]);
  assert.deepEqual(found("se7en"), ["Seven (1995)"]);
});

test("what begins alike comes first, what does not fit does not come", () => {
  assert.deepEqual(found("s").slice(0, 2), ["Seven (1995)", "Schindler's List (1993)"]);
  assert.deepEqual(found("matrix story"), []);
  assert.deepEqual(found("  ... "), []);
  assert.equal(index.search("1995", 2).length, 2);
});
