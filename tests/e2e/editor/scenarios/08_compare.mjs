// A run against the one before it, and against a pinned baseline.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { session, until } from "../lib/scenario.mjs";

/** Three runs: the first, one that is twice as slow, and one that is a fifth faster than the first. */
function threeRuns(place) {
  place.first = place.storeRun("--age", "7200");
  place.storeRun("--scale", "2", "--age", "3600");
  place.storeRun("--scale", "0.8");
}

session(
  "before and after",
  { setUp: threeRuns },
  {
    "lens, hover and tree show what changed since the run before": async (window) => {
      await window.lens("4.16 ms/step ▼ 60 %").waitFor();
      const hover = await window.hover("self.up(x)", "up");
      await hover.filter({ hasText: "▲▼ against the run of 1 h ago" }).first().waitFor();
      await window.screenshot("compare-hover");
      await window.page.keyboard.press("Escape");
      await window.command("Ridgeline: Show Hot Spots");
      const rows = (await window.treeWith(/^Changes/)).join("\n");
      assert.match(rows, /Changes[\s\S]*against the run of 1 h ago/);
      assert.match(rows, /Step[\s\S]*▼ 60 %/);
      await window.screenshot("compare-tree");
    },

    "a pinned baseline is what later runs are compared with, after a reload too": async (window, place) => {
      await window.lens("▼ 60 %").first().waitFor();
      await window.command("Ridgeline: Show Another Run…");
      const rows = await window.quickPickItems();
      assert.equal(rows.length, 4, rows.join("\n"));
      const oldest = window.page.locator(".quick-input-list .monaco-list-row").last();
      await oldest.hover();
      await oldest.locator(".action-label.codicon-pin").click();
      await window.lens("4.16 ms/step ▼ 20 %").waitFor();
      assert.ok(existsSync(join(place.first, "pinned")));
      await window.load("model.py");
      await window.lens("4.16 ms/step ▼ 20 %").waitFor();
      const hover = await window.hover("self.up(x)", "up");
      await hover.filter({ hasText: "against the pinned run of 2 h ago" }).first().waitFor();
      await window.page.keyboard.press("Escape");
      await window.command("Ridgeline: Unpin Baseline");
      await window.lens("4.16 ms/step ▼ 60 %").waitFor();
      assert.ok(!existsSync(join(place.first, "pinned")));
    },

    "an older run can be shown instead of the newest": async (window) => {
      await window.lens("4.16 ms/step").waitFor();
      await window.command("Ridgeline: Show Another Run…");
      await window.quickPickItems();
      await window.page.locator(".quick-input-list .monaco-list-row").nth(2).click();
      await window.lens("10.4 ms/step ▲ 100 %").waitFor();
      await window.command("Ridgeline: Show Another Run…");
      await window.pick("The newest, always");
      await window.lens("4.16 ms/step ▼ 60 %").waitFor();
      await until(async () => (await window.lenses()).every((text) => !text.includes("▲")), "nothing is slower");
    },
  },
);
