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

test("each has a name of its own, under which the shared vectors know it", () => {
  const registered = new Set(MECHANISMS.map(({ name }) => name));
  assert.equal(registered.size, MECHANISMS.length);
  const known = new Set<string>(mechanisms.map(({ mechanism }) => mechanism));
  assert.ok([...registered].every((name) => known.has(name)));
});

/** The vectors' manifest, its terms changed, and read again. */
function read(changes: object): ReturnType<typeof decodeManifest> {
  const { fields } = protocol.manifest;
  const terms = { ...fields.terms, loud_fraction: 0.5, ...changes };
  return decodeManifest(utf8(JSON.stringify({ ...fields, terms })));
}

test("each mechanism refuses what it does not have, and what it cannot work with", () => {
  const seed = { directions_seed: 7 };
  const own = { ...seed, block: 4, loud: 6 };
  const refusals = [
    ["coordinate", seed, "terms: parameters: missing [], unknown [directions_seed]"],
    ["loudest", { ...own, directions_seed: -1 }, /terms: directions_seed: a whole number/],
    ["loudest", { ...seed, block: 4 }, "terms: parameters: missing [loud], unknown []"],
    ["loudest", { ...seed, loud: 6 }, "terms: parameters: missing [block], unknown []"],
    ["loudest", { ...own, more: 1 }, "terms: parameters: missing [], unknown [more]"],
    ["loudest", { ...own, block: 0 }, "terms: block: a whole number in 1..1024, not 0"],
    ["loudest", { ...own, block: 3 }, "terms: block: a power of two, not 3"],
    ["loudest", { ...own, block: 1023 }, "terms: block: a power of two, not 1023"],
    ["loudest", { ...own, block: 2048 }, "terms: block: a whole number in 1..1024, not 2048"],
    ["loudest", { ...own, block: "4" }, /terms: block: a whole number/],
    ["loudest", { ...own, loud: 0 }, "terms: loud: a whole number in 1..16, not 0"],
    ["loudest", { ...own, loud: 17 }, "terms: loud: a whole number in 1..16, not 17"],
    ["loudest", { ...own, block: 1, loud: 11 }, "terms: loud: a whole number in 1..10, not 11"],
    ["loudest", { ...own, loud: "3" }, /terms: loud: a whole number/],
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
  for (let block = 1; block <= 1024; block *= 2) {
    const loud = { ...seed, block, loud: Math.ceil(5 / block) * block * 2 };
    assert.deepEqual(read({ mechanism: "loudest", parameters: loud }).terms.parameters, loud);
    const more = { ...loud, loud: loud.loud + 1 };
    assert.throws(() => read({ mechanism: "loudest", parameters: more }), ProtocolError);
  }
});

test("no more may be loud than the terms say", () => {
  const parameters = { directions_seed: 7, block: 4, loud: 6 };
  const fraction = (loud_fraction: number) => () => read({ parameters, loud_fraction });
  assert.equal(fraction(3 / 16)().terms.loudFraction, 3 / 16);
  assert.throws(fraction(3 / 16 - 2 ** -55), /more directions are loud than the terms allow/);
  const other = { mechanism: "coordinate", parameters: {}, loud_fraction: 0.49 };
  assert.throws(() => read(other), /are loud/);
});

test("directions of each mechanism", () => {
  const count = (mechanism: string, items: number, factors: number, block = 1) => {
    const terms = { mechanism, factors, parameters: { block } };
    return mechanismNamed(mechanism).directions(manifestWith({ items, terms }));
  };
  assert.equal(count("coordinate", 5, 3), 15);
  assert.deepEqual(
    [1, 2, 4, 8, 1024].map((block) => count("loudest", 5, 3, block)),
    [15, 18, 24, 24, 3072],
  );
  assert.equal(count("loudest", 1, 1), 1);
  assert.equal(count("loudest", 2 ** 24, 4, 1024), 2 ** 26);
  const { mechanism } = manifestWith({}).terms;
  assert.equal(
    mechanismNamed(mechanism).directions(manifestWith({})),
    protocol.manifest.directions,
  );
});

const closeTo = (value: number, wanted: number) => assert.ok(Math.abs(value - wanted) < 1e-9);

test("a sign is kept e^epsilon times as often as it is turned", () => {
  const { terms } = manifestWith({ terms: { epsilon: 2.5 } });
  const { truth, chance, random } = mechanismNamed("coordinate").odds(terms);
  closeTo(truth / (1 - truth), Math.exp(2.5));
  assert.deepEqual([chance, random], [0.5, 0]);
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
    parameters: { patience: { least: 1, most: ({ items }) => items, isFree: false } },
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
  assert.deepEqual(broken, ["the mechanism's parameters would be patience 4, not patience 5"]);
});
