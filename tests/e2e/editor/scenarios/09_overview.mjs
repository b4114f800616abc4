// The overview and the trace of a run that was recorded on an H200, in tabs of the editor.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { here, python, root, screenshots } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";

const axe = readFileSync(createRequire(join(root, "extension", "package.json")).resolve("axe-core/axe.min.js"), "utf8");
const GEMM = "nvjet_sm90_tst_320x128";
/** Names of themes, and the class by which a webview knows each. */
const THEMES = {
  "Default Light Modern": "vscode-light",
  "Default Dark Modern": "vscode-dark",
  "Default High Contrast": "vscode-high-contrast",
  "Default High Contrast Light": "vscode-high-contrast-light",
};

function recorded(place, name) {
  const script = join(here, "recorded_run.py");
  return JSON.parse(execFileSync(python, [script, name, place.workspace, place.store], { encoding: "utf8" }));
}

/** Of the tab in front. */
async function page(window) {
  const frames = window.page.locator("iframe.webview.ready");
  await until(async () => (await frames.count()) > 0, "a webview is there");
  const visible = await until(async () => {
    for (const frame of await frames.all()) if (await frame.isVisible()) return frame;
    return undefined;
  }, "a webview is in sight");
  return visible.contentFrame().frameLocator("#active-frame");
}

async function openOverview(window) {
  await window.command("Ridgeline: Open Overview");
  await window.activeTab("Overview: mlp_train.py");
  const overview = await page(window);
  await overview.locator("footer").waitFor();
  return overview;
}

/** Frames of the window, deep ones too, by a part of their address. */
const frames = (window, part) => window.page.frames().filter((frame) => frame.url().includes(part));

/**
 * Requests from now on that leave this machine; what a policy stopped did not. `vscode-cdn.net` is the name under which the
 * editor itself serves the documents of webviews, without asking anyone.
 */
function strangers(window) {
  const found = [];
  const note = (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (/^https?:$/.test(protocol) && hostname !== "127.0.0.1" && !hostname.endsWith(".vscode-cdn.net"))
      found.push(`${request.url()} ${request.failure()?.errorText ?? ""}`);
  };
  window.page.on("requestfinished", note);
  window.page.on("requestfailed", (request) => request.failure()?.errorText !== "csp" && note(request));
  return found;
}

let run;

