// Waiting for what happens by itself.
import assert from 'node:assert/strict';

export async function until(what, check) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    if (await check()) return;
    assert.ok(Date.now() < deadline, `waited too long for ${what}`);
    await new Promise((r) => setTimeout(r, 100));
  }
}
