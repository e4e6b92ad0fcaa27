/**
 * The proxy over real sockets: what a request carries, what an answer means, what is not read.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { encodeUtf8, toHex } from "../src/bytes.js";
import { ProtocolError, SettingsError } from "../src/errors.js";
import { Grid } from "../src/grid.js";
import { checkAddress } from "../src/options.js";
import { HttpProxy, type ProxyOptions } from "../src/proxy.js";
import { type Answer, reply, World } from "./world.js";

test("https anywhere, http on this machine, and nothing that tells devices apart", () => {
  const local = ["http://localhost", "http://localhost:8000/", "http://127.9.8.7:1"];
  for (const address of [...local, "http://[::1]:8000", "https://proxy.example/under/here/"]) {
    assert.equal(checkAddress(address), address.replace(/\/$/, ""));
  }
  for (const address of [
    ...["http://proxy.example", "http://10.0.0.1", "http://128.0.0.1", "http://0.0.0.0"],
    ...["http://localhost.example", "http://127.0.0.1.example", "http://[::2]", "HTTP://a.example"],
    ...["ftp://proxy.example", "javascript:alert(1)", "proxy.example", "https://", "https://[::1"],
    ...["https://proxy.example:99999", "https://me:secret@proxy.example", "https://me@a.example"],
    ...["https://proxy.example/?who=me", "https://proxy.example/?", "https://proxy.example/#me"],
  ]) {
    assert.throws(() => checkAddress(address), SettingsError, address);
  }
});

const HASH = Uint8Array.from({ length: 32 }, (_, at) => at);
const HELLO = encodeUtf8("hello");
const NOW = 1_700_000_000;
const AT_ONCE = { mark: () => {}, waitForStep: async () => {} };

async function ask(
  t: TestContext,
  answer: Answer,
  options: Partial<ProxyOptions> = {},
): Promise<[World, HttpProxy]> {
  const world = await World.begin(t);
  world.answer = answer;
  return [world, new HttpProxy(world.url, { clock: () => NOW, grid: AT_ONCE, ...options })];
}

const hello: Answer = (response, call) =>
  call === "batches" ? reply(response, 202) : reply(response, 200, "hello");

test("paths and bodies", async (t) => {
  const [world, proxy] = await ask(t, hello);
  assert.deepEqual(await proxy.fetchManifest(), HELLO);
  assert.deepEqual(await proxy.fetchShelf(), HELLO);
  assert.deepEqual(await proxy.fetchPastManifest(7), HELLO);
  assert.deepEqual(await proxy.fetchModel(HASH, 5), HELLO);
  assert.deepEqual(await proxy.fetchPastModel(HASH, 5), HELLO);
  assert.deepEqual(await proxy.fetchCatalogue(HASH), HELLO);
  await assert.rejects(proxy.checkAcceptsBatch(HASH), { name: "RefusedError" }); // 204 alone means yes
  await proxy.sendBatch(encodeUtf8("batch"));
  assert.deepEqual(
    world.requests.map(({ method, path, body }) => [method, path, Buffer.from(body).toString()]),
    [
      ["GET", "/v2/manifest", ""],
      ["GET", "/v2/shelf", ""],
      ["GET", "/v2/manifests/7", ""],
      ["GET", `/v2/models/${toHex(HASH)}`, ""],
      ["GET", `/v2/models/${toHex(HASH)}`, ""],
      ["GET", `/v2/catalogues/${toHex(HASH)}`, ""],
      ["GET", `/v2/batches/${toHex(HASH)}`, ""],
      ["POST", "/v2/batches", "batch"],
    ],
  );
});

test("a request carries what everybody's does", async (t) => {
  const cookie = { "set-cookie": "id=1; Path=/", etag: '"abc"', "last-modified": "yesterday" };
  const [world, proxy] = await ask(t, (response, call) =>
    reply(response, call === "batches" ? 202 : 200, "", cookie),
  );
  await proxy.fetchManifest();
  await proxy.fetchManifest();
  await proxy.sendBatch(encodeUtf8("batch"));
  // All but the last two are node's own, the same for every program; a browser has its own.
  const common = {
    host: world.url.replace("http://", ""),
    connection: "keep-alive",
    accept: "*/*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
    "accept-encoding": "gzip, deflate",
    pragma: "no-cache",
    "cache-control": "no-cache",
    "accept-language": "*",
  };
  const batch = { "content-type": "application/octet-stream", "content-length": "5" };
  const carried = world.requests.map((request) => request.headers);
  assert.deepEqual(carried, [common, common, { ...common, ...batch }]);
});

