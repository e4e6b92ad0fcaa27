import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { type Terms, termsOf } from "../../client/src/terms.js";
import { item } from "../../client/test/published.js";
import { COST, DAY, World } from "../../client/test/world.js";
import { connect, Failed } from "../src/connection.js";
import type { Asked, Curve, Event, FromWorker, State } from "../src/messages.js";
import { Session } from "../src/work/session.js";

/** A session as the page opens it, on a real client against a real socket. */
async function begin(context: TestContext, panel: unknown = null) {
  const world = await World.begin(context);
  const events: Event[] = [];
  const client = await world.open({
    limit: 0,
    paused: true,
    askFirst: true,
    sleep: async () => {},
  });
  context.after(() => client.close());
  const tools = { clock: () => world.now, panel: async () => panel };
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
  return { world, session, events, state, curve };
}

/** The terms that the question shows her. */
function shown({ manifest }: State): Terms {
  assert.ok(manifest);
  return termsOf(manifest);
}

test("before she says yes nothing is sent, and suggestions are there", async (context) => {
  const { world, session, state } = await begin(context);
  assert.deepEqual(await session.look(), { failures: 0, retryAfter: null });
  assert.equal(state().agreed, false);
  assert.equal(state().suggestions.length, 12);
  assert.equal(state().advice.length, 0);
  assert.ok(!world.calls().includes("batches"));
  assert.match(state().manifest?.about ?? "", /^a report names a public direction/u);
  assert.ok((state().manifest?.odds.truth ?? 0) > 0.5);
});

test("films change the advice at once, and each advice has its reasons", async (context) => {
  const { session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  assert.equal(state().films.length, 1);
  assert.equal(state().advice.length, 10);
  await session.add(item(7));
  assert.ok(state().advice.some(({ because }) => because.length === 2));
  await session.remove(item(3));
  assert.deepEqual(
    state().films.map(({ id }) => id),
    [item(7)],
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

test("the limit stops reporting in the client's words, and a new one counts from the next epoch", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.agree(shown(state()), COST / 2);
  await session.look();
  assert.match(state().line, /lifetime limit does not allow another batch/u);
  assert.equal(world.received.length, 0);
  assert.equal(state().trouble, null);
  await session.setLimit(COST);
  world.now += DAY;
  await world.publish(2);
  await session.look();
  assert.equal(world.received.length, 1);
});

test("worse terms are told, refused, and taken only when she agrees", async (context) => {
  const { world, session, state } = await begin(context);
  await session.look();
  await session.add(item(3));
  await session.agree(shown(state()), COST * 10);
  await world.publish(2, { epsilon: 5, opens: 0, closes: 4_000_000 });
  const looked = await session.look();
  assert.equal(looked.failures, 1);
  assert.equal(state().trouble?.kind, "terms");
  assert.match(state().trouble?.terms?.worse[0] ?? "", /2\.5 to 5/u);
  assert.equal(state().advice.length, 10);
  assert.equal(world.received.length, 0);
  const terms = state().trouble?.terms;
  assert.ok(terms);
  await session.acceptTerms(terms.asked);
  await session.look();
  assert.equal(state().trouble, null);
  assert.equal(world.received.length, 1);
});

test("what she agrees to is what she was shown, not what was asked before or since", async (context) => {
  const { world, session, state } = await begin(context);
  const dear = { epsilon: 5, opens: 0, closes: 4_000_000 };
  await world.publish(2, dear);
  await session.look(); // she only looks: that is no yes
  await world.publish(3, { ...dear, epsilon: 2.5 });
  await session.look();
  const terms = shown(state());
  assert.equal(terms.epsilon, 2.5);
  await world.publish(4, dear); // while the question stands open
  await session.look();
  assert.equal(state().trouble, null); // whoever has agreed to nothing cannot be cheated
  await session.agree(terms, COST * 10);
  await session.look();
  assert.equal(state().trouble?.kind, "terms");
  assert.equal(world.received.length, 0);
  await world.publish(5, { ...dear, epsilon: 2.5 });
  await session.look();
  assert.equal(world.received.length, 1);
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
  await world.publish(2, { previous_reports: 1200 });
  await session.look();
  await until(() => curve()?.points.length === 2);
  assert.deepEqual(curve(), {
    panel: null,
    points: [
      { epoch: 1, quality: null, people: 300 },
      { epoch: 2, quality: null, people: null },
    ],
  });
});

test("with a panel there is a number for every model", async (context) => {
  const panel = { version: 1, catalogue: "", people: [{ seen: [3], left: 7, others: [8, 9] }] };
  const { world, session, state, curve } = await begin(context, panel);
  const client = await world.open();
  const { catalogue } = await client.refresh();
  client.close();
  panel.catalogue = Buffer.from(catalogue).toString("hex");
  await session.look();
  await until(() => curve() !== undefined);
  assert.equal(state().manifest?.epoch, 1);
  assert.deepEqual(curve(), { panel: 1, points: [{ epoch: 1, quality: 1, people: null }] });
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
  hear({ data: { kind: "curve", curve: { panel: null, points: [] } } });
  hear({ data: { kind: "answer", number: 1, value: [] } });
  assert.deepEqual(await one, []);
  await assert.rejects(two, (error) => error instanceof Failed && error.trouble === trouble);
  assert.deepEqual([sent.length, heard.length], [2, 1]);
});

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 200 && !holds(); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.ok(holds());
}
