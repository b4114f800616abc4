// From a line to its kernel and back; the tree; the trace.
import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { session, until } from "../lib/scenario.mjs";

const UP = "5.20 ms/step";
const MODULE = "torchinductor_e2e/ab/cabgated.py";
const showTree = async (window) => {
  await window.command("Ridgeline: Show Hot Spots");
  return window.tree();
};

session(
  "jumps from a stored run",
  { setUp: (place) => place.storeRun() },
  {
    "Go to Definition leads to the generated module, whose lenses lead back": async (window) => {
      await window.lens(UP).waitFor();
      await window.goToLine(16, 27);
      await window.page.keyboard.press("F12");
      await window.activeTab("cabgated.py");
      await window.lens("from model.py:").first().waitFor();
      const lens = window.lens("4.10 ms/step").last();
      await until(async () => /from model\.py:15 and 1 more/.test(await lens.innerText()), "both lines are named");
      await until(async () => /sigmoid_0\.run\(/.test(await window.lineBelow(lens)), "the lens is above the launch");
      await window.screenshot("generated");
      await lens.click();
      await until(() => window.peeks(), "both of the user's lines are offered");
      await window.screenshot("generated-back");
      await window.page.keyboard.press("Escape");
      await window.lens("5.20 ms/step").click();
      await window.activeTab("model.py");
      await until(async () => (await window.position()).startsWith("Ln 14"), "the line of self.up(x)");
    },

    "a lens leads to the launch in the generated module": async (window) => {
      await window.lens(UP).click();
      await window.activeTab("cabgated.py");
      await until(async () => (await window.position()).startsWith("Ln 26"), "the cursor is on the launch of addmm");
    },

    "the tree lists kernels, lines and findings, and its items jump": async (window) => {
      await window.lens(UP).waitFor();
      const text = (await showTree(window)).join("\n");
      for (const part of ["Kernels", "Lines", "Findings", "triton_poi_fused_gelu_mul_sigmoid_0"])
        assert.ok(text.includes(part), text);
      await window.screenshot("tree");
      await window.treeItem("waited for").click();
      await until(async () => (await window.position()).startsWith("Ln 30"), "the finding's line");
      await window.treeItem("triton_poi_fused").hover();
      await window.treeItem("triton_poi_fused").getByRole("button", { name: "Open Kernel File" }).click();
      await window.activeTab("cabgated.py");
    },

    "the tree filters and sorts": async (window) => {
      await showTree(window);
      const kernels = async () => (await window.tree()).filter((row) => /xmma|triton_poi|Memcpy/.test(row));
      const filter = async (text) => {
        await window.command("Ridgeline: Filter…");
        await window.quickInput(text);
        await window.page.keyboard.press("Enter");
      };
      await filter("gelu");
      await until(async () => (await kernels()).length === 1, "one kernel is left");
      await filter("");
      await until(async () => (await kernels()).length === 4, "all kernels are back");
      await window.command("Ridgeline: Sort…");
      await window.pick("Name");
      await until(async () => /Memcpy/.test((await kernels())[0]), "Memcpy comes first by name");
      await window.command("Ridgeline: Sort…");
      await window.pick("Time per step");
      await until(async () => /tn_n/.test((await kernels())[0]), "the hottest comes first by time");
    },

    "Open Kernel File offers the generated kernels, hottest first": async (window) => {
      await window.lens(UP).waitFor();
      await window.command("Ridgeline: Open Kernel File");
      assert.match((await window.quickPickItems())[0], /gemm_f32f32_tf32f32_f32_tn_n/);
      await window.pick("triton_poi_fused");
      await window.activeTab("cabgated.py");
    },

    "the symbols of a generated module are its hot places": async (window) => {
      // The editor keeps the symbols that it was given first, so the results must be there.
      await window.lens(UP).waitFor();
      await window.openFile("cabgated.py");
      await window.lens(UP).waitFor();
      await window.page.keyboard.press("Control+Shift+o");
      // The editor orders them by their lines.
      const symbols = (await window.quickPickItems()).join("\n");
      for (const part of [/triton_poi_fused_gelu_mul_sigmoid_0/, /f32_tn_n/, /f32_nn_n/]) assert.match(symbols, part);
    },

    "a quick fix mutes a finding": async (window) => {
      await window.lens(UP).waitFor();
      await window.goToLine(30, 12);
      await window.page.keyboard.press("Control+.");
      const actions = window.page.locator(".action-widget .monaco-list-row");
      await actions.first().waitFor();
      const texts = (await actions.allInnerTexts()).join("\n");
      assert.match(texts, /hidden-sync/);
      await window.screenshot("quick-fix");
    },

    "a generated module of another version shows no numbers": async (window, place) => {
      appendFileSync(join(place.workspace, MODULE), "# compiled anew\n");
      await window.openFile("cabgated.py");
      await window.viewLine("compiled anew").or(window.viewLine("AOT ID")).first().waitFor();
      await window.page.waitForTimeout(1500);
      assert.deepEqual(
        (await window.lenses()).filter((text) => text.includes("ms/step")),
        [],
      );
    },
  },
);
