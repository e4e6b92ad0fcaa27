/** Servers and proxies that lie: nothing is sent, nothing spent, nothing stored. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex, utf8 } from "../src/bytes.js";
import { ProtocolError, UntrustedError } from "../src/errors.js";
import { MAX_SIGNED_MANIFEST } from "../src/manifest.js";
import { TermsError } from "../src/terms.js";
import { systemWords } from "../src/words.js";
import { encodeCatalogue, encodeModel, FACTORS, ITEMS, item, itemMatrix } from "./published.js";
import { charges, dump } from "./stored.js";
import { DAY, hashOf, newSigningKey, reply, TERMS, told, World } from "./world.js";

type Lie = (world: World) => Promise<unknown>;

/** The words of the refusal, the requests that it takes to see it, and the lie. */
const LIES: Record<string, [RegExp, string[], Lie]> = {
  "another key": [
    /not signed by the server/,
    ["manifest"],
    async (world) => {
      world.manifest = new Uint8Array((await world.signed(3, {}, await newSigningKey())).raw);
    },
  ],
  "a flipped bit": [
    /not signed by the server/,
    ["manifest"],
    async (world) => {
      const { raw } = await world.publish(3);
      world.manifest = raw.map((byte, at) => (at === raw.length - 9 ? byte ^ 1 : byte));
    },
  ],
  "no manifest at all": [
    /signed/,
    ["manifest"],
    async (world) => {
      world.manifest = utf8("<html>Welcome to the hotel</html>".repeat(10));
    },
  ],
  "an endless manifest": [
    /longer than 16384 bytes/,
    ["manifest"],
    async (world) => {
      world.manifest = new Uint8Array(MAX_SIGNED_MANIFEST + 1);
    },
  ],
  "an older epoch": [/epoch 2 was seen already/, ["manifest"], (world) => world.publish(1)],
  "two manifests of one epoch": [
    /two different manifests of epoch 2/,
    ["manifest"],
    (world) => world.publish(2, { previous_reports: 1 }),
  ],
  "another model": [
    /other bytes/,
    ["manifest", "models"],
    async (world) => {
      const { model } = (await world.publish(3)).fields;
      world.files.set(String(model), encodeModel(itemMatrix(2), ITEMS, FACTORS));
    },
  ],
  "another catalogue": [
    /other bytes/,
    ["manifest", "models", "catalogues"],
    async (world) => {
      const wanted = await hashOf(utf8("catalogue of nobody"));
      world.files.set(wanted, encodeCatalogue(ITEMS));
      await world.publish(3, { catalogue: wanted });
    },
  ],
  "a catalogue of another length": [
    /49 items/,
    ["manifest", "models", "catalogues"],
    async (world) => world.publish(3, { catalogue: await world.add(encodeCatalogue(ITEMS - 1)) }),
  ],
  "no catalogue": [
    /catalogue/,
    ["manifest", "models", "catalogues"],
    async (world) => world.publish(3, { catalogue: await world.add(utf8("[]")) }),
  ],
  "an endless model": [
    /longer than 4704 bytes/,
    ["manifest", "models"],
    async (world) => world.publish(3, { model: await world.add(new Uint8Array(4705)) }),
  ],
  "a model of another shape": [
    /model file/,
    ["manifest", "models"],
    async (world) => {
      const values = new Float32Array(ITEMS * (FACTORS + 1));
      await world.publish(3, { model: await world.add(encodeModel(values, ITEMS, FACTORS + 1)) });
    },
  ],
  "another shape of the same model": [
    /model file/,
    ["manifest"],
    async (world) => {
      const model = await world.add(encodeModel(itemMatrix(2), ITEMS, FACTORS));
      await world.publish(3, { model, items: FACTORS, factors: ITEMS, loud: 1 });
    },
  ],
  "a number that is none": [
    /finite|NaN/,
    ["manifest", "models"],
    async (world) => {
      const values = itemMatrix(3).map((value, at) => (at === 13 ? Number.NaN : value));
      await world.publish(3, { model: await world.add(encodeModel(values, ITEMS, FACTORS)) });
    },
  ],
  "more reports": [
    /an epoch would take 5 reports, not 4/,
    ["manifest"],
    (world) => world.publish(3, { reports: 5 }),
  ],
  "a raised epsilon": [
    /from epsilon 2.5 to 2.500001/,
    ["manifest"],
    (world) => world.publish(3, { epsilon: 2.500001 }),
  ],
  "a smaller crowd": [
    /at least 99 people, not 100/,
    ["manifest"],
    (world) => world.publish(3, { least_clients: 99 }),
  ],
  "another mechanism": [
    /made by hadamard, not by loudest/,
    ["manifest"],
    (world) => world.publish(3, { mechanism: "hadamard", loud: 0 }),
  ],
};

for (const [name, [words, calls, lie]] of Object.entries(LIES)) {
  test(`${name}: refused, and nothing changes`, async (t) => {
    const [world, client] = await told(t);
    const [before, recommended] = [await dump(world.factory), await client.recommend(5)];
    await lie(world);
    for (const attempt of [() => client.sync(), () => client.refresh(), () => client.sync()]) {
      world.requests.length = 0;
      await assert.rejects(attempt(), (error) => {
        assert.ok(error instanceof UntrustedError);
        assert.match(error.message, words);
        return true;
      });
      assert.deepEqual(world.calls(), calls);
    }
    assert.deepEqual(world.received, []);
    assert.deepEqual(await dump(world.factory), before);
    assert.deepEqual(await client.recommend(5), recommended);
    await world.publish(3);
    assert.equal((await client.sync()).outcome, "sent");
  });
}

