import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import type { Sleep } from "../../client/src/options.js";
import type { Terms } from "../../client/src/terms.js";
import { item } from "../../client/test/published.js";
import { COST, DAY, TERMS, World } from "../../client/test/world.js";
import { connect, Failed } from "../src/connection.js";
import type { Asked, Curve, Event, FromWorker, State } from "../src/messages.js";
import { meaningText } from "../src/view/limit.js";
import { Naps } from "../src/work/running.js";
import { Session } from "../src/work/session.js";

/** A session as the page opens it, on a real client against a real socket. */
async function begin(
  context: TestContext,
  {
    panel = null,
    jitter = 0,
    ...options
  }: { panel?: unknown; jitter?: number; sleep?: Sleep } = {},
) {
  const world = await World.begin(context);
  const events: Event[] = [];
  const naps = new Naps(options.sleep);
  const client = await world.open({ limit: 0, paused: true, sleep: naps.sleep });
  context.after(() => client.close());
  const tools = { clock: () => world.now, panel: async () => panel, naps, jitter };
  const session = new Session(client, (event) => events.push(event), tools);
  const state = (): State => {
    const last = events.filter((event) => event.kind === "state").at(-1);
    assert.ok(last?.kind === "state");
    return last.state;
  };
  const curve = (): Curve | undefined => {
    const last = events.filter((event) => event.kind === "curve").at(-1);
    return last?.kind === "curve" ? last.curve : undefined;
  };
  return { world, client, session, events, state, curve };
}

/** The terms that the question shows. */
function shown({ offer }: State): Terms {
  assert.ok(offer);
  return offer.terms;
}

test("before a yes nothing is sent, and suggestions are there", async (context) => {
  const { world, session, state } = await begin(context);
  assert.deepEqual(await session.look(), { failures: 0, retryAfter: null });
  assert.equal(state().agreed, false);
  assert.equal(state().suggestions.length, 12);
  assert.equal(state().advice.length, 0);
  assert.ok(!world.calls().includes("batches"));
  assert.match(state().offer?.about ?? "", /^a report names one of many public directions/u);
  assert.ok((state().offer?.odds.truth ?? 0) > 0.5);
});

test("films change the advice at once, and each advice has its reasons", async (context) => {
  const { session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  assert.equal(state().films.length, 1);
  assert.equal(state().advice.length, 10);
  await session.add(item(7));
  const reasons = state().advice.flatMap(({ because }) => because);
  assert.deepEqual(new Set(reasons.map(({ kind }) => kind)), new Set(["film", "tag"]));
  assert.ok(state().advice.every(({ because }) => because.length > 0 && because.length <= 3));
  await session.remove(item(3));
  assert.deepEqual(
    state().films.map(({ id }) => id),
    [item(7)],
  );
});

test("a reason of next to nothing is none", async (context) => {
  const { client, session, state } = await begin(context);
  await session.look();
  const reason = (share: number) => ({ kind: "item" as const, id: item(3), title: "", share });
  client.recommend = async () => [
    { id: item(5), title: "", tags: {}, score: 1, because: [reason(0.6), reason(0.004)] },
  ];
  await session.add(item(3));
  assert.deepEqual(
    state().advice.map(({ because }) => because.length),
    [1],
  );
});

test("a yes is one batch for an epoch, and a pause stops the next", async (context) => {
  const { world, session, state, events } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST * 2);
  await session.look();
  await session.look();
  assert.equal(world.received.length, 1);
  assert.equal(state().spent, COST);
  assert.match(state().line, /^Epoch 1: your 4 reports left at/u);
  const batches = events.filter((event) => event.kind === "batch");
  assert.ok(batches.length > 0);
  await session.takePart(false);
  world.now += DAY;
  await world.publish(2);
  await session.look();
  assert.equal(world.received.length, 1);
  assert.equal(state().manifest?.epoch, 2);
});

test("nothing is computed from the films between the questions of a look", async (context) => {
  const { world, client, session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST);
  const arrived: number[] = [];
  const recommend = client.recommend.bind(client);
  client.recommend = (n) => {
    arrived.push(world.received.length);
    return recommend(n);
  };
  await session.look();
  assert.deepEqual(new Set(arrived), new Set([1]), "advice, and only after the batch");
});

