/** What goes between a page and its workers: answers to whoever asked, and errors as what they were. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import * as errors from "../src/errors.js";
import { connect, type Line, serve } from "../src/line.js";
import { TERMS } from "./world.js";

type Calls = { [name: string]: (...given: never[]) => unknown };

function connected<Known extends Calls>(t: TestContext, calls: Known, hear = (_: unknown) => {}) {
  const { port1, port2 } = new MessageChannel();
  for (const port of [port1, port2]) {
    port.start();
    t.after(() => port.close());
  }
  serve(port2 as Line, calls);
  return { ask: connect<Known>(port1 as Line, hear), far: port2 };
}

test("answers come to whoever asked, one question after the other", async (t) => {
  let atWork = 0;
  const slow = async (word: string) => {
    atWork += 1;
    assert.equal(atWork, 1);
    await new Promise((done) => setTimeout(done, 5));
    atWork -= 1;
    return `${word}!`;
  };
  const { ask } = connected(t, { slow });
  const answers = await Promise.all([ask("slow", "one"), ask("slow", "two"), ask("slow", "three")]);
  assert.deepEqual(answers, ["one!", "two!", "three!"]);
});

test("what is told unasked is heard", async (t) => {
  let hear = (_: unknown) => {};
  const heard = new Promise((done) => {
    hear = done;
  });
  const { far } = connected(t, {}, (told) => hear(told));
  far.postMessage({ kind: "news" });
  assert.deepEqual(await heard, { kind: "news" });
});

test("an error arrives as what it was, with all that it says", async (t) => {
  const { TermsError, ...plain } = errors;
  for (const Kind of Object.values(plain)) {
    const fail = () => {
      throw new Kind("why");
    };
    const error = await connected(t, { fail })
      .ask("fail")
      .catch((caught) => caught);
    assert.deepEqual([error.constructor, error.message], [Kind, "why"]);
  }
  const busy = () => {
    throw new errors.PostponedError("later", 17);
  };
  await assert.rejects(connected(t, { busy }).ask("busy"), { retryAfter: 17 });
  const worse = () => {
    throw new TermsError(["more"], TERMS);
  };
  const asked = await connected(t, { worse })
    .ask("worse")
    .catch((caught) => caught);
  assert.ok(asked instanceof TermsError);
  assert.deepEqual([asked.worse, asked.asked], [["more"], TERMS]);
});

test("what is none of ours is told too", async (t) => {
  const fail = () => {
    throw new TypeError("odd");
  };
  await assert.rejects(connected(t, { fail }).ask("fail"), errors.StoreError);
});

test("once it is closed every question fails, also those that wait", async (t) => {
  const { port1, port2 } = new MessageChannel();
  for (const port of [port1, port2]) {
    port.start();
    t.after(() => port.close());
  }
  serve(port2 as Line, { never: () => new Promise(() => {}) });
  const end = new AbortController();
  const ask = connect<{ never: () => Promise<void> }>(port1 as Line, () => {}, end.signal);
  const waiting = ask("never");
  end.abort();
  await assert.rejects(waiting, errors.SettingsError);
  await assert.rejects(ask("never"), errors.SettingsError);
});
