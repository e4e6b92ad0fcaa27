/** Which addresses a device may speak to. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkedAddress } from "../src/address.js";
import { SettingsError } from "../src/errors.js";

for (const address of [
  "http://localhost",
  "http://localhost:8000/",
  "http://127.0.0.1",
  "http://127.9.8.7:1",
  "http://[::1]:8000",
  "https://proxy.example/under/here/",
]) {
  test(`${address} may be spoken to`, () => {
    assert.equal(checkedAddress(address), address.replace(/\/$/, ""));
  });
}

for (const [address, why] of [
  ["http://proxy.example", /not encrypted/],
  ["http://10.0.0.1", /not encrypted/],
  ["http://128.0.0.1", /not encrypted/],
  ["http://0.0.0.0", /not encrypted/],
  ["http://localhost.example", /not encrypted/],
  ["http://127.0.0.1.example", /not encrypted/],
  ["http://[::2]", /not encrypted/],
  ["HTTP://proxy.example", /not encrypted/],
  ["ftp://proxy.example", /must be https/],
  ["javascript:alert(1)", /must be https/],
  ["proxy.example", /cannot be read/],
  ["https://", /cannot be read/],
  ["https://[::1", /cannot be read/],
  ["https://proxy.example:99999", /cannot be read/],
  ["https://me:secret@proxy.example", /no user name/],
  ["https://me@proxy.example", /no user name/],
  ["https://proxy.example/?who=me", /no user name/],
  ["https://proxy.example/?", /no user name/],
  ["https://proxy.example/#me", /no user name/],
] as const) {
  test(`${address} may not`, () => {
    assert.throws(
      () => checkedAddress(address),
      (error) => {
        assert.ok(error instanceof SettingsError);
        assert.match(error.message, why);
        return true;
      },
    );
  });
}