test("the limit stops reporting in the client's words, and a new one counts at once", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.agree(shown(state()), COST / 2);
  await session.look();
  assert.match(state().line, /lifetime limit does not allow another batch/u);
  assert.equal(world.received.length, 0);
  assert.equal(state().trouble, null);
  await session.setLimit(COST);
  await session.look();
  assert.equal(world.received.length, 1);
});

test("worse terms are told, refused, and taken only when they are accepted", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST * 10);
  await world.publish(2, { terms: { epsilon: 5 }, opens: 0, closes: 4_000_000 });
  const looked = await session.look();
  assert.equal(looked.failures, 1);
  assert.equal(state().trouble?.kind, "terms");
  assert.match(state().trouble?.terms?.worse[0] ?? "", /2\.5 to 5/u);
  assert.equal(state().advice.length, 10);
  assert.equal(world.received.length, 0);
  const terms = state().trouble?.terms;
  assert.ok(terms);
  assert.deepEqual(terms.asked, { ...TERMS, epsilon: 5 });
  assert.deepEqual(state().asked?.terms, terms.asked);
  assert.match(state().asked?.promise.join(" ") ?? "", /Whatever happens/u);
  await session.acceptTerms(terms.asked);
  await session.look();
  assert.equal(state().trouble, null);
  assert.equal(world.received.length, 1);
});

test("another training is offered with what the first one has cost", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.agree(shown(state()), COST * 2);
  await session.look();
  const first = state();
  assert.deepEqual([first.spent, first.offer?.turns], [COST, TERMS.epochs - 1]);
  const asked = { training: "aa".repeat(16), epochs: 2 };
  await world.publish(2, { terms: asked, opens: 0, closes: 4_000_000 });
  await session.look();
  const { asked: offer, gone, limit } = state();
  assert.deepEqual([offer?.turns, offer?.lifetime], [2, 3 * COST]);
  assert.ok(offer);
  assert.match(meaningText(limit, gone, offer), /^Enough for 1 more epoch:/u);
});

test("what is accepted is what was shown, not what was asked before or since", async (context) => {
  const { world, session, state } = await begin(context);
  const window = { opens: 0, closes: 4_000_000 };
  const dear = { ...window, terms: { epsilon: 5 } };
  await world.publish(2, dear);
  await session.look(); // a look is no yes
  await world.publish(3, window);
  await session.look();
  const terms = shown(state());
  assert.equal(terms.epsilon, 2.5);
  await world.publish(4, dear); // while the question stands open
  await session.look();
  assert.equal(state().trouble, null); // whoever has accepted nothing cannot be cheated
  await session.agree(terms, COST * 10);
  await session.look();
  assert.equal(state().trouble?.kind, "terms");
  assert.equal(world.received.length, 0);
  await world.publish(5, window);
  await session.look();
  assert.equal(world.received.length, 1);
});

/** A sleep that lasts until the test ends it. */
function sleeper() {
  const naps: { seconds: number; wake: () => void }[] = [];
  const sleep: Sleep = (seconds, signal) =>
    new Promise((resolve, reject) => {
      naps.push({ seconds, wake: resolve });
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  return { naps, sleep };
}

test("a look does not wait for a moment that was drawn, and nothing is spent before it", async (context) => {
  const { naps, sleep } = sleeper();
  const { world, session, state } = await begin(context, { jitter: 3600, sleep });
  await session.look();
  await session.agree(shown(state()), COST * 10);
  await session.look();
  await session.look();
  assert.deepEqual([naps.length, state().spent, world.received.length], [1, 0, 0]);
  assert.match(
    state().line,
    /^Epoch 1: your reports leave at .*drawn at random.*nothing is spent/u,
  );
  world.now += naps[0]?.seconds ?? 0;
  naps[0]?.wake();
  await until(() => naps.length === 2); // it is made, paid for, and waits for its very moment
  assert.equal(world.received.length, 0);
  world.now += naps[1]?.seconds ?? 0;
  naps[1]?.wake();
  await until(() => world.received.length === 1);
  await until(() => /^Epoch 1: your 4 reports left/u.test(state().line));
  assert.equal(state().spent, COST);
});

test("another epoch ends the sleep and has a moment of its own", async (context) => {
  const { naps, sleep } = sleeper();
  const { world, session, state } = await begin(context, { jitter: 3600, sleep });
  await session.look();
  await session.agree(shown(state()), COST * 10);
  await session.look();
  world.now += DAY;
  await world.publish(2);
  await session.look();
  assert.equal(naps.length, 2);
  assert.match(state().line, /^Epoch 2: your reports leave at/u);
  assert.deepEqual([state().spent, state().trouble], [0, null]);
});

test("what a sync fails with in its sleep is told at the next look, and tried again", async (context) => {
  const { naps, sleep } = sleeper();
  const { world, session, state } = await begin(context, { jitter: 3600, sleep });
  await session.look();
  await session.agree(shown(state()), COST * 10);
  await session.look();
  world.answer = (response) => {
    response.destroy();
    return true;
  };
  naps[0]?.wake();
  await until(() => world.calls().filter((call) => call === "manifest").length === 4);
  world.answer = () => false;
  await until(async () => (await session.look()).failures === 1);
  assert.equal(state().trouble?.kind, "unavailable");
  assert.equal((await session.look()).failures, 0);
  assert.equal(naps.length, 2);
});

test("forgetting ends the sleep", async (context) => {
  const { naps, sleep } = sleeper();
  const { world, session, state } = await begin(context, { jitter: 3600, sleep });
  await session.look();
  await session.agree(shown(state()), COST * 10);
  await session.look();
  await session.forget();
  await session.look();
  assert.deepEqual([naps.length, state().takingPart, world.received.length], [1, false, 0]);
});

test("a bad signature is told, nothing is sent, and advice goes on", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST * 10);
  world.manifest = world.manifest.map((byte, at) => (at === 5 ? byte ^ 1 : byte));
  await session.look();
  assert.equal(state().trouble?.kind, "untrusted");
  assert.equal(state().advice.length, 10);
  assert.equal(world.received.length, 0);
});

