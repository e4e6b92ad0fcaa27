import assert from "node:assert/strict";
import test from "node:test";
import { label, splitTitle, toFilm } from "../src/titles.js";

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
  assert.equal(label(film("Avventura, L' (1960)")), "L'Avventura (1960)");
});

test("brackets that belong to a title stay", () => {
  assert.equal(film("(500) Days of Summer (2009)").name, "(500) Days of Summer");
  assert.equal(
    film("Birdman: Or (The Unexpected Virtue of Ignorance) (2014)").name,
    "Birdman: Or (The Unexpected Virtue of Ignorance)",
  );
});

test("a title without a year is left as it is", () => {
  assert.deepEqual(splitTitle("Babylon 5"), { name: "Babylon 5", otherName: null, year: null });
  assert.deepEqual(splitTitle("(1999)"), { name: "(1999)", otherName: null, year: "1999" });
});
