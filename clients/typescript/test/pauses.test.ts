import assert from "node:assert/strict";
import { test } from "node:test";

import { pauseBefore } from "../src/pauses.js";

test("pauses grow from an eighth of a second to ten seconds, and are spread", () => {
  assert.equal(pauseBefore(1, 0), 125);
  assert.equal(pauseBefore(1, 1), 250);
  assert.equal(pauseBefore(3, 1), 1000);
  assert.equal(pauseBefore(50, 0), 5000);
  assert.equal(pauseBefore(50, 1), 10_000);
});

test("the server's wish is kept, and never undercut", () => {
  assert.equal(pauseBefore(1, 0, 30), 30_000);
  assert.equal(pauseBefore(9, 1, 30), 37_500);
});
