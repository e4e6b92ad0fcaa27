/** Mechanisms plug in: one object each, and nothing else knows their names. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { utf8 } from "../src/bytes.js";
import { ProtocolError } from "../src/errors.js";
import { decodeManifest } from "../src/manifest.js";
import type { Mechanism } from "../src/mechanism/base.js";
import { explain, makeReports } from "../src/mechanism/index.js";
import { MECHANISMS, mechanismNamed } from "../src/mechanism/registry.js";
import { brokenBy } from "../src/terms.js";
import { manifestWith, mechanisms, protocol } from "./vectors.js";

const WEB = new URL("../../../", import.meta.url);
const SOURCES = ["client/src/", "page/src/"];

/** Its code, without comments. */
function codeOf(path: string): string {
  const text = readFileSync(new URL(path, WEB), "utf8");
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

function namedIn(path: string): string[] {
  const code = codeOf(path);
  return MECHANISMS.map(({ name }) => name).filter((name) =>
    new RegExp(`\\b${name}\\b`).test(code),
  );
}

test("a mechanism's name stands in its own file and in the registry, and nowhere else", () => {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(new URL(folder, WEB), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => folder + name),
  );
  const naming = files.map((file) => [file, namedIn(file)] as const);
  const own = MECHANISMS.map(({ name }) => [`client/src/mechanism/${name}.ts`, [name]] as const);
  const registry = [
    "client/src/mechanism/registry.ts",
    MECHANISMS.map(({ name }) => name),
  ] as const;
  assert.deepEqual(
    naming.filter(([, names]) => names.length > 0).sort(),
    [...own, registry].sort(),
  );
});

test("the shared vectors know the same mechanisms", () => {
  const registered = new Set(MECHANISMS.map(({ name }) => name));
  assert.equal(registered.size, MECHANISMS.length);
  assert.deepEqual(registered, new Set(mechanisms.map(({ mechanism }) => mechanism)));
});

/** The vectors' manifest, its terms changed, and read again. */
function read(changes: object): ReturnType<typeof decodeManifest> {
  const { fields } = protocol.manifest;
  const terms = { ...fields.terms, loud_fraction: 0.5, ...changes };
  return decodeManifest(utf8(JSON.stringify({ ...fields, terms })));
}

test("each mechanism refuses what it does not have, and what it cannot work with", () => {
  const seed = { directions_seed: 7 };
  const refusals = [
    ["coordinate", seed, "terms: parameters: missing [], unknown [directions_seed]"],
    ["hadamard", {}, "terms: parameters: missing [directions_seed], unknown []"],
    ["hadamard", { ...seed, loud: 3 }, "terms: parameters: missing [], unknown [loud]"],
    ["hadamard", { directions_seed: -1 }, /terms: directions_seed: a whole number/],
    ["loudest", seed, "terms: parameters: missing [loud], unknown []"],
    ["loudest", { ...seed, loud: 0 }, "terms: loud: a whole number in 1..8, not 0"],
    ["loudest", { ...seed, loud: 9 }, "terms: loud: a whole number in 1..8, not 9"],
    ["loudest", { ...seed, loud: "3" }, /terms: loud: a whole number/],
    ["loudest", [], "terms: parameters must be an object"],
    ["louder", seed, 'terms: no mechanism "louder"'],
    [["loudest"], seed, "terms: no mechanism a list of 1"],
  ] as const;
  for (const [mechanism, parameters, message] of refusals) {
    const given = () => read({ mechanism, parameters });
    assert.throws(given, ProtocolError);
    assert.throws(given, typeof message === "string" ? { message } : message);
  }
  assert.deepEqual(read({ mechanism: "coordinate", parameters: {} }).terms.parameters, {});
  const loud = { ...seed, loud: 8 };
  assert.deepEqual(read({ mechanism: "loudest", parameters: loud }).terms.parameters, loud);
});

test("no more may be loud than the terms say", () => {
  const parameters = { directions_seed: 7, loud: 3 };
  const fraction = (loud_fraction: number) => () => read({ parameters, loud_fraction });
  assert.equal(fraction(3 / 16)().terms.loudFraction, 3 / 16);
  assert.throws(fraction(3 / 16 - 2 ** -55), /more directions are loud than the terms allow/);
  for (const mechanism of ["coordinate", "hadamard"]) {
    const own = mechanism === "coordinate" ? {} : { directions_seed: 1 };
    assert.throws(() => read({ mechanism, parameters: own, loud_fraction: 0.49 }), /are loud/);
  }
});

test("directions of each mechanism", () => {
  const count = (mechanism: string, items: number, factors: number) =>
    mechanismNamed(mechanism).directions(manifestWith({ items, terms: { mechanism, factors } }));
  assert.deepEqual(
    [count("coordinate", 5, 3), count("hadamard", 5, 3), count("loudest", 5, 3)],
    [15, 32, 32],
  );
  assert.equal(count("loudest", 1, 1), 1);
  const { mechanism } = manifestWith({}).terms;
  assert.equal(
    mechanismNamed(mechanism).directions(manifestWith({})),
    protocol.manifest.directions,
  );
});

const closeTo = (value: number, wanted: number) => assert.ok(Math.abs(value - wanted) < 1e-9);

test("a sign is kept e^epsilon times as often as it is turned", () => {
  for (const name of ["coordinate", "hadamard"]) {
    const { truth, chance, random } = mechanismNamed(name).odds(
      manifestWith({ terms: { epsilon: 2.5 } }).terms,
    );
    closeTo(truth / (1 - truth), Math.exp(2.5));
    assert.deepEqual([chance, random], [0.5, 0]);
  }
});

test("a loud direction is e^epsilon times as likely as a quiet one", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5, loudFraction: 5394 / 32768 } });
  const { truth, chance } = mechanismNamed("loudest").odds(terms);
  closeTo(truth / chance / ((1 - truth) / (1 - chance)), Math.exp(2.5));
  assert.equal(chance, 5394 / 32768);
});

test("a further mechanism is an object in the list", async (t) => {
  const always: Mechanism = {
    name: "always",
    about: "a report names the first direction.",
    parameters: { patience: { least: 1, most: (items) => items, isFree: false } },
    directions: () => 1,
    loudFraction: () => 0.25,
    reports: (_, draws) => draws.map(() => ({ index: 0, bit: 1, row: 0, column: 0, coin: "kept" })),
    odds: () => ({ truth: 1, chance: 1, random: 0 }),
  };
  const list = MECHANISMS as Mechanism[];
  list.push(always);
  t.after(() => list.pop());
  const asking = (patience: number) => read({ mechanism: "always", parameters: { patience } });
  assert.throws(() => asking(6), /patience: a whole number in 1..5/);
  const manifest = asking(5);
  const columns = manifest.terms.factors;
  const V = { values: new Float32Array(10), rows: manifest.items, columns };
  const words = new BigUint64Array(4 * (manifest.terms.reports + 1));
  const { reports } = await makeReports(manifest, V, [], words);
  assert.deepEqual([...reports], [1, 1, 1, 1]);
  assert.deepEqual(explain(manifest.terms), {
    about: always.about,
    odds: always.odds(manifest.terms),
  });
  // What is not free is pinned.
  const broken = brokenBy(manifest.terms, asking(4).terms);
  assert.deepEqual(broken, [
    `the mechanism's parameters would be {"patience":4}, not {"patience":5}`,
  ]);
});
