/** The README: its example runs, and it names every call. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as exported from "../src/index.js";
import { OUTCOMES } from "../src/outcome.js";
import { REPORTS, TERMS, World } from "./world.js";

const { Client } = exported;
const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

test("the example has about ten lines and runs", async (t) => {
  const world = await World.begin(t);
  const now = Math.floor(Date.now() / 1000);
  await world.publish(1, { opens: now - 60, closes: now + 3600 });
  const code = /```ts\n([\s\S]*?)```/.exec(README)?.[1] ?? "";
  const body = code
    .replace(/^import .*$/m, "")
    .replace("https://proxy.example", world.url)
    .replace(/(?<=key: ")[0-9a-f]{64}/, world.key)
    .replace("client.sync()", "client.sync({ jitter: 0 })");
  assert.ok(code.split("\n").filter((line) => line.trim()).length <= 16);
  const said: string[] = [];
  const console = { log: (...words: string[]) => said.push(words.join(" ")) };
  const globals = globalThis as { indexedDB?: IDBFactory };
  globals.indexedDB = world.factory;
  t.after(() => delete globals.indexedDB);
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
  const shown: unknown[] = [];
  const yes = async (terms: unknown) => shown.push(terms) > 0;
  await AsyncFunction("Client", "console", "showAndAsk", body)(Client, console, yes);
  assert.deepEqual(shown, [TERMS]);
  assert.equal(said.length, 6);
  assert.equal(said[5], "The batch of epoch 1 was sent.");
  assert.equal(world.received[0]?.length, 56 + 52 * REPORTS);
});

test("every call is in the table", () => {
  const table = README.slice(README.indexOf("## API"));
  for (const name of Object.getOwnPropertyNames(Client.prototype)) {
    assert.ok(name === "constructor" || table.includes(`\`${name}(`), name);
  }
});

test("every error is named, and no other", () => {
  const table = README.slice(README.indexOf("Every error is"));
  const named = new Set(Array.from(table.matchAll(/`(\w+Error)`/gu), ([, name]) => name));
  const all = Object.keys(exported).filter((name) => name.endsWith("Error"));
  assert.deepEqual([...named].sort(), all.sort());
});

test("every outcome is named", () => {
  const sentence = README.slice(README.indexOf("Outcomes of a sync"));
  for (const outcome of OUTCOMES) {
    assert.ok(sentence.includes(`\`${outcome}\``), outcome);
  }
});
