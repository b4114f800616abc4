// A folder that is not trusted: saved profiles are shown, and nothing of the folder is run.
import assert from "node:assert/strict";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { scenario, until } from "../lib/scenario.mjs";

const untrusted = { editor: "untrusted", start: { trust: true, machine: { "ridgeline.python": null } } };

/** A folder that brings an interpreter along, which leaves a mark when it is run. */
function trap(place) {
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

scenario(
  "an untrusted folder shows saved results, and runs nothing of its own",
  {
    ...untrusted,
    setUp: (place) => {
      trap(place);
    },
  },
  async (window, place) => {
    await window.ready();
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
);