test("fetch is told to send nothing of its owner", async (t) => {
  const asked: RequestInit[] = [];
  const [, proxy] = await ask(t, hello, {
    fetch: (input, init) => {
      asked.push(init ?? {});
      return fetch(input, init);
    },
  });
  await proxy.fetchManifest();
  await proxy.sendBatch(HELLO);
  for (const { mode, credentials, referrerPolicy, cache, redirect } of asked) {
    assert.deepEqual(
      [mode, credentials, referrerPolicy, cache, redirect],
      ["cors", "omit", "no-referrer", "no-store", "manual"],
    );
  }
  assert.equal(asked.length, 2);
});

for (const status of [301, 302, 303, 307, 308]) {
  test(`a redirect (${status}) is not followed`, async (t) => {
    const [world, proxy] = await ask(t, (response) =>
      reply(response, status, "", { location: "/elsewhere" }),
    );
    const refused = { name: "RefusedError", message: /redirects are not followed/ };
    await assert.rejects(proxy.fetchManifest(), refused);
    await assert.rejects(proxy.sendBatch(HELLO), refused);
    assert.deepEqual(
      world.requests.map((request) => request.path),
      ["/v2/manifest", "/v2/batches"],
    );
  });
}

test("a redirect as browsers show it is told from silence", async () => {
  const opaque = { type: "opaqueredirect", status: 0, headers: new Headers(), body: null };
  const proxy = new HttpProxy("https://proxy.example", {
    clock: () => NOW,
    grid: AT_ONCE,
    fetch: async () => opaque as unknown as Response,
  });
  await assert.rejects(proxy.sendBatch(HELLO), { name: "RefusedError" });
});

test("a batch that must not leave any more ends its request, or makes none", async (t) => {
  const owner = new AbortController();
  const [world, proxy] = await ask(t, (_, call) => {
    owner.abort();
    return call === "batches"; // and no answer
  });
  await assert.rejects(proxy.sendBatch(HELLO, owner.signal), { name: "UnavailableError" });
  assert.equal(world.requests.length, 1);
  await assert.rejects(proxy.sendBatch(HELLO, owner.signal), { name: "UnavailableError" });
  assert.equal(world.requests.length, 1);
});

test("an announced length beyond the cap is not read", async (t) => {
  const [world, proxy] = await ask(t, hello);
  assert.deepEqual(await proxy.fetchModel(HASH, 5), HELLO);
  await assert.rejects(proxy.fetchModel(HASH, 4), /longer than 4 bytes/);
  world.answer = (response) => reply(response, 200, new Uint8Array(19_526));
  await assert.rejects(proxy.fetchManifest(), /longer than 19525 bytes/);
});

test("a body without end is given up", async (t) => {
  let written = 0;
  const [, proxy] = await ask(t, (response) => {
    response.writeHead(200);
    const more = () => {
      while (!response.destroyed && written < 200e6) {
        written += 100_000;
        if (!response.write(new Uint8Array(100_000))) {
          response.once("drain", more);
          return;
        }
      }
    };
    more();
    return true;
  });
  await assert.rejects(proxy.fetchModel(HASH, 1000), ProtocolError);
  assert.ok(written < 20e6, `${written} bytes were sent`);
});

const problem = (type: string) => JSON.stringify({ type, status: 409 });

