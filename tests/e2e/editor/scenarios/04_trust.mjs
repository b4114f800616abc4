// A folder that is not trusted: saved profiles are shown, and nothing of the folder is run.
import assert from "node:assert/strict";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "../lib/paths.mjs";
import { session } from "../lib/scenario.mjs";

// The folder's own settings must not count, so what it may not choose stands in the machine's.
const store = scratch("trust");
const machine = { "ridgeline.python": null, "ridgeline.storage.path": store };

/** A folder that brings an interpreter along, which leaves a mark when it is run. */
function trap(place) {
  place.store = store;
  place.storeRun();
  place.write(".venv/bin/python", `#!/bin/sh\ntouch ${join(place.workspace, "was-run")}\nexec python3 "$@"\n`);
  chmodSync(join(place.workspace, ".venv/bin/python"), 0o755);
  const python = join(place.workspace, ".venv/bin/python");
  place.settings({
    "ridgeline.python": python,
    "ridgeline.server.python": python,
    "ridgeline.analysis.python": python,
  });
}

session(
  "an untrusted folder",
  { editor: "untrusted", start: { trust: true, machine }, setUp: trap },
  {
    "saved results are shown, and nothing of the folder is run": async (window, place) => {
      await window.lens("5.20 ms/step").waitFor();
      assert.equal(
        await window.page.locator(".editor-actions a[aria-label^='Profile This File']").count(),
        0,
        "no run button",
      );
      await window.command("Ridgeline: Profile This File");
      const toast = window.toast("is not trusted");
      await toast.waitFor();
      await window.screenshot("untrusted");
      assert.equal(existsSync(join(place.workspace, "was-run")), false, "the folder's interpreter was not run");
    },
  },
);
