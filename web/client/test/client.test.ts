/**
 * What an application sees of a client; what goes between a page and its workers; what the README says.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { ALL_OUTCOMES } from "../src/agreement.js";
import type { ClientOptions } from "../src/client.js";
import * as errors from "../src/errors.js";
import * as exported from "../src/index.js";
import { connect, type Line, serve } from "../src/messages.js";
import { JITTER_SECONDS } from "../src/timing.js";
import { Browser } from "./virtual.js";
import { AT_ONCE, COST, item, onGrid, REPORTS, TERMS, World } from "./world.js";

/** What a page over http has. */
const INSECURE = { value: { getRandomValues: () => {} } };

test("status before and after a sync", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  await client.record([item(3), item(7), item(20), "unheard of"]);
  const before = await client.status();
  assert.deepEqual(
    [before.epoch, before.terms, before.knownItems, before.manifest],
    [null, null, 0, null],
  );
  assert.deepEqual([before.epochs, before.plan], [0, null]);
  await client.accept(TERMS);
  assert.deepEqual([before.spentEpsilon, before.remainingEpsilon, before.limit], [0, 100, 100]);
  await client.sync(AT_ONCE);
  const after = await client.status();
  assert.deepEqual([after.touched, after.knownItems, after.unknown], [4, 3, ["unheard of"]]);
  assert.deepEqual([after.epoch, after.terms, after.manifest?.epoch], [1, TERMS, 1]);
  assert.deepEqual(
    [after.spentEpsilon, after.remainingEpsilon, after.proxy],
    [COST, 100 - COST, world.url],
  );
  assert.deepEqual([after.paused, after.batches.sent, after.epochs], [false, 1, 1]);
  assert.deepEqual([after.plan?.epoch, after.plan?.takesPart], [1, true]);
  assert.equal(onGrid(after.plan?.sendAt ?? 0), world.now);
});

test("a page without cryptography is told why", async (t) => {
  const world = await World.begin(t);
  const original = Object.getOwnPropertyDescriptor(globalThis, "crypto") ?? {};
  t.after(() => Object.defineProperty(globalThis, "crypto", original));
  Object.defineProperty(globalThis, "crypto", { ...INSECURE, configurable: true });
  await assert.rejects(world.open(), { name: "SettingsError", message: /over https/ });
});

test("files that are the same are not fetched again, nor decoded again", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.refresh();
  const [before, V] = [await client.catalogue(), (await client.release(1))?.V];
  await client.refresh();
  await (await world.open()).refresh();
  assert.equal(await client.catalogue(), before); // the very same object
  await world.publish(2);
  await client.refresh();
  assert.equal(await client.catalogue(), before);
  assert.notDeepEqual((await client.release(2))?.V, V);
  const calls = world.requests.filter(({ path }) => path.startsWith("/v2/catalogues/"));
  assert.equal(calls.length, 1);
  const models = world.calls().filter((call) => call === "models");
  assert.equal(models.length, 2); // of two epochs fetched; the present one is looked at here
});

test("nothing private is in any request", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  await client.sync(AT_ONCE);
  await client.recommend(10);
  await world.publish(2);
  await client.refresh();
  await client.release(1);
  assert.ok(world.requests.length > 6);
  for (const { method, path, headers, body } of world.requests) {
    assert.doesNotMatch(
      `${method} ${path} ${JSON.stringify(headers)}`,
      /secret-item|cookie|referer/,
    );
    assert.ok(!Buffer.from(body).includes("secret-item"));
  }
});

type Calls = { [name: string]: (...args: never[]) => unknown };

function connectTo<Served extends Calls>(t: TestContext, calls: Served, end?: AbortSignal) {
  const { port1, port2 } = new MessageChannel();
  for (const port of [port1, port2]) {
    port.start();
    t.after(() => port.close());
  }
  serve(port2 as Line, calls);
  return connect<Served>(port1 as Line, () => {}, end);
}

test("answers come to the one who asked, one question after the other", async (t) => {
  let atWork = 0;
  const slow = async (word: string) => {
    atWork += 1;
    assert.equal(atWork, 1);
    await new Promise((done) => setTimeout(done, 5));
    atWork -= 1;
    return `${word}!`;
  };
  const ask = connectTo(t, { slow });
  const answers = await Promise.all([ask("slow", "one"), ask("slow", "two"), ask("slow", "three")]);
  assert.deepEqual(answers, ["one!", "two!", "three!"]);
});

test("an error arrives as what it was, with all that it says", async (t) => {
  const { TermsError, ...plain } = errors;
  for (const Kind of Object.values(plain)) {
    const fail = () => {
      throw new Kind("why");
    };
    const error = await connectTo(t, { fail })("fail").catch((caught) => caught);
    assert.deepEqual([error.constructor, error.message], [Kind, "why"]);
  }
  const busy = () => {
    throw new errors.PostponedError("later", 17);
  };
  await assert.rejects(connectTo(t, { busy })("busy"), { retryAfter: 17 });
  const worse = () => {
    throw new TermsError(["more"], TERMS);
  };
  const asked = await connectTo(t, { worse })("worse").catch((caught) => caught);
  assert.ok(asked instanceof TermsError);
  assert.deepEqual([asked.worse, asked.terms], [["more"], TERMS]);
});

test("an error of another kind arrives as a store error", async (t) => {
  const fail = () => {
    throw new TypeError("odd");
  };
  await assert.rejects(connectTo(t, { fail })("fail"), errors.StoreError);
});

test("once it is closed every question fails, also those that wait", async (t) => {
  const end = new AbortController();
  const ask = connectTo(t, { never: () => new Promise(() => {}) }, end.signal);
  const waiting = ask("never");
  end.abort();
  await assert.rejects(waiting, errors.SettingsError);
  await assert.rejects(ask("never"), errors.SettingsError);
});

const { Client, summarize } = exported;
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
  const logged: [string, unknown[]][] = [];
  const console = { log: (title: string, reasons: unknown[]) => logged.push([title, reasons]) };
  const shown: string[] = [];
  const yes = (words: string) => shown.push(words) > 0;
  const client = {
    open: async ({ news, ...options }: ClientOptions) => {
      const tab = await browser.tab(options);
      tab.hear = (latest) => void news?.(latest);
      tab.show();
      return tab;
    },
  };
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
  await AsyncFunction(
    "Client",
    "summarize",
    "console",
    "confirm",
    body,
  )(client, summarize, console, yes);
  await browser.virtual.pass(6 * JITTER_SECONDS);
  assert.deepEqual(shown, [summarize(TERMS, [], 500).join("\n")]);
  assert.ok(logged.some(([title, reasons]) => title !== "" && Array.isArray(reasons)));
  assert.equal(world.received[0]?.length, 56 + 52 * REPORTS);
});

test("every call is in the table", () => {
  const table = README.slice(README.indexOf("## Calls"));
  for (const name of Object.getOwnPropertyNames(Client.prototype)) {
    assert.ok(name === "constructor" || table.includes(`\`${name}(`), name);
  }
});

test("every error is named, and no other", () => {
  const table = README.slice(README.indexOf("## Errors"));
  const named = new Set(Array.from(table.matchAll(/`(\w+Error)`/gu), ([, name]) => name));
  const all = Object.keys(exported).filter((name) => name.endsWith("Error"));
  assert.deepEqual([...named].sort(), all.sort());
});

test("every outcome is named", () => {
  const sentence = README.slice(README.indexOf("Outcomes: "));
  for (const outcome of ALL_OUTCOMES) {
    assert.ok(sentence.includes(`\`${outcome}\``), outcome);
  }
});
