// Measured by itself: a selected expression, and the kernels of a generated module.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { python } from "../lib/paths.mjs";
import { session, until } from "../lib/scenario.mjs";
import { processes } from "../lib/workbench.mjs";

const RUN_MS = 240_000;
const SLOW = "import time\n\nresult = time.sleep(611)\nother = undefined_name + 1\n";

/** A module that Inductor of this machine's torch writes. */
const MAKER = `
import sys, torch
from torch._inductor.utils import run_and_get_code

torch.set_num_threads(1)
_, codes = run_and_get_code(lambda: torch.compile(lambda x: torch.softmax(x.sin(), -1))(torch.randn(64, 512)))
open(sys.argv[1], "w").write(codes[0])
`;

function setUp(place) {
  place.storeRun();
  place.write("slow.py", SLOW);
  const folder = join(place.workspace, "torchinductor_e2e", "cd");
  mkdirSync(folder, { recursive: true });
  execFileSync(python, ["-c", MAKER, join(folder, "csoftmax.py")], { stdio: "ignore" });
}

const measuring = (window) => window.toast("Measuring");
const select = async (window, line, from, to) => {
  await window.goToLine(line, from);
  for (let i = from; i < to; i++) await window.page.keyboard.press("Shift+ArrowRight");
};

session(
  "measured by itself",
  { setUp },
  {
    "Time This Expression puts median and spread at the end of the line": async (window) => {
      await window.lens("5.20 ms/step").waitFor();
      await select(window, 25, 17, 37);
      await window.command("Ridgeline: Time This Expression");
      await window.toast("torch.randn(64, 512)").waitFor({ timeout: RUN_MS });
      const hint = await until(
        async () => /⏱/.test(await window.hint("batch =")) && window.hint("batch ="),
        "its time",
      );
      assert.match(hint, /^⏱ ~?\d+(\.\d+)? (ns|µs|ms)( ± .*)?$/);
      await window.screenshot("timed");
    },

    "a name that only the program knows is asked for": async (window) => {
      await window.openFile("slow.py");
      await select(window, 4, 9, 27);
      await window.command("Ridgeline: Time This Expression");
      await window.quickInput("undefined_name = 41");
      await window.page.keyboard.press("Enter");
      await until(async () => /⏱/.test(await window.hint("other =")), "its time", RUN_MS);
    },

    "a measurement is cancelled from its notification, and nothing of it is left": async (window) => {
      await window.openFile("slow.py");
      const running = () => processes().filter(({ command }) => command.includes("time.sleep(611)"));
      await select(window, 3, 10, 25);
      await window.command("Ridgeline: Time This Expression");
      await until(() => running().length > 0, "the measurement runs", RUN_MS);
      await measuring(window).hover();
      await window.screenshot("measuring");
      await window.press(measuring(window), "Cancel");
      await measuring(window).waitFor({ state: "detached" });
      await until(() => running().length === 0, "nothing is left", 30_000);
    },

    "a generated module offers what can be done with it, and shows what was measured above its kernels": async (
      window,
    ) => {
      await window.openFile("csoftmax.py");
      for (const offer of ["Profile this module", "Benchmark", "Verify autotune"])
        await window.lens(offer).first().waitFor();
      await window.lens("Benchmark").first().click();
      await window.toast(/alone: .*\((warm|cold)\)/).waitFor({ timeout: RUN_MS });
      const lens = window.lens("alone:").first();
      await lens.waitFor();
      assert.match(await window.lineBelow(lens), /cpp_fused.*async_compile/);
      await window.screenshot("benchmarked");
    },

    "the line under the cursor is found in the tree": async (window) => {
      await window.lens("5.20 ms/step").waitFor();
      await window.goToLine(14);
      await window.command("Ridgeline: Reveal Line in Hot Spots");
      const selected = window.page.locator(".tree-explorer-viewlet-tree-view .monaco-list-row.selected");
      await selected.filter({ hasText: "model.py:14" }).waitFor();
    },

    "the walkthrough leads through the first profile": async (window) => {
      await window.ready();
      await window.command("Welcome: Open Walkthrough");
      await window.pick("Kernel timings on your source lines");
      for (const step of ["Choose the interpreter", "Profile a file", "Read the lines", "Follow a line to its kernel"])
        await window.page.locator(".gettingStartedContainer").getByText(step).first().waitFor();
      await window.screenshot("walkthrough");
    },
  },
);
