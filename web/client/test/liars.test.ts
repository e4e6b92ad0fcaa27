/** Servers and proxies that lie: nothing is sent, nothing spent, nothing stored. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { utf8 } from "../src/bytes.js";
import { TermsError, UntrustedError } from "../src/errors.js";
import { MAX_SIGNED_MANIFEST } from "../src/signed.js";
import { systemWords } from "../src/words.js";
import { encodeCatalogue, encodeModel, FACTORS, ITEMS, itemMatrix } from "./published.js";
import { dump } from "./stored.js";
import { AT_ONCE, DAY, hashOf, newSigningKey, reply, TERMS, told, World } from "./world.js";

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
    /longer than 19525 bytes/,
    ["manifest"],
    async (world) => {
      world.manifest = new Uint8Array(MAX_SIGNED_MANIFEST + 1);
    },
  ],
  "an older epoch": [/epoch 2 was seen already/, ["manifest"], (world) => world.publish(1)],
  "two manifests of one epoch": [
    /two different manifests of epoch 2/,
    ["manifest"],
    (world) => world.publish(2, { reports_behind: 1 }),
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
      await world.publish(3, { model, items: ITEMS - 1 });
    },
  ],
  "a number that is none": [
    /neither 0 nor of a size/,
    ["manifest", "models"],
    async (world) => {
      const values = itemMatrix(3).map((value, at) => (at === 13 ? Number.NaN : value));
      await world.publish(3, { model: await world.add(encodeModel(values, ITEMS, FACTORS)) });
    },
  ],
  "another training": [
    /to another training/,
    ["manifest"],
    (world) => world.publish(3, { terms: { training: "00".repeat(16) } }),
  ],
  "another mechanism": [
    /made by coordinate, not by loudest/,
    ["manifest"],
    (world) =>
      world.publish(3, {
        terms: { mechanism: "coordinate", parameters: {}, loud_fraction: 0.5 },
      }),
  ],
  "blocks of another size": [
    /would be block 32, directions_seed 3, loud 10, not block 64, directions_seed 3, loud 10/,
    ["manifest"],
    (world) => world.publish(3, { terms: { parameters: { ...TERMS.parameters, block: 32 } } }),
  ],
  "blocks that are none": [
    /block: a power of two, not 48/,
    ["manifest"],
    (world) => world.publish(3, { terms: { parameters: { ...TERMS.parameters, block: 48 } } }),
  ],
  "a raised epsilon": [
    /from epsilon 2.5 to 2.500001/,
    ["manifest"],
    (world) => world.publish(3, { terms: { epsilon: 2.500001 } }),
  ],
  "more that is loud": [
    /loud directions would rise from 0.1 to 0.5/,
    ["manifest"],
    (world) =>
      world.publish(3, {
        terms: { parameters: { ...TERMS.parameters, loud: 64 }, loud_fraction: 0.5 },
      }),
  ],
  "more reports": [
    /an epoch would take 5 reports, not 4/,
    ["manifest"],
    (world) => world.publish(3, { terms: { reports: 5 } }),
  ],
  "a longer lifetime": [
    /1001 epochs, not 1000/,
    ["manifest"],
    (world) => world.publish(3, { terms: { epochs: 1001 } }),
  ],
  "a smaller crowd": [
    /at least 99 people, not 100/,
    ["manifest"],
    (world) => world.publish(3, { terms: { least_clients: 99 } }),
  ],
  "a crowd that never comes": [
    /at least 1001 people, not 100/,
    ["manifest"],
    (world) => world.publish(3, { terms: { least_clients: 1001 } }),
  ],
  "a longer hold": [
    /for 1 seconds, not 0/,
    ["manifest"],
    (world) => world.publish(3, { terms: { hold: 1 } }),
  ],
  "more items": [
    /could have 101 items, not 100/,
    ["manifest"],
    (world) => world.publish(3, { terms: { most_items: 101 } }),
  ],
  "one field worse and all others better": [
    /terms: an epoch would take 5 reports, not 4\. Nothing/,
    ["manifest"],
    (world) =>
      world.publish(3, {
        terms: {
          reports: 5,
          epsilon: 0.1,
          epochs: 1,
          share: 0.01,
          least_clients: 900,
        },
      }),
  ],
};

for (const [name, [words, calls, lie]] of Object.entries(LIES)) {
  test(`${name}: refused, and nothing changes`, async (t) => {
    const [world, client] = await told(t);
    const [before, recommended] = [await dump(world.factory), await client.recommend(5)];
    await lie(world);
    for (const attempt of [
      () => client.sync(AT_ONCE),
      () => client.refresh(),
      () => client.sync(AT_ONCE),
    ]) {
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
    assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  });
}

test("an older epoch is refused also after forgetting", async (t) => {
  const [world, client] = await told(t);
  await client.forget();
  for (const name of ["an older epoch", "two manifests of one epoch"]) {
    await LIES[name]?.[2](world);
    await assert.rejects(client.sync(AT_ONCE), UntrustedError);
  }
  await world.publish(2);
  assert.equal((await client.sync(AT_ONCE)).outcome, "not open");
});

test("a seed, and what is loud within its share, need no consent", async (t) => {
  const [world, client] = await told(t);
  const parameters = { ...TERMS.parameters, directions_seed: 2 ** 53 - 1, loud: 38 };
  await world.publish(3, { terms: { parameters } }); // 38 of 384 are less than a tenth
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
  assert.deepEqual((await client.status()).terms, TERMS);
  world.now += DAY;
  await world.publish(4, { terms: { parameters: { ...parameters, loud: 39 } } });
  await assert.rejects(client.sync(AT_ONCE), /more directions are loud than the terms allow/);
});

test("new terms hold once exactly they were accepted", async (t) => {
  const [world, client] = await told(t);
  const dear = { epsilon: 5, reports: 2, least_clients: 50 };
  await world.publish(3, { terms: dear });
  await assert.rejects(client.sync(AT_ONCE), /changed its terms/);
  const error = await client.refresh().catch((caught: unknown) => caught);
  assert.ok(error instanceof TermsError);
  assert.equal(error.worse.length, 2);
  assert.deepEqual(error.asked, { ...TERMS, epsilon: 5, reports: 2, leastClients: 50 });
  await client.accept(error.asked);
  assert.equal((await client.sync(AT_ONCE)).spent, 10);
  const accepted = { ...TERMS, epsilon: 5, reports: 2, leastClients: 50 };
  assert.deepEqual((await client.status()).terms, accepted);
  world.now += DAY;
  await world.publish(4, { terms: { ...dear, reports: 3 } });
  await assert.rejects(client.sync(AT_ONCE), /3 reports, not 2/);
});

test("what was accepted is the bound, whatever manifests said before", async (t) => {
  const [world, client] = await told(t);
  await client.accept({ ...TERMS, epsilon: 1 });
  await assert.rejects(client.sync(AT_ONCE), (error) => {
    assert.ok(error instanceof TermsError);
    assert.deepEqual(error.asked, TERMS);
    assert.equal(error.worse.length, 1);
    return true;
  });
  assert.deepEqual(world.received, []);
});

test("nothing is reported before a yes, which binds what was on its way then too", async (t) => {
  const world = await World.begin(t);
  const dear = { opens: 0, closes: 4_000_000, terms: { epsilon: 5 } };
  await world.publish(2, dear);
  const client = await world.open();
  t.after(() => client.close());
  const synced = await client.sync(AT_ONCE);
  assert.equal(synced.outcome, "not accepted");
  assert.match(synced.sentence, /^The terms have not been accepted yet; nothing was sent/);
  assert.deepEqual([(await client.status()).terms, (await client.status()).plan], [null, null]);
  await world.publish(3, dear);
  const refreshing = client.refresh();
  await client.accept(TERMS);
  await assert.rejects(refreshing, TermsError);
  await assert.rejects(client.sync(AT_ONCE), TermsError);
  assert.deepEqual([world.received, (await client.status()).terms], [[], TERMS]);
});

test("hearing of worse terms stores nothing and sends nothing", async (t) => {
  const [world, client] = await told(t);
  const before = await dump(world.factory);
  await world.publish(3, { terms: { epsilon: 5 } });
  await assert.rejects(client.sync(AT_ONCE), TermsError);
  assert.deepEqual(world.calls(), ["manifest"]);
  assert.deepEqual(await dump(world.factory), before);
});

test("what are no terms cannot be accepted", async (t) => {
  const world = await World.begin(t);
  const client = await world.open();
  const { share: _, ...missing } = TERMS;
  for (const wrong of [missing, { ...TERMS, epsilon: -1 }, { ...TERMS, mechanism: "louder" }]) {
    await assert.rejects(client.accept(wrong as typeof TERMS), { name: "SettingsError" });
  }
  assert.equal((await client.status()).terms, null);
});

test("better terms that are accepted while a batch is made hold for it", async (t) => {
  const world = await World.begin(t);
  const client = await world.accepted({
    words: (reports) => {
      void client.accept({ ...TERMS, reports: 1 });
      return systemWords(reports);
    },
  });
  t.after(() => client.close());
  assert.equal((await client.sync(AT_ONCE)).outcome, "not accepted");
  assert.deepEqual([world.received, (await client.status()).spent], [[], 0]);
  await assert.rejects(client.sync(AT_ONCE), TermsError);
});

test("better terms are taken and do not become the bound", async (t) => {
  const [world, client] = await told(t);
  await world.publish(3, { terms: { epsilon: 1, reports: 1, least_clients: 1000 } });
  assert.equal((await client.sync(AT_ONCE)).spent, 1);
  assert.deepEqual((await client.status()).terms, TERMS);
  world.now += DAY;
  await world.publish(4);
  assert.equal((await client.sync(AT_ONCE)).outcome, "sent");
});

test("a hotel that answers everything is not believed", async (t) => {
  const world = await World.begin(t);
  const client = await world.client();
  world.answer = (response) => reply(response, 200, "Welcome to the hotel");
  await assert.rejects(client.sync(AT_ONCE), UntrustedError);
  world.answer = () => false;
  await client.refresh();
  world.answer = (response, call) => call === "batches" && reply(response, 200, "Welcome");
  await assert.rejects(client.sync(AT_ONCE), { name: "RefusedError" });
  assert.equal((await client.lastBatch())?.state, "charged");
});
