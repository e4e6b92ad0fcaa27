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
  assert.deepEqual(registered, new Set(mechanisms.map(({ settings }) => settings.mechanism)));
});

/** The vectors' manifest, changed and read again. */
function read(changes: object): ReturnType<typeof decodeManifest> {
  return decodeManifest(utf8(JSON.stringify({ ...protocol.manifest.fields, ...changes })));
}

test("each mechanism refuses what it does not have, and what it cannot work with", () => {
  const [items, none] = [5, { directions_seed: 0, loud: 0 }];
  const refusals = [
    ["coordinate", { loud: 0 }, "manifest: coordinate has no seed of directions"],
    ["coordinate", { directions_seed: 0, loud: 1 }, "manifest: coordinate with 1 loud rows"],
    ["hadamard", { loud: 3 }, "manifest: hadamard with 3 loud rows"],
    ["loudest", { loud: 0 }, "manifest: loudest with 0 loud rows"],
    ["loudest", { loud: 9 }, "manifest: loudest with 9 loud rows"],
    ["louder", none, 'manifest: no mechanism "louder"'],
    [["loudest"], none, "manifest: no mechanism a list of 1"],
  ] as const;
  for (const [mechanism, changes, message] of refusals) {
    assert.throws(
      () => read({ items, mechanism, ...changes }),
      (error) => error instanceof ProtocolError && error.message === message,
      message,
    );
  }
  assert.equal(read({ items, mechanism: "coordinate", ...none }).mechanism, "coordinate");
  assert.equal(read({ items, mechanism: "hadamard", ...none }).mechanism, "hadamard");
  assert.equal(read({ items, mechanism: "loudest", loud: 8 }).loud, 8);
});

test("directions of each mechanism", () => {
  const count = (name: string, items: number, factors: number) =>
    mechanismNamed(name).directions(manifestWith({ mechanism: name, items, factors }));
  assert.deepEqual(
    [count("coordinate", 5, 3), count("hadamard", 5, 3), count("loudest", 5, 3)],
    [15, 32, 32],
  );
  assert.equal(count("loudest", 1, 1), 1);
  const { mechanism } = manifestWith({});
  assert.equal(
    mechanismNamed(mechanism).directions(manifestWith({})),
    protocol.manifest.directions,
  );
});

const closeTo = (value: number, wanted: number) => assert.ok(Math.abs(value - wanted) < 1e-9);

test("a sign is kept e^epsilon times as often as it is turned", () => {
  for (const name of ["coordinate", "hadamard"]) {
    const { truth, chance, random } = mechanismNamed(name).odds(manifestWith({ epsilon: 2.5 }));
    closeTo(truth / (1 - truth), Math.exp(2.5));
    assert.deepEqual([chance, random], [0.5, 0]);
  }
});

test("a loud direction is e^epsilon times as likely as a quiet one", () => {
  const manifest = manifestWith({ epsilon: 2.5, loud: 5394, items: 9724 });
  const { truth, chance } = mechanismNamed("loudest").odds(manifest);
  closeTo(truth / chance / ((1 - truth) / (1 - chance)), Math.exp(2.5));
  assert.equal(chance, 5394 / 32768);
});

test("a further mechanism is an object in the list", async (t) => {
  const always: Mechanism = {
    name: "always",
    about: "a report names the first direction.",
    parameters: ["loud"],
    directions: () => 1,
    reports: (_, draws) => draws.map(() => ({ index: 0, bit: 1, row: 0, column: 0, coin: "kept" })),
    odds: () => ({ truth: 1, chance: 1, random: 0 }),
  };
  const list = MECHANISMS as Mechanism[];
  list.push(always);
  t.after(() => list.pop());
  assert.throws(() => read({ mechanism: "always" }), /always has no seed of directions/);
  const manifest = read({ mechanism: "always", directions_seed: 0, loud: 99 });
  const V = { values: new Float32Array(10), rows: manifest.items, columns: manifest.factors };
  const words = new BigUint64Array(4 * (manifest.reports + 1));
  const { reports } = await makeReports(manifest, V, [], words);
  assert.deepEqual([...reports], [1, 1, 1, 1]);
  assert.deepEqual(explain(manifest), { about: always.about, odds: always.odds(manifest) });
});
