// What a stored run shows on the lines.
import assert from "node:assert/strict";
import { scenario } from "../lib/scenario.mjs";

scenario("a stored run shows lenses, hints, hover and problems", { setUp: (place) => place.storeRun() }, async (window) => {
  const lens = window.lens("5.20 ms/step");
  await lens.first().waitFor();
  assert.match(await window.lineBelow(lens), /self\.up\(x\)/);
  console.log(await window.lenses());
  await window.screenshot("stored-lenses");
});