test("forgetting leaves the ledger and nothing else, and stops taking part", async (context) => {
  const { session, state, events } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST * 10);
  await session.look();
  await session.forget();
  assert.deepEqual([state().films, state().manifest, state().takingPart], [[], null, false]);
  assert.equal(state().spent, COST);
  assert.deepEqual(events.filter((event) => event.kind === "batch").at(-1), {
    kind: "batch",
    batch: null,
  });
  await session.look();
  assert.equal(state().suggestions.length, 12);
});

test("the curve is measured on the panel, epoch by epoch", async (context) => {
  const { world, session, curve } = await begin(context);
  await world.publish(2, { reports_behind: 1200 });
  await session.look();
  await until(() => curve()?.points.length === 2);
  assert.deepEqual(curve(), {
    panel: null,
    popularity: null,
    points: [
      { epoch: 1, quality: null, people: 300 },
      { epoch: 2, quality: null, people: null },
    ],
  });
});

test("with a panel there is a number for every model", async (context) => {
  const panel = { version: 1, catalogue: "", people: [{ seen: [3], left: 7, others: [8, 9] }] };
  const { world, session, state, curve } = await begin(context, { panel });
  const client = await world.open();
  const { catalogue } = await client.refresh();
  client.close();
  panel.catalogue = Buffer.from(catalogue).toString("hex");
  await session.look();
  await until(() => curve() !== undefined);
  assert.equal(state().manifest?.epoch, 1);
  assert.deepEqual(curve(), {
    panel: 1,
    popularity: null,
    points: [{ epoch: 1, quality: 1, people: null }],
  });
});

test("search knows what was seen", async (context) => {
  const { session } = await begin(context);
  await session.look();
  const [first] = await session.search("title 7");
  assert.ok(first !== undefined && !first.seen);
  await session.add(first.id);
  assert.ok((await session.search("title 7"))[0]?.seen);
});

test("answers come to whoever asked, in any order, and failures with their words", async () => {
  const sent: Asked[] = [];
  let hear = (_: { data: FromWorker }) => {};
  const line = {
    postMessage: (message: Asked) => void sent.push(message),
    addEventListener: (_: "message", listener: typeof hear) => {
      hear = listener;
    },
  };
  const heard: Event[] = [];
  const ask = connect(line, (event) => heard.push(event));
  const [one, two] = [ask({ kind: "search", text: "a" }), ask({ kind: "forget" })];
  const trouble = { kind: "storage" as const, text: "full", terms: null };
  hear({ data: { kind: "failed", number: 2, trouble } });
  hear({ data: { kind: "curve", curve: { panel: null, popularity: null, points: [] } } });
  hear({ data: { kind: "answer", number: 1, value: [] } });
  assert.deepEqual(await one, []);
  await assert.rejects(two, (error) => error instanceof Failed && error.trouble === trouble);
  assert.deepEqual([sent.length, heard.length], [2, 1]);
});

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail("it never came");
}
