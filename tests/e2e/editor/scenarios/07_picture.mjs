// The READMEs' picture, of a real run; made where RIDGELINE_PICTURES is set, for compiling the example takes a while.
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/paths.mjs";
import { session } from "../lib/scenario.mjs";

const EXAMPLE = "compiled_transformer.py";
const HOT = "F.silu(self.gate(h))";

if (process.env.RIDGELINE_PICTURES)
  session(
    "the picture",
    {
      setUp: (place) => cpSync(join(root, "examples", EXAMPLE), join(place.workspace, EXAMPLE)),
      file: EXAMPLE,
      timeout: 600_000,
    },
    {
      "an example with its lenses, hints, hover and Problems": async (window, place) => {
        place.settings({ "editor.hover.above": false });
        await window.ready();
        await window.page.locator(".editor-actions a[aria-label^='Profile This File']").first().click();
        await window.toast("Profiling").waitFor();
        await window.toast("Profiling").waitFor({ state: "detached", timeout: 500_000 });
        await window.lens("/step").first().waitFor({ state: "attached" });
        await window.problems();
        await window.command("Notifications: Clear All");
        await window.command("View: Toggle Primary Side Bar Visibility");
        const lines = readFileSync(join(place.workspace, EXAMPLE), "utf8").split("\n");
        await window.goToLine(lines.findIndex((line) => line.includes(HOT)) + 1, 60);
        await window.lens("/step").filter({ visible: true }).first().waitFor();
        const hover = await window.hover(HOT, "silu");
        await hover.filter({ hasText: "/step" }).first().waitFor();
        await window.screenshot("picture");
      },
    },
  );
