import assert from "node:assert/strict";

/** Waits until `check` returns something true, and returns it. Long by default, for a test machine may be slow. */
export async function until(check, what, timeout = 60_000) {
  const end = Date.now() + timeout;
  while (Date.now() < end) {
    const last = await check();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`not in ${timeout} ms: ${what}`);
}