for (const [status, body, name] of [
  [200, "Welcome to the hotel", "RefusedError"],
  [204, "", "RefusedError"],
  [400, "", "RefusedError"],
  [401, "", "RefusedError"],
  [404, "", "RefusedError"],
  [413, "", "RefusedError"],
  [409, problem("about:blank"), "RefusedError"],
  [409, "[]", "RefusedError"],
  [409, "null", "RefusedError"],
  [409, Uint8Array.of(255), "RefusedError"],
  [409, "[".repeat(10_000), "RefusedError"],
  [409, new Uint8Array(20_000), "RefusedError"],
  [409, problem("urn:sottovoce:wrong-epoch"), "ClosedError"],
  [410, "", "ClosedError"],
  [408, "", "UnavailableError"],
  [425, "", "UnavailableError"],
  [429, "", "UnavailableError"],
  [500, "", "UnavailableError"],
  [503, "", "UnavailableError"],
  [599, "", "UnavailableError"],
] as const) {
  test(`${status} ${body.slice(0, 8)} to a batch: ${name}`, async (t) => {
    const [, proxy] = await ask(t, (response) => reply(response, status, body));
    await assert.rejects(proxy.sendBatch(HELLO), { name, message: new RegExp(String(status)) });
  });
}

for (const [header, wait] of [
  ["5", 5],
  ["0", undefined],
  ["-3", undefined],
  ["soon", undefined],
  ["", undefined],
  ["1e3", undefined],
  [new Date((NOW + 60) * 1000).toUTCString(), 60],
  [new Date((NOW - 60) * 1000).toUTCString(), undefined],
] as const) {
  test(`Retry-After: ${header}`, async (t) => {
    const [, proxy] = await ask(t, (response) =>
      reply(response, 503, "", { "retry-after": header }),
    );
    await assert.rejects(proxy.sendBatch(HELLO), { name: "UnavailableError", retryAfter: wait });
  });
}

test("nobody there is unavailable", async (t) => {
  const [world, proxy] = await ask(t, hello);
  await world.stop();
  await assert.rejects(proxy.fetchManifest(), {
    name: "UnavailableError",
    message: /try again later/,
  });
});

for (const [what, answer] of [
  ["nothing", () => true],
  [
    "half of it",
    (response) => {
      response.writeHead(200, { "content-length": 10 });
      response.write("half");
      return true;
    },
  ],
] as const satisfies (readonly [string, Answer])[]) {
  test(`a proxy that says ${what} and then falls silent is given up`, async (t) => {
    const [, proxy] = await ask(t, answer, { patience: 0.1 });
    await assert.rejects(proxy.fetchManifest(), {
      name: "UnavailableError",
      message: /no answer in time/,
    });
  });
}

test("a slow body is read for as long as it comes", async (t) => {
  const [, proxy] = await ask(
    t,
    (response) => {
      response.writeHead(200, { "content-length": 5 });
      [..."hello"].forEach((letter, at) => {
        setTimeout(() => response.write(letter), 60 * at);
      });
      return true;
    },
    { patience: 0.5 },
  );
  assert.deepEqual(await proxy.fetchManifest(), HELLO);
});

test("a body that comes byte by byte without end is given up", { timeout: 20_000 }, async (t) => {
  const timers: NodeJS.Timeout[] = [];
  t.after(() => timers.forEach(clearInterval));
  for (const [status, fetch] of [
    [200, (proxy: HttpProxy) => proxy.fetchManifest()],
    [200, (proxy: HttpProxy) => proxy.requestToken(HELLO)],
    [409, (proxy: HttpProxy) => proxy.sendBatch(HELLO)],
  ] as const) {
    const [, proxy] = await ask(
      t,
      (response) => {
        response.writeHead(status);
        timers.push(setInterval(() => response.write("."), 50));
        return true;
      },
      { patience: 0.2 },
    );
    await assert.rejects(fetch(proxy), {
      name: "UnavailableError",
      message: /no answer in time/,
    });
  }
});

test("an aborted request waits for no step, however late timers are, and is not made", async () => {
  const sender = new AbortController();
  let time = 0;
  const timer = {
    now: () => time,
    sleep: async (seconds: number) => {
      time += seconds + 0.1; // always late
      if (time > 60) sender.abort();
    },
  };
  const fetch = async () => assert.fail("a request was made");
  const grid = new Grid(timer);
  const proxy = new HttpProxy("https://proxy.example", { clock: timer.now, grid, fetch });
  await assert.rejects(proxy.sendBatch(HELLO, sender.signal));
});
