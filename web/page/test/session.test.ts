import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import test from "node:test";
import type { Terms } from "sottovoce-client";
import type { Ask } from "sottovoce-client/workers";
import { Browser } from "../../client/test/virtual.js";
import { COST, DAY, item, TERMS, World } from "../../client/test/world.js";
import { createDeskCalls, type DeskCalls } from "../src/desk.js";
import { Session } from "../src/session.js";
import type { Curve, Event, State } from "../src/state.js";
import { explainLimit } from "../src/view/limit.js";

const PACE = 5;

/** Open a session as the page does: real sides of a client, against a real socket. */
async function begin(
  context: TestContext,
  { panel = null as unknown, jitter = 0, pastModels = 0 } = {},
) {
  const world = await World.begin(context);
  const browser = new Browser(world);
  const { virtual } = browser;
  const client = await browser.tab({ limit: 0, paused: true, jitter, pastModels, pace: PACE });
  const events: Event[] = [];
  const receive = (event: Event) => void events.push(event);
  const calls: DeskCalls = createDeskCalls(receive);
  const desk = (async (name: keyof DeskCalls, ...args: never[]) =>
    (calls[name] as (...args: never[]) => unknown)(...args)) as Ask<DeskCalls>;
  calls.setPanel(panel);
  const session = new Session(client, desk, receive, virtual.clock, () => {});
  let handled: Promise<unknown> = Promise.resolve();
  client.hear = (news) => {
    handled = Promise.all([handled, session.handleNews(news)]);
  };
  client.hearPast = (epoch, release) => calls.addModel(epoch, release);
  const state = (): State => {
    const last = [...events].reverse().find((event) => event.kind === "state");
    assert.ok(last?.kind === "state");
    return last.state;
  };
  const curve = (): Curve | undefined => {
    const last = [...events].reverse().find((event) => event.kind === "curve");
    return last?.kind === "curve" ? last.curve : undefined;
  };
  /** Until all that follows from it is told. */
  const pass = async (seconds: number) => {
    await virtual.pass(seconds);
    await client.tell();
    await handled;
  };
  /** Two ticks: after new files the next look waits for the end of a lead. */
  const look = () => pass(2 * PACE);
  client.show();
  await look();
  return { world, client, events, state, curve, pass, look, session };
}

/** Return the terms that the question shows. */
function shown({ offer }: State): Terms {
  assert.ok(offer);
  return offer.terms;
}

test("before a yes nothing is sent, and suggestions are there", async (context) => {
  const { world, state } = await begin(context);
  assert.equal(state().agreed, false);
  assert.equal(state().suggestions.length, 12);
  assert.equal(state().advice.length, 0);
  assert.ok(!world.calls().includes("batches"));
  assert.equal(state().offer?.odds.content, "direction");
  assert.ok((state().offer?.odds.truth ?? 0) > 0.5);
});

test("films change the advice at once, and each advice has its reason", async (context) => {
  const { session, state } = await begin(context);
  await session.add(item(3));
  assert.equal(state().films.length, 1);
  assert.equal(state().advice.length, 10);
  await session.add(item(7));
  assert.ok(state().advice.every(({ reason }) => reason !== null));
  await session.remove(item(3));
  assert.deepEqual(
    state().films.map(({ id }) => id),
    [item(7)],
  );
});

test("the order in which films are marked changes nothing, and another tab has them at once", async (context) => {
  const { client, session, state, look } = await begin(context);
  const before = client.browser.requests.length;
  const lists = [];
  const orders = [
    [3, 7, 11],
    [11, 3, 7],
  ];
  for (const order of orders) {
    for (const film of order) await session.add(item(film));
    lists.push(state().advice);
    for (const film of order) await session.remove(item(film));
  }
  assert.deepEqual(lists[0], lists[1]);
  const other = await client.browser.tab();
  await other.record([item(7)], { ordered: false });
  await session.handleTab();
  assert.deepEqual([state().films[0]?.id, state().advice.length], [item(7), 10]);
  assert.equal(client.browser.requests.length, before);
  await look();
  assert.deepEqual([state().listChange, state().charges], [null, []]);
});

test("by tags alone nobody's reports speak, and switched back they do", async (context) => {
  const { session, state } = await begin(context);
  for (const film of [3, 7]) await session.add(item(film));
  const { advice } = state();
  await session.setWhispers(false);
  assert.equal(state().whispers, false);
  assert.notDeepEqual(state().advice, advice);
  assert.ok(state().advice.every(({ reason }) => reason?.kind === "tag"));
  await session.setWhispers(true);
  assert.deepEqual(state().advice, advice);
});

test("a yes is one batch for an epoch, and a pause stops the next", async (context) => {
  const { world, pass, session, look, state, events } = await begin(context);
  await session.add(item(3));
  await session.acceptAndStart(shown(state()), COST * 2);
  for (const _ of [1, 2, 3]) await look();
  assert.equal(world.received.length, 1);
  assert.equal(state().spentEpsilon, COST);
  assert.match(state().reportState, /^Epoch 1: your 4 reports left at/u);
  assert.ok(events.some((event) => event.kind === "batch"));
  await session.setTakingPart(false);
  await world.publish(2, { opens: 0, closes: 9 * DAY });
  await pass(60);
  assert.equal(world.received.length, 1);
  assert.equal(state().manifest?.epoch, 2);
});

test("the limit stops reporting in the client's words, and a new one counts at once", async (context) => {
  const { world, pass, session, look, state } = await begin(context);
  await session.acceptAndStart(shown(state()), COST / 2);
  await look();
  assert.match(state().reportState, /limit is reached/u);
  assert.equal(world.received.length, 0);
  assert.equal(state().trouble, null);
  await session.setLimit(COST);
  await pass(15);
  assert.equal(world.received.length, 1);
});

