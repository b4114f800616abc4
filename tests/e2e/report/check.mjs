// Looks at report pages in Chromium: nothing is asked of a network, no errors, no fault that axe calls serious, in three
// themes; first paint and filtering are timed. usage: node check.mjs PAGE.html… (pictures go to artifacts/report)
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const require = createRequire(join(root, "extension", "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const THEMES = ["light", "dark", "contrast"];
// Of the processor, not of the clock: other work on the machine is no fault of the page.
const WHOLE_MS = 1500;
const pictures = join(root, "artifacts", "report");
const faults = [];

/** Markup is the same in every theme, colours are not. */
const rulesOf = (theme) =>
  theme === THEMES[0] ? ["wcag2a", "wcag2aa", "best-practice"] : { type: "rule", values: ["color-contrast"] };

async function look(browser, file) {
  const name = basename(file, ".html");
  const address = pathToFileURL(resolve(file)).href;
  // axe is put in by the test, which the page's policy would refuse.
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, bypassCSP: true });
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && faults.push(`${name}: ${message.text()}`));
  page.on("dialog", (dialog) => {
    faults.push(`${name}: a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.url() !== address && !request.url().startsWith("data:"))
      faults.push(`${name}: asks for ${request.url()}`);
  });
  const meter = await context.newCDPSession(page);
  await meter.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(address);
  await page.locator("footer").waitFor();
  const { metrics } = await meter.send("Performance.getMetrics");
  const whole = 1000 * metrics.find((metric) => metric.name === "TaskDuration").value;
  const paint = await page.evaluate(
    () =>
      new Promise((done) => {
        new PerformanceObserver((list) => done(list.getEntriesByName("first-contentful-paint")[0]?.startTime)).observe({
          type: "paint",
          buffered: true,
        });
      }),
  );
  const filter = await filtering(page);
  const rows = await page.locator("tbody tr").count();
  console.log(
    `${name}: first paint ${paint?.toFixed(0)} ms, ${whole.toFixed(0)} ms of processor time for the whole page, filtering ${filter?.toFixed(0) ?? "-"} ms, ${rows} rows in the page`,
  );
  if (whole > WHOLE_MS) faults.push(`${name}: drawing takes ${whole.toFixed(0)} ms of processor time`);
  await keyboard(page, name);
  await page.evaluate(axe);
  for (const theme of THEMES) {
    await page.getByLabel("Theme").selectOption(theme);
    const found = await page.evaluate((rules) => globalThis.axe.run(document, { runOnly: rules }), rulesOf(theme));
    for (const violation of found.violations) {
      const places = violation.nodes.slice(0, 3).map((node) => node.target.join(" "));
      const words = `${name}, ${theme}: ${violation.impact}: ${violation.id}: ${violation.nodes.length}× ${places.join(" | ")}`;
      if (["serious", "critical"].includes(violation.impact)) faults.push(words);
      else console.log(words);
    }
    await page.screenshot({ path: join(pictures, `${name}-${theme}.png`), fullPage: true });
  }
  await context.close();
  await policy(browser, address, name);
}

/** How long (median) the search box takes to show its result, in a table of kernels. */
async function filtering(page) {
  const box = page.getByLabel("Search Hot kernels");
  if (!(await box.count())) return undefined;
  return box.evaluate((input) => {
    const times = ["t", "tr", "tri", "nothing at all", ""].map((text) => {
      const start = performance.now();
      input.value = text;
      input.dispatchEvent(new Event("input"));
      document.body.getBoundingClientRect();
      return performance.now() - start;
    });
    return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  });
}

/** Rows and points are reached with Tab and the arrow keys alone. */
async function keyboard(page, name) {
  const rows = page.getByRole("region", { name: "Hot kernels, rows" }).locator("button.choose");
  if ((await rows.count()) > 1) {
    await rows.first().focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const shown = await page.locator(".table:has([aria-label='Hot kernels, rows']) .detail h3").first().textContent();
    const second = await rows.nth(1).textContent();
    if (shown !== second) faults.push(`${name}: the keys chose ${second}, shown is ${shown}`);
  }
  const points = page.locator('svg[role="group"] circle[role="button"]');
  if ((await points.count()) > 1) {
    await points.first().focus();
    await page.keyboard.press("ArrowRight");
    const label = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
    if (label !== (await points.nth(1).getAttribute("aria-label"))) faults.push(`${name}: arrow keys do not go on`);
  }
}

/** Under its own policy the page still draws, and may fetch nothing. */
async function policy(browser, address, name) {
  const page = await browser.newPage();
  page.on("pageerror", (error) => faults.push(`${name}, policy: ${error.message}`));
  await page.goto(address);
  await page.locator("footer").waitFor();
  if (!(await page.locator("h1").count())) faults.push(`${name}: its own policy keeps it from drawing`);
  const fetched = await page.evaluate(() =>
    fetch("http://127.0.0.1:9/").then(
      () => "fetched",
      (error) => error.message,
    ),
  );
  const blocked = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.injected = true";
    document.body.append(script);
    return globalThis.injected !== true;
  });
  if (fetched === "fetched" || !blocked) faults.push(`${name}: the policy lets scripts or requests through`);
  await page.close();
}

mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
for (const file of process.argv.slice(2)) await look(browser, file);
await browser.close();
for (const fault of faults) console.error(fault);
process.exit(faults.length ? 1 : 0);
