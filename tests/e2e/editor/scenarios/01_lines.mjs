// What a stored run shows on the lines, and how it follows edits and settings.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { session, until } from "../lib/scenario.mjs";

const UP = "5.20 ms/step";

session(
  "a stored run on the lines",
  { setUp: (place) => place.storeRun() },
  {
    "lenses stand above the hot lines, and say what is shared and estimated": async (window) => {
      await window.lens(UP).waitFor();
      // A lens is there a moment before it has its place.
      for (const [lens, line] of [
        [UP, /self\.up\(x\)/],
        ["3.10 ms/step", /self\.down/],
      ])
        await until(async () => line.test(await window.lineBelow(window.lens(lens))), `${lens} above ${line}`);
      const texts = await window.lenses();
      const gelu = texts.find((text) => text.startsWith("4.10 ms/step"));
      assert.match(gelu, /16(\.\d)? % of step · ~memory bound · shared with L\d+/);
      assert.equal(texts.filter((text) => text.includes("~compute bound")).length, 2);
      await window.screenshot("lines");
    },

    "hints stand at the ends of lines": async (window) => {
      assert.match(await window.hint("self.up(x)"), /^5\.20 ms · 2\d(\.\d)? %$/);
      assert.match(await window.hint("torch.sigmoid"), /^4\.10 ms · 16(\.\d)? % · ~1\.2×$/);
    },

    "the hover has at most eight lines: the reason, an action, and where the numbers come from": async (window) => {
      const hover = await window.hover("hidden * torch.sigmoid", "sigmoid");
      const ours = hover.filter({ hasText: UP.replace("5.20", "4.10") });
      const text = await until(
        async () => (await ours.allInnerTexts()).join("\n").replaceAll("\u00a0", " "),
        "the hover",
      );
      const lines = text.split("\n").filter((line) => line.trim());
      assert.ok(lines.length <= 8, text);
      assert.match(text, /84 % of the measured bandwidth/);
      assert.match(text, /triton_poi_fused_gelu_mul_sigmoid_0/);
      assert.match(text, /→ Another configuration may be faster/);
      assert.match(lines.at(-1), /NVIDIA H200.*10 steps.*overhead 3/);
      await window.screenshot("hover");
    },

    "findings are in the Problems panel with their code, and lead to their line": async (window) => {
      const rows = (await window.problems()).join("\n");
      assert.match(rows, /The device is waited for[\s\S]*hidden-sync/);
      assert.match(rows, /Another configuration[\s\S]*autotune-candidate/);
      await window.screenshot("problems");
      await window.page.locator(".markers-panel .monaco-list-row", { hasText: "waited for" }).dblclick();
      await until(async () => (await window.position()).startsWith("Ln 30"), "the cursor is on the line of .item()");
    },

    "the heat map marks hot lines in gutter and overview ruler, and can be switched off": async (window) => {
      await until(async () => (await window.gutter()).length === 5, "five gutter bars");
      assert.deepEqual(await window.gutter(), ["dark-3", "dark-3", "dark-3", "dark-3", "dark-0"]);
      await window.command("Ridgeline: Toggle Annotations…");
      await window.pick("Heat map");
      await window.page.keyboard.press("Enter");
      await until(async () => (await window.gutter()).length === 0, "no gutter bars");
      assert.ok((await window.lenses()).length > 0, "the lenses stay");
      await window.command("Ridgeline: Toggle Annotations…");
      await window.pick("Heat map");
      await window.page.keyboard.press("Enter");
      await until(async () => (await window.gutter()).length === 5, "the gutter bars are back");
    },

    "each kind of annotation has its own switch, at once": async (window, place) => {
      await window.lens(UP).waitFor();
      const off = { "ridgeline.annotations.lenses": false, "ridgeline.annotations.diagnostics": false };
      place.settings(off);
      await window.lens(UP).waitFor({ state: "detached" });
      assert.match(await window.hint("self.up(x)"), /5\.20 ms/);
      await window.page.keyboard.press("Control+Shift+m");
      await window.page.getByText("No problems have been detected").first().waitFor();
      place.settings({});
      await window.lens(UP).waitFor();
    },

    "numbers follow edits, and go stale where the line itself was changed": async (window) => {
      await window.lens(UP).waitFor();
      await window.typeAt(3, 1, "# one\n# two\n# three\n");
      await until(async () => /self\.up\(x\)/.test(await window.lineBelow(window.lens(UP))), "the lens moved along");
      assert.equal((await window.gutter()).length, 5);
      await window.typeAt(17, 30, "  # edited");
      const stale = window.lens(/5\.20 ms\/step.*edited since/);
      await stale.waitFor();
      assert.match(await window.lineBelow(stale), /self\.up\(x\)/);
      await until(async () => (await window.gutter()).includes("dark-stale"), "a stale bar");
      await window.screenshot("stale");
      for (let i = 0; i < 8; i++) await window.page.keyboard.press("Control+z");
      await stale.waitFor({ state: "detached" });
    },

    "a file that was changed on disk keeps its numbers on the right lines": async (window, place) => {
      await window.lens(UP).waitFor();
      const file = join(place.workspace, "model.py");
      const before = readFileSync(file, "utf8");
      const lines = before.split("\n");
      const comment = "        # a comment in between";
      writeFileSync(
        file,
        ["# from another branch", "import os", ...lines.slice(0, 14), comment, ...lines.slice(14)].join("\n"),
      );
      await window.viewLine("from another branch").waitFor();
      await until(async () => /self\.up\(x\)/.test(await window.lineBelow(window.lens(UP))), "the lens is on its line");
      assert.match(await window.lineBelow(window.lens("3.10 ms/step")), /self\.down/);
      writeFileSync(file, before);
      await window.viewLine("from another branch").waitFor({ state: "detached" });
    },

    ...Object.fromEntries(
      ["Default High Contrast", "Default High Contrast Light", "Default Light Modern"].map((theme) => [
        `the heat map is drawn in ${theme}`,
        async (window, place) => {
          place.settings({ "workbench.colorTheme": theme });
          const dark = theme === "Default High Contrast";
          const kind = {
            true: ".hc-black",
            false: theme.startsWith("Default High") ? ".hc-light" : ".vs:not(.hc-light)",
          }[dark];
          await window.page.locator(`.monaco-workbench${kind}`).waitFor();
          await until(async () => (await window.gutter()).length === 5, "five gutter bars");
          await window.lens(UP).waitFor();
          await window.screenshot(`theme-${theme.toLowerCase().replaceAll(" ", "-")}`);
          place.settings({});
          await window.page.locator(".monaco-workbench.vs-dark").waitFor();
        },
      ]),
    ),

    "results come back when the window is loaded again": async (window) => {
      await window.lens(UP).waitFor();
      const before = await window.lenses();
      await window.load("model.py");
      await window.lens(UP).waitFor();
      assert.deepEqual(await window.lenses(), before);
    },

    "results can be cleared, and stay cleared": async (window) => {
      await window.lens(UP).waitFor();
      await window.command("Ridgeline: Clear Results");
      await window.lens(UP).waitFor({ state: "detached" });
      await until(async () => (await window.gutter()).length === 0, "no gutter bars");
      await window.load("model.py");
      await window.ready();
      assert.deepEqual(await window.lenses(), []);
    },

    "a run that appears in the store is shown by itself": async (window, place) => {
      await window.ready();
      assert.deepEqual(await window.lenses(), []);
      place.storeRun();
      await window.lens(UP).waitFor();
    },
  },
);

session(
  "ten thousand kernels",
  { setUp: (place) => place.storeRun("--kernels", "10000") },
  {
    "the first lens is there, and the file has few": async (window) => {
      const start = Date.now();
      await window.lens(UP).waitFor();
      console.log(`# first lens ${Date.now() - start} ms after the tab was active (the run was not indexed before)`);
      assert.ok((await window.lenses()).length <= 10);
      await window.load("model.py");
      await window.ready();
      const again = Date.now();
      await window.lens(UP).waitFor();
      console.log(`# first lens ${Date.now() - again} ms after the server was ready`);
    },
  },
);
