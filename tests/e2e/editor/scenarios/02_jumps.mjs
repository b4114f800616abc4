// From a line to its kernel and back; the tree; the trace.
import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { scenario, until } from "../lib/scenario.mjs";

const stored = (place) => place.storeRun();
const MODULE = "torchinductor_e2e/ab/cabgated.py";

scenario("Go to Definition leads to the generated module, and from there back", { setUp: stored }, async (window) => {
  await window.lens("4.10 ms/step").first().waitFor();
  await window.goToLine(16, 27);
  await window.page.keyboard.press("F12");
  await window.activeTab("cabgated.py");
  await window.viewLine("triton_poi_fused_gelu_mul_sigmoid_0.run(").waitFor();
  const lens = window.lens("from model.py:");
  await lens.first().waitFor();
  await window.screenshot("generated");
  const fused = window.lens("4.10 ms/step").first();
  assert.match(await window.lineBelow(fused), /sigmoid_0\.run\(/);
  await fused.click();
  await until(
    async () => (await window.tabs()).active === "model.py" || (await window.peeks()),
    "the user's lines are offered",
  );
  await window.screenshot("generated-back");
});

scenario("a lens leads to the launch in the generated module", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").click();
  await window.activeTab("cabgated.py");
  await until(async () => /addmm/.test(await window.currentLine()), "the cursor is on the launch");
});

scenario(
  "a generated module of another version shows no numbers",
  {
    setUp: (place) => {
      place.storeRun();
      appendFileSync(join(place.workspace, MODULE), "# compiled anew\n");
    },
    file: MODULE,
  },
  async (window) => {
    await window.ready();
    assert.deepEqual(
      (await window.lenses()).filter((text) => text.includes("ms/step")),
      [],
    );
  },
);

scenario("the tree lists kernels, lines and findings, and its items jump", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.command("Ridgeline: Show Hot Kernels, Lines and Findings");
  const rows = await window.tree();
  const text = rows.join("\n");
  assert.match(text, /Kernels/);
  assert.match(text, /Lines/);
  assert.match(text, /Findings/);
  assert.match(text, /triton_poi_fused_gelu_mul_sigmoid_0/);
  await window.screenshot("tree");
  await window.treeItem("hidden-sync").or(window.treeItem("waited for")).first().click();
  await until(async () => (await window.position()).startsWith("Ln 30"), "the finding's line");
  await window.treeItem("triton_poi_fused").hover();
  await window.treeItem("triton_poi_fused").getByRole("button", { name: "Open Kernel File" }).click();
  await window.activeTab("cabgated.py");
});

scenario("the tree filters and sorts", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.command("Ridgeline: Show Hot Kernels, Lines and Findings");
  await window.tree();
  await window.command("Ridgeline: Filter…");
  await window.quickInput("gelu");
  await window.page.keyboard.press("Enter");
  await until(async () => !(await window.tree()).join("\n").includes("xmma_gemm"), "other kernels are gone");
  assert.match((await window.tree()).join("\n"), /fused_gelu/);
  await window.command("Ridgeline: Filter…");
  await window.quickInput("");
  await window.page.keyboard.press("Enter");
  await until(async () => (await window.tree()).join("\n").includes("xmma_gemm"), "all kernels are back");
  await window.command("Ridgeline: Sort…");
  await window.pick("Name");
  const kernels = async () => (await window.tree()).filter((row) => /xmma|triton_poi|Memcpy/.test(row));
  await until(async () => /^Memcpy/.test((await kernels())[0]), "Memcpy comes first by name");
});

scenario("Open Kernel File offers the generated kernels, hottest first", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.command("Ridgeline: Open Kernel File");
  const items = await window.quickPickItems();
  assert.match(items[0], /gemm_f32f32_tf32f32_f32_tn_n/);
  await window.pick("triton_poi_fused");
  await window.activeTab("cabgated.py");
});

scenario("the trace opens in a page from this machine", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  const opened = window.page.context().waitForEvent("page");
  await window.command("Ridgeline: Open Trace in Perfetto");
  const page = await opened;
  await page.waitForLoadState("domcontentloaded");
  assert.match(page.url(), /127\.0\.0\.1:\d+\/proxy\/\d+\//);
  await page.screenshot({ path: join(process.cwd(), "artifacts/screenshots/perfetto.png") }).catch(() => undefined);
});

scenario("the outline and the symbols list hot places", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.page.keyboard.press("Control+Shift+o");
  const items = await window.quickPickItems();
  assert.ok(
    items.some((item) => /ms/.test(item)),
    items.join("\n"),
  );
});

scenario(
  "ten thousand kernels: the first lens is there in time",
  { setUp: (place) => place.storeRun("--kernels", "10000") },
  async (window) => {
    const start = Date.now();
    await window.lens("5.20 ms/step").waitFor();
    console.log(`# first lens ${Date.now() - start} ms after the tab was active`);
    assert.ok((await window.lenses()).length <= 10);
  },
);
