// What a stored run shows on the lines, and how it follows edits.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scenario, until } from "../lib/scenario.mjs";

const stored = (place) => place.storeRun();

scenario(
  "lenses stand above the hot lines, and say what is shared and estimated",
  { setUp: stored },
  async (window) => {
    await window.lens("5.20 ms/step").waitFor();
    assert.match(await window.lineBelow(window.lens("5.20 ms/step")), /self\.up\(x\)/);
    assert.match(await window.lineBelow(window.lens("3.10 ms/step")), /self\.down/);
    const texts = await window.lenses();
    const gelu = texts.find((text) => text.startsWith("4.10 ms/step"));
    assert.match(gelu, /16(\.\d)? % of step · ~memory bound · shared with L\d+/);
    assert.equal(texts.filter((text) => text.includes("~compute bound")).length, 2);
    await window.screenshot("lines");
  },
);

scenario("hints stand at the ends of lines, short", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  assert.match(await window.hint("self.up(x)"), /^5\.20 ms · 2\d(\.\d)? %$/);
  const gate = await window.hint("torch.sigmoid");
  assert.match(gate, /^4\.10 ms · 16(\.\d)? % · ~1\.2×$/);
});

scenario(
  "the hover has at most eight lines, the reason, an action and where the numbers come from",
  { setUp: stored },
  async (window) => {
    await window.lens("4.10 ms/step").first().waitFor();
    const hover = await window.hover("hidden * torch.sigmoid", "sigmoid");
    const ours = hover.filter({ hasText: "4.10 ms/step" });
    await ours.waitFor();
    const lines = (await ours.innerText()).split("\n").filter((line) => line.trim());
    assert.ok(lines.length <= 8, lines.join("\n"));
    const text = lines.join("\n").replaceAll("\u00a0", " ");
    assert.match(text, /84 % of the measured bandwidth/);
    assert.match(text, /triton_poi_fused_gelu_mul_sigmoid_0/);
    assert.match(text, /→ Another configuration may be faster/);
    assert.match(lines.at(-1), /NVIDIA H200.*10 steps.*overhead 3/);
    await window.screenshot("hover");
  },
);

scenario(
  "findings are in the Problems panel with their code, and lead to their line",
  { setUp: stored },
  async (window) => {
    const problems = await window.problems();
    const sync = problems.find((row) => row.includes("hidden-sync"));
    assert.match(sync, /waits for the device/i);
    assert.ok(problems.some((row) => row.includes("autotune-candidate")));
    await window.screenshot("problems");
    await window.page.locator(".markers-panel .monaco-list-row", { hasText: "hidden-sync" }).click();
    await until(async () => (await window.position()).startsWith("Ln 30"), "the cursor is on the line of .item()");
  },
);

scenario(
  "the heat map marks hot lines in gutter and overview ruler, and can be switched off",
  { setUp: stored },
  async (window) => {
    await until(async () => (await window.gutter()).length === 4, "four gutter bars");
    const bars = await window.gutter();
    assert.equal(new Set(bars.map((bar) => bar.image)).size, 2, "20 % and 16 % and 12 % share a bucket or two");
    await window.command("Ridgeline: Toggle Annotations…");
    await window.pick("Heat map");
    await window.page.keyboard.press("Enter");
    await until(async () => (await window.gutter()).length === 0, "no gutter bars");
    assert.ok((await window.lenses()).length > 0, "the lenses stay");
  },
);

scenario(
  "each kind of annotation has its own switch",
  {
    setUp: (place) => {
      place.storeRun();
      place.settings({ "ridgeline.annotations.lenses": false, "ridgeline.annotations.diagnostics": false });
    },
  },
  async (window) => {
    assert.match(await window.hint("self.up(x)"), /5\.20 ms/);
    assert.deepEqual(await window.lenses(), []);
    await window.page.keyboard.press("Control+Shift+m");
    await window.page.getByText("No problems have been detected").waitFor();
  },
);

scenario("numbers follow edits, and go stale where the line itself was changed", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.typeAt(3, 1, "# one\n# two\n# three\n");
  await until(
    async () => /self\.up\(x\)/.test(await window.lineBelow(window.lens("5.20 ms/step"))),
    "the lens moved along",
  );
  assert.equal((await window.gutter()).length, 4);
  await window.typeAt(17, 30, "  # edited");
  await window.lens("edited since").waitFor();
  assert.match(await window.lineBelow(window.lens("edited since")), /self\.up\(x\)/);
  await until(
    async () => (await window.gutter()).some((bar) => bar.image.includes("stale")),
    "a stale bar in the gutter",
  );
  await window.screenshot("stale");
  for (let i = 0; i < 4; i++) await window.page.keyboard.press("Control+z");
  await window.lens("edited since").waitFor({ state: "detached" });
});

scenario(
  "a file that was changed on disk keeps its numbers on the right lines",
  { setUp: stored },
  async (window, place) => {
    await window.lens("5.20 ms/step").waitFor();
    const file = join(place.workspace, "model.py");
    const lines = readFileSync(file, "utf8").split("\n");
    const moved = [
      "# from another branch",
      "import os",
      ...lines.slice(0, 12),
      "    # a comment in between",
      ...lines.slice(12),
    ];
    writeFileSync(file, moved.join("\n"));
    await window.viewLine("from another branch").waitFor();
    await until(
      async () => /self\.up\(x\)/.test(await window.lineBelow(window.lens("5.20 ms/step"))),
      "the lens is on its line",
    );
  },
);

scenario("results come back when the window is loaded again", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  const before = await window.lenses();
  await window.load("model.py");
  await window.lens("5.20 ms/step").waitFor();
  assert.deepEqual(await window.lenses(), before);
});

scenario("a run that appears in the store is shown by itself", {}, async (window, place) => {
  await window.ready();
  assert.deepEqual(await window.lenses(), []);
  place.storeRun();
  await window.lens("5.20 ms/step").waitFor();
});

scenario("results can be cleared, and stay cleared", { setUp: stored }, async (window) => {
  await window.lens("5.20 ms/step").waitFor();
  await window.command("Ridgeline: Clear Results");
  await window.lens("5.20 ms/step").waitFor({ state: "detached" });
  assert.equal((await window.gutter()).length, 0);
  await window.load("model.py");
  await window.ready();
  assert.deepEqual(await window.lenses(), []);
});

for (const theme of ["Default High Contrast", "Default High Contrast Light", "Default Light Modern"]) {
  scenario(
    `the heat map is readable in ${theme}`,
    {
      setUp: (place) => {
        place.storeRun();
        place.settings({ "workbench.colorTheme": theme });
      },
    },
    async (window) => {
      await window.lens("5.20 ms/step").waitFor();
      await until(async () => (await window.gutter()).length === 4, "four gutter bars");
      await window.screenshot(`theme-${theme.toLowerCase().replaceAll(" ", "-")}`);
    },
  );
}