session(
  "pictures of a recorded run",
  {
    setUp: (place) => {
      run = recorded(place, "mlp_train");
    },
    file: "mlp_train.py",
  },
  {
    "the overview shows the run, and its places lead to the code": async (window) => {
      await window.ready();
      await until(
        async () => /Open Overview/.test((await window.languageStatus()).join("\n")),
        "a way to it stands in the language status",
      );
      const strange = strangers(window);
      const overview = await openOverview(window);
      await overview.getByRole("heading", { name: "Where the step goes" }).waitFor();
      await overview.getByRole("heading", { name: /Roofline of NVIDIA H200/ }).waitFor();
      assert.equal(await overview.getByLabel("Theme").count(), 0, "the editor's theme decides");
      const rows = overview.getByRole("region", { name: "Hot kernels, rows" });
      await rows.getByRole("button", { name: GEMM }).first().click();
      const detail = overview.locator(".table:has([aria-label='Hot kernels, rows']) .detail");
      await detail.getByText("launched as").waitFor();
      await window.screenshot("overview");
      await detail.locator("button.place", { hasText: "mlp_train.py:" }).first().click();
      const line = run.kernels.find((kernel) => kernel.name.startsWith(GEMM)).line;
      await until(async () => (await window.position()).startsWith(`Ln ${line},`), `line ${line} is shown`);
      await window.screenshot("overview-beside");
      assert.deepEqual(strange, []);
    },

    "what was set in the page is there when the tab comes back, and with the next run": async (window, place) => {
      let overview = await openOverview(window);
      await overview.getByLabel("Search Hot kernels").fill("triton");
      const status = (shown) => shown.locator(".table:has([aria-label='Hot kernels, rows']) output");
      await until(async () => /of \d+ rows/.test(await status(overview).innerText()), "the filter works");
      const filtered = await status(overview).innerText();
      await window.page.waitForTimeout(400);
      await window.openFile("mlp_train.py");
      await window.page.locator(".tab", { hasText: "Overview: mlp_train.py" }).click();
      overview = await page(window);
      await overview.locator("footer").waitFor();
      assert.equal(await status(overview).innerText(), filtered);
      assert.equal(await overview.getByLabel("Search Hot kernels").inputValue(), "triton");

      // Another run of the program, as a terminal would publish it.
      run = recorded(place, "mlp_train");
      await overview.getByRole("heading", { name: /^Compared with/ }).waitFor();
      assert.equal(await status(overview).innerText(), filtered, "the filter holds for the new run");
    },

    "the tab comes back with the window": async (window) => {
      let overview = await openOverview(window);
      const search = () => overview.getByLabel("Search Hot kernels");
      // The editor writes down what its tabs keep every few seconds; a window that is closed before loses it.
      for (let attempt = 1; attempt <= 4; attempt++) {
        await search().fill("nvjet");
        await window.page.waitForTimeout(4_000 * attempt);
        // Without a file in the address, which would be opened instead of what was open.
        await window.load();
        const tab = window.page.locator(".tab.active", { hasText: "Overview: mlp_train.py" });
        const back = await tab.waitFor({ timeout: 20_000 }).then(
          () => true,
          () => false,
        );
        // Nor is a tab there again that it had not written down.
        overview = back ? await page(window) : await openOverview(window);
        await overview.locator("footer").waitFor();
        if (back && (await search().inputValue()) === "nvjet") return;
      }
      assert.fail("what was set is not there again");
    },

    "in four themes axe finds no serious fault": async (window, place) => {
      for (const [theme, kind] of Object.entries(THEMES)) {
        place.settings({ "workbench.colorTheme": theme });
        const overview = await openOverview(window);
        await overview.locator(`body.${kind}`).waitFor();
        const frame = await overview
          .locator("body")
          .elementHandle()
          .then((body) => body.ownerFrame());
        // The page's policy refuses scripts without its nonce, the test's own among them; the debugger is not asked.
        await frame.evaluate(axe);
        const found = await frame.evaluate(() =>
          globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "best-practice"] }),
        );
        const serious = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        const words = serious.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
        assert.deepEqual(words, [], theme);
        await window.screenshot(`overview-${kind}`);
        await window.command("View: Close All Editors");
      }
    },

    "the trace opens in a tab with the right slice selected, and its link leads to the line": async (window) => {
      await window.ready();
      const overview = await openOverview(window);
      const strange = strangers(window);
      const rows = overview.getByRole("region", { name: "Hot kernels, rows" });
      await rows.getByRole("button", { name: GEMM }).first().click();
      await overview.getByRole("button", { name: "Open in Perfetto" }).click();
      await window.activeTab("Trace:");
      const [ui] = await until(() => {
        const found = frames(window, "/ui/v");
        return found.length ? found : undefined;
      }, "the interface is there");
      const details = ui.locator(".pf-details-shell, .pf-split-panel__drawer");
      await ui.getByText("Current Selection").first().waitFor();
      await ui.getByText(GEMM).last().waitFor();
      await until(async () => (await details.first().innerText()).includes("stream 7"), "its details are unfolded");
      const text = await details.first().innerText();
      assert.match(text, new RegExp(`Name\\s+${GEMM}`));
      for (const track of ["device busy, GPU 0", "launches waiting, GPU 0", "Ridgeline findings"])
        await ui.getByText(track, { exact: false }).first().waitFor({ state: "attached" });
      await window.page.waitForTimeout(1_000);
      await window.screenshot("perfetto");
      await ui.locator("a[href*='/s/']").first().click();
      const line = run.kernels.find((kernel) => kernel.name.startsWith(GEMM)).line;
      await until(async () => (await window.position()).startsWith(`Ln ${line},`), `line ${line} is shown`);
      assert.deepEqual(strange, []);
    },

    "the trace opens in the browser where that is wanted": async (window, place) => {
      place.settings({ "ridgeline.perfetto.open": "browser" });
      await window.page.waitForTimeout(500);
      const opened = window.page.context().waitForEvent("page");
      await window.command("Ridgeline: Open Trace in Perfetto");
      const opening = await opened;
      await opening.waitForLoadState("domcontentloaded");
      assert.match(opening.url(), /127\.0\.0\.1:\d+\/proxy\/\d+\//);
      await opening.frameLocator("#ui").getByText("GPU 0").first().waitFor();
      await opening.screenshot({ path: join(screenshots, "perfetto-browser.png") });
      await opening.close();
    },
  },
);

session(
  "a large overview",
  { setUp: (place) => place.storeRun("--kernels", "10000") },
  {
    "ten thousand kernels are shown and filtered": async (window) => {
      await window.ready();
      const began = Date.now();
      await window.command("Ridgeline: Open Overview");
      await window.activeTab("Overview: model.py");
      const overview = await page(window);
      await overview.getByRole("heading", { name: "Hot kernels" }).waitFor();
      const shown = Date.now() - began;
      await overview.locator("footer").waitFor();
      const body = await overview.locator("body").elementHandle();
      const frame = await body.ownerFrame();
      const paint = await frame.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
      const filter = await overview.getByLabel("Search Hot kernels").evaluate((input) => {
        const start = performance.now();
        input.value = "kernel_99";
        input.dispatchEvent(new Event("input"));
        document.body.getBoundingClientRect();
        return performance.now() - start;
      });
      console.log(
        `10,000 kernels: command to table ${shown} ms, of it paint ${paint?.toFixed(0)} ms; filter ${filter.toFixed(0)} ms`,
      );
      await until(
        async () => /^111 of 10004 rows/.test(await overview.locator(".table output").first().innerText()),
        "the filter leaves those with 99",
      );
    },
  },
);
