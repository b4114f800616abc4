// Steps over time, the spread of the hottest kernels, memory over time.

import * as Plot from "@observablehq/plot";
import type { Kernel, Memory, Step } from "./data";
import { fold, h, place, quiet, section } from "./dom";
import { simple } from "./table";
import { duration, size } from "./units";

const HOTTEST = 15;

export function steps(rows: Step[]): HTMLElement | null {
  if (rows.length < 2) return null;
  const longest = Math.max(...rows.map((row) => row.wall));
  const [factor, unit] = scale(longest);
  const figure = Plot.plot({
    width: 860,
    height: 220,
    marginLeft: 60,
    x: { label: "step →", tickFormat: (at: number) => (Number.isInteger(at) ? String(at) : "") },
    y: { label: `↑ ${unit}`, grid: true },
    ariaLabel: "Wall time of each step, with the time that the device was busy",
    marks: [
      Plot.rectY(rows, {
        x1: (_: Step, i: number) => i + 0.1,
        x2: (_: Step, i: number) => i + 0.9,
        y: (row: Step) => row.wall * factor,
        fill: "var(--idle)",
        title: (row: Step) => `${row.name}: ${duration(row.wall)}, busy ${duration(row.busy)}, ${row.kernels} kernels`,
        tip: true,
      }),
      Plot.rectY(rows, {
        x1: (_: Step, i: number) => i + 0.1,
        x2: (_: Step, i: number) => i + 0.9,
        y: (row: Step) => (row.busy === null ? null : Math.min(row.busy, row.wall) * factor),
        fill: "var(--useful)",
      }),
      Plot.ruleY([0]),
    ],
  });
  return section(
    "Steps over time",
    h(
      "p",
      { class: "note" },
      "Dark: the device works on what the step launched. Light: the rest of the step's wall time.",
    ),
    h("div", { class: "chart" }, quiet(figure, "img")),
    fold(
      "The steps as a table",
      simple(
        "Steps",
        ["step", "wall time", "device busy", "kernels"],
        rows.slice(0, 500).map((row) => [row.name, duration(row.wall), duration(row.busy), String(row.kernels)]),
      ),
    ),
  );
}

/** Quartiles of one launch's time, least and most as whiskers; the figures stand in the table of kernels. */
export function spreads(kernels: Kernel[]): HTMLElement | null {
  const rows = kernels
    .filter((kernel) => kernel.spread[4] > kernel.spread[0])
    .slice(0, HOTTEST)
    .map((kernel, i) => ({ kernel, label: `${i + 1}. ${kernel.name.slice(0, 42)}`, spread: kernel.spread }));
  if (!rows.length) return null;
  type Row = (typeof rows)[number];
  const figure = Plot.plot({
    width: 860,
    height: 40 + 24 * rows.length,
    marginLeft: 330,
    x: { type: "log", label: "one launch, µs →", grid: true, tickFormat: "~g" },
    y: { domain: rows.map((row) => row.label), label: null },
    ariaLabel: "Spread of the hottest kernels' times: quartiles, least and most",
    marks: [
      Plot.ruleY(rows, {
        y: "label",
        x1: (row: Row) => row.spread[0],
        x2: (row: Row) => row.spread[4],
        stroke: "currentColor",
      }),
      Plot.barX(rows, {
        y: "label",
        x1: (row: Row) => row.spread[1],
        x2: (row: Row) => row.spread[3],
        fill: (row: Row) => `var(--${row.kernel.bound})`,
        insetTop: 4,
        insetBottom: 4,
        title: (row: Row) =>
          `${row.kernel.name.slice(0, 80)}\nmedian ${duration(row.spread[2])}, from ${duration(row.spread[0])} to ${duration(row.spread[4])}`,
        tip: true,
      }),
      Plot.tickX(rows, { y: "label", x: (row: Row) => row.spread[2], stroke: "currentColor", strokeWidth: 2 }),
    ],
  });
  return section(
    "How steady the hottest kernels are",
    h("p", { class: "note" }, "Box: half of the launches. Line: least to most. Stroke: median."),
    h("div", { class: "chart" }, quiet(figure, "img")),
  );
}

export function memory(found: Memory): HTMLElement {
  const [first, last] = [found.timeline[0], found.timeline.at(-1)];
  const [factor, unit] = (found.peak ?? 0) < 1e9 ? [1e-6, "MB"] : [1e-9, "GB"];
  const figure =
    first && last && last[0] > first[0]
      ? Plot.plot({
          width: 860,
          height: 240,
          marginLeft: 60,
          x: { label: "ms →" },
          y: { label: `↑ ${unit}`, grid: true },
          ariaLabel: `Allocated memory over time, at most ${size(found.peak)}`,
          marks: [
            Plot.areaY(found.timeline, {
              x: (p) => p[0] / 1e3,
              y: (p) => p[1] * factor,
              curve: "step-after",
              fill: "var(--memory)",
              fillOpacity: 0.3,
            }),
            Plot.lineY(found.timeline, {
              x: (p) => p[0] / 1e3,
              y: (p) => p[1] * factor,
              curve: "step-after",
              stroke: "var(--memory)",
              tip: true,
            }),
            Plot.ruleY([0]),
          ],
        })
      : null;
  return section(
    "Memory",
    h(
      "p",
      {},
      `At most ${size(found.peak)} allocated${found.reserved === null ? "" : `, ${size(found.reserved)} reserved`}${found.device < 0 ? ", on the host" : ""}.`,
    ),
    figure && h("div", { class: "chart" }, quiet(figure, "img")),
    found.top.length
      ? h("p", { class: "note" }, "Largest first, of what was allocated in the recording and alive at its peak.")
      : null,
    found.top.length
      ? simple(
          "Largest allocations at the peak",
          ["at the peak", "size", "operator"],
          found.top.map((row) => [place(row.place) ?? "no line known", size(row.bytes), row.op ?? "-"]),
          [0, 2],
        )
      : null,
  );
}

function scale(longest: number): [number, string] {
  if (longest < 1e3) return [1, "µs"];
  return longest < 1e6 ? [1e-3, "ms"] : [1e-6, "s"];
}
