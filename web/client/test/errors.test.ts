import assert from "node:assert/strict";
import { test } from "node:test";
import * as errors from "../src/errors.js";
import { TERMS } from "./world.js";

test("every error is one of ours and carries the name of its class", () => {
  const { TermsError, ...others } = errors;
  assert.equal(new TermsError([], TERMS).name, "TermsError");
  for (const [name, Kind] of Object.entries(others)) {
    const error = new Kind("what happened");
    assert.ok(error instanceof errors.SottovoceError);
    assert.equal(error.name, name);
    assert.equal(error.message, "what happened");
  }
});

test("what is narrower is caught with what is wider", () => {
  assert.ok(new errors.ProtocolError("") instanceof errors.UntrustedError);
  assert.ok(new errors.ClosedError("") instanceof errors.RefusedError);
  assert.ok(!(new errors.UntrustedError("") instanceof errors.ProtocolError));
});

test("a busy proxy may say for how long", () => {
  assert.equal(new errors.UnavailableError("busy", 30).retryAfter, 30);
  assert.equal(new errors.UnavailableError("busy").retryAfter, undefined);
});