test("worse terms are told, refused, and taken only when they are accepted", async (context) => {
  const { world, pass, session, look, state } = await begin(context);
  await session.add(item(3));
  const terms = shown(state());
  await world.publish(2, { terms: { epsilon: 5 }, opens: 0, closes: 4_000_000 });
  await session.acceptAndStart(terms, COST * 10);
  await look();
  assert.equal(state().trouble?.kind, "terms");
  assert.match(state().worse[0] ?? "", /2\.5 to 5/u);
  assert.equal(state().advice.length, 10);
  assert.equal(world.received.length, 0);
  const { newOffer: asked } = state();
  assert.ok(asked);
  assert.deepEqual(asked.terms, { ...TERMS, epsilon: 5 });
  assert.equal(asked.figures.local, 2 * COST * TERMS.epochs);
  await session.acceptTerms(asked.terms, state().limit);
  await pass(30);
  assert.equal(state().trouble, null);
  assert.equal(world.received.length, 1);
});

test("another training is shown with all that was spent before, and what the limit leaves", async (context) => {
  const { world, pass, session, state } = await begin(context);
  await session.acceptAndStart(shown(state()), COST * 2);
  await pass(20);
  const first = state();
  assert.deepEqual([first.spentEpsilon, first.offer?.turns], [COST, TERMS.epochs - 1]);
  const terms = { training: "aa".repeat(16), epochs: 2 };
  await world.publish(2, { terms, opens: 0, closes: 4_000_000 });
  await pass(10);
  const { newOffer: offer, spentAmount: gone, limit } = state();
  assert.deepEqual([offer?.turns, offer?.figures.local], [2, 3 * COST]);
  assert.ok(offer);
  assert.match(explainLimit(limit, gone, offer), /^Enough for 1 more epoch:/u);
});

test("new terms are accepted up to the limit that was shown, whatever another tab has set", async (context) => {
  const { world, client, session, look, pass, state } = await begin(context);
  await session.acceptAndStart(shown(state()), COST);
  await look();
  await world.publish(2, { terms: { training: "aa".repeat(16) }, opens: 0, closes: 4_000_000 });
  await look();
  const { newOffer: asked, limit } = state();
  assert.ok(asked && limit === COST);
  const other = await client.browser.tab();
  await other.setLimit(COST * 10);
  await session.acceptTerms(asked.terms, limit);
  await pass(90);
  assert.deepEqual([state().limit, state().spentEpsilon], [COST, COST]);
});

test("what is accepted is what was shown, not what was asked before or since", async (context) => {
  const { world, pass, session, look, state } = await begin(context);
  const window = { opens: 0, closes: 4_000_000 };
  const dear = { ...window, terms: { epsilon: 5 } };
  await world.publish(2, dear);
  await look(); // a look is no yes
  await world.publish(3, window);
  await look();
  const terms = shown(state());
  assert.equal(terms.epsilon, 2.5);
  await world.publish(4, dear); // while the question is open
  await look();
  assert.equal(state().trouble, null); // an owner who has accepted nothing cannot be cheated
  await assert.rejects(session.acceptAndStart(terms, COST * 10), /that the server asks for now/u);
  await look();
  assert.deepEqual([state().agreed, state().takingPart, world.received], [false, false, []]);
  await world.publish(5, window);
  await look();
  await session.acceptAndStart(terms, COST * 10);
  await pass(90);
  assert.equal(world.received.length, 1);
});

test("forgetting stops what was planned", async (context) => {
  const { world, pass, session, look, state } = await begin(context, { jitter: 120 });
  await session.acceptAndStart(shown(state()), COST * 10);
  await look();
  await session.forget();
  await pass(700);
  const { agreed, takingPart, limit } = state();
  assert.deepEqual([agreed, takingPart, limit, world.received.length], [false, false, 0, 0]);
  await session.setTakingPart(true); // one click of an old tab
  await pass(700);
  assert.equal(world.received.length, 0);
});

test("a bad signature is told, nothing is sent, and advice goes on", async (context) => {
  const { world, session, look, state } = await begin(context);
  await session.add(item(3));
  const terms = shown(state());
  world.manifest = world.manifest.map((byte, at) => (at === 5 ? byte ^ 1 : byte));
  await session.acceptAndStart(terms, COST * 10);
  await look();
  assert.equal(state().trouble?.kind, "untrusted");
  assert.equal(state().advice.length, 10);
  assert.equal(world.received.length, 0);
});

test("the curve is measured epoch by epoch", async (context) => {
  const { world, pass, curve } = await begin(context, { pastModels: 60 });
  await world.publish(2, { reports_behind: 1200 });
  await pass(30);
  await until(() => curve()?.points.length === 2);
  assert.deepEqual(curve(), {
    panel: null,
    popularity: null,
    tagsOnly: null,
    start: null,
    now: [],
    points: [
      { epoch: 1, quality: null, people: 300 },
      { epoch: 2, quality: null, people: null },
    ],
  });
});

test("with a panel there is a number for every model", async (context) => {
  const world = await World.begin(context);
  const { fields } = await world.signed(1);
  const people = [{ seen: [3], left: 7, others: [8, 9] }];
  const panel = { version: 1, catalogue: fields.catalogue, people };
  const { state, curve } = await begin(context, { panel, pastModels: 60 });
  await until(() => curve() !== undefined);
  assert.equal(state().manifest?.epoch, 1);
  assert.deepEqual(curve(), {
    panel: 1,
    popularity: null,
    tagsOnly: 1,
    start: null,
    now: [],
    points: [{ epoch: 1, quality: 1, people: null }],
  });
});

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail("it never came");
}