test("an older epoch is refused also after forgetting", async (t) => {
  const [world, client] = await told(t);
  await client.forget();
  for (const name of ["an older epoch", "two manifests of one epoch"]) {
    await LIES[name]?.[2](world);
    await assert.rejects(client.sync(), UntrustedError);
  }
  await world.publish(2);
  assert.equal((await client.sync()).outcome, "not open");
});

test("new terms hold once they are accepted", async (t) => {
  const [world, client] = await told(t);
  await world.publish(3, { epsilon: 5, reports: 2, least_clients: 50 });
  await assert.rejects(client.sync(), /changed its terms/);
  await assert.rejects(client.refresh(), /changed its terms/);
  assert.equal((await client.sync({ acceptNewTerms: true })).spent, 10);
  const accepted = { mechanism: "loudest", epsilon: 5, reports: 2, leastClients: 50 };
  assert.deepEqual((await client.status()).terms, accepted);
  world.now += DAY;
  await world.publish(4, { epsilon: 5, reports: 3, least_clients: 50 });
  await assert.rejects(client.sync(), /3 reports, not 2/);
});

test("what she agreed to is the bound, whatever manifests said before", async (t) => {
  const [world, client] = await told(t);
  await client.agree({ ...TERMS, epsilon: 1 });
  await assert.rejects(client.sync(), (error) => {
    assert.ok(error instanceof TermsError);
    assert.deepEqual(error.asked, TERMS);
    assert.equal(error.worse.length, 1);
    return true;
  });
  assert.deepEqual(world.received, []);
});

test("whoever is asked first is bound by her yes alone, also to what was on its way then", async (t) => {
  const world = await World.begin(t);
  const dear = { epsilon: 5, opens: 0, closes: 4_000_000 };
  await world.publish(2, dear);
  const client = await world.open({ askFirst: true });
  t.after(() => client.close());
  assert.equal((await client.sync()).outcome, "paused");
  assert.equal((await client.status()).terms, null);
  await world.publish(3, dear);
  const refreshing = client.refresh();
  await client.agree(TERMS);
  await assert.rejects(refreshing, TermsError);
  await assert.rejects(client.sync(), TermsError);
  assert.deepEqual([world.received, (await client.status()).terms], [[], TERMS]);
});

test("better terms that she agrees to while a batch is made hold for it", async (t) => {
  const world = await World.begin(t);
  const client = await world.open({
    words: (reports) => {
      void client.agree({ ...TERMS, reports: 1 });
      return systemWords(reports);
    },
  });
  t.after(() => client.close());
  assert.equal((await client.sync()).outcome, "paused");
  assert.deepEqual([world.received, (await client.status()).spent], [[], 0]);
  await assert.rejects(client.sync(), TermsError);
});

test("better terms are taken and do not become the bound", async (t) => {
  const [world, client] = await told(t);
  await world.publish(3, { epsilon: 1, reports: 1, least_clients: 1000 });
  assert.equal((await client.sync({ acceptNewTerms: true })).spent, 1);
  assert.deepEqual((await client.status()).terms, TERMS);
  world.now += DAY;
  await world.publish(4);
  assert.equal((await client.sync()).outcome, "sent");
});

test("accepting new terms does not help a liar", async (t) => {
  const [world, client] = await told(t);
  for (const name of ["another key", "an older epoch", "two manifests of one epoch"]) {
    await LIES[name]?.[2](world);
    await assert.rejects(client.sync({ acceptNewTerms: true }), UntrustedError);
  }
});

for (const first of [0, 1]) {
  test(`nothing is sealed to the point ${first} of small order`, async (t) => {
    const [world, client] = await told(t);
    const key = new Uint8Array(32);
    key[0] = first;
    await world.publish(3, { public_key: toHex(key) });
    for (const _ of [1, 2]) {
      await assert.rejects(client.sync(), ProtocolError);
    }
    assert.deepEqual([world.received, await charges(world)], [[], []]);
    assert.deepEqual((await client.status()).batches, { charged: 0, sent: 0, dropped: 0 });
    assert.equal((await client.recommend(3)).length, 3);
  });
}

// The pinned key.

test("another key or another proxy is refused in plain words, and nobody is asked", async (t) => {
  const world = await World.begin(t);
  (await world.client()).close();
  const before = await dump(world.factory);
  await assert.rejects(world.open({ key: "00".repeat(32) }), (error) => {
    assert.ok(error instanceof UntrustedError);
    const trusted = "than the one this browser has trusted since 1970-01-02";
    assert.match(error.message, new RegExp(`^This address now names another key ${trusted}`));
    return true;
  });
  await assert.rejects(world.open({ proxy: "https://other.example" }), (error) => {
    assert.ok(error instanceof UntrustedError);
    assert.match(error.message, /https:\/\/other\.example is named/);
    return true;
  });
  assert.deepEqual(world.requests, []);
  assert.deepEqual(await dump(world.factory), before);
  assert.deepEqual(await (await world.open()).touched(), [item(3), item(7), item(20)]);
});

test("a hotel that answers everything is not believed", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = (response) => reply(response, 200, "Welcome to the hotel");
  await assert.rejects(client.sync(), UntrustedError);
  world.answer = () => false;
  await client.refresh();
  world.answer = (response, call) => call === "batches" && reply(response, 200, "Welcome");
  await assert.rejects(client.sync(), { name: "RefusedError" });
  assert.equal((await client.lastBatch())?.state, "charged");
});
