/** The README: its example runs, and it names every call. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ClientOptions, Offer } from "../src/index.js";
import * as exported from "../src/index.js";
import { OUTCOMES } from "../src/outcome.js";
import { JITTER } from "../src/timing.js";
import { Browser } from "./virtual.js";
import { REPORTS, TERMS, World } from "./world.js";

const { Client } = exported;
const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

test("the example has about ten lines and runs", async (t) => {
  const world = await World.begin(t);
  const browser = new Browser(world);
  const code = /```ts\n([\s\S]*?)```/.exec(README)?.[1] ?? "";
  const body = code
    .replace(/^import .*$/m, "")
    .replace("https://proxy.example", world.url)
    .replace(/(?<=key: ")[0-9a-f]{64}/, world.key);
  assert.ok(code.split("\n").filter((line) => line.trim()).length <= 20);
  const said: string[] = [];
  const console = { log: (...words: string[]) => said.push(words.join(" ")) };
  const shown: Offer[] = [];
  const yes = async (offer: Offer) => shown.push(offer) > 0;
  const client = {
    open: async ({ news, ...options }: ClientOptions) => {
      const tab = await browser.tab(options);
      tab.hear = (told) => void news?.(told);
      tab.show();
      return tab;
    },
  };
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
  await AsyncFunction("Client", "console", "showAndAsk", body)(client, console, yes);
  await browser.virtual.pass(2 * JITTER);
  assert.deepEqual(shown[0]?.terms, TERMS);
  assert.ok(said.some((line) => line.includes(" because of ")));
  assert.ok(said.includes("The batch of epoch 1 was sent."));
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
  const sentence = README.slice(README.indexOf("Outcomes, in"));
  for (const outcome of OUTCOMES) {
    assert.ok(sentence.includes(`\`${outcome}\``), outcome);
  }
});
