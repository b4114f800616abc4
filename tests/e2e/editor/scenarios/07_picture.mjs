// The READMEs' picture, of a run that was recorded on an H200; made where RIDGELINE_PICTURES is set.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { here, python } from "../lib/paths.mjs";
import { session } from "../lib/scenario.mjs";

const NAME = "encoder_train";
const HOT = "score = q @ k.transpose";

if (process.env.RIDGELINE_PICTURES)
  session(
    "the picture",
    {
      setUp: (place) => {
        execFileSync(python, [join(here, "recorded_run.py"), NAME, place.workspace, place.store]);
        place.settings({ "editor.hover.above": false, "editor.stickyScroll.enabled": false });
      },
      file: `${NAME}.py`,
    },
    {
      "a recorded run with its lenses, hints, hover and Problems": async (window, place) => {
        await window.lens("/step").first().waitFor({ state: "attached" });
        await window.problems();
        await window.command("View: Toggle Primary Side Bar Visibility");
        const lines = readFileSync(join(place.workspace, `${NAME}.py`), "utf8").split("\n");
        await window.goToLine(lines.findIndex((line) => line.includes(HOT)) + 1, 60);
        await window.lens("/step").filter({ visible: true }).first().waitFor();
        const hover = await window.hover(HOT, "transpose");
        await hover.filter({ hasText: "/step" }).first().waitFor();
        await window.screenshot("picture");
      },
    },
  );
