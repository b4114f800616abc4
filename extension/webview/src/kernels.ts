// The hot kernels, and all that is known of one.

import type { Kernel, Page } from "./data";
import { type Child, facts, h, place, places } from "./dom";
import { ask, traceable } from "./host";
import { Table } from "./table";
import { count, duration, percent, plain, size } from "./units";
import { outcome } from "./whatif";

export function kernelTable(page: Page): HTMLElement {
  const several = page.devices.length > 1;
  return new Table<Kernel>({
    caption: "Hot kernels",
    rows: page.kernels,
    sort: 1,
    search: (row) => `${row.name} ${row.symbol} ${row.places.join(" ")} ${row.aten.join(" ")}`,
    filters: [
      { label: "category", value: (row) => row.category },
      { label: "bound", value: (row) => row.bound },
      ...(several ? [{ label: "device", value: (row: Kernel) => String(row.device) }] : []),
    ],
    detail: (row) => kernelDetail(row, page.per),
    key: (row) => row.id,
    columns: [
      { title: "kernel", value: (row) => row.name, cell: (row) => row.name, text: true },
      { title: `time/${page.per}`, value: (row) => row.us, cell: (row) => duration(row.us), width: 11 },
      {
        title: "of step",
        value: (row) => row.step,
        cell: (row) => percent(row.step),
        width: 8,
        hint: "what the step would lose if the kernel took no time",
      },
      {
        title: "share",
        value: (row) => row.share,
        cell: (row) => percent(row.share),
        width: 7,
        hint: "of the device's summed time",
      },
      { title: "calls", value: (row) => row.count, cell: (row) => count(row.count), width: 7 },
      {
        title: "median",
        value: (row) => row.spread[2],
        cell: (row) => duration(row.spread[2]),
        width: 9,
        hint: "of one launch",
      },
      { title: "bound", value: (row) => row.bound, cell: bound, width: 13, text: true },
      {
        title: "memory",
        value: (row) => row.memory,
        cell: (row) => roof(row, row.memory),
        width: 8,
        hint: "of the memory roof",
      },
      {
        title: "compute",
        value: (row) => row.compute,
        cell: (row) => roof(row, row.compute),
        width: 8,
        hint: "of the compute roof",
      },
      { title: "from", value: (row) => row.places[0] ?? null, cell: from, width: 20, text: true },
    ],
  }).element;
}

export function kernelDetail(kernel: Kernel, per: string): HTMLElement {
  const [least, q1, median, q3, most] = kernel.spread;
  const tuned = kernel.autotune;
  return h(
    "article",
    { class: "card" },
    h("h3", {}, kernel.name),
    kernel.symbol !== kernel.name && h("p", { class: "symbol" }, kernel.symbol),
    kernel.reason && h("p", {}, kernel.reason),
    facts([
      [`time a ${per}`, `${duration(kernel.us)} in ${count(kernel.count)} launches`],
      ["of the step", percent(kernel.step)],
      [
        "one launch",
        `median ${duration(median)}, half within ${duration(q1)} and ${duration(q3)}, all within ${duration(least)} and ${duration(most)}`,
      ],
      [
        "moved and done",
        kernel.bytes === null
          ? null
          : `${size(kernel.bytes)}, ${kernel.flops === null ? "FLOPs not known" : `${plain(kernel.flops / 1e9, "GFLOP")}`}`,
      ],
      ["reached", kernel.gbs === null ? null : `${plain(kernel.gbs, "GB/s")}, ${plain(kernel.tflops, "TFLOP/s")}`],
      [
        "launched as",
        kernel.grid && kernel.block ? `grid ${kernel.grid.join("×")}, block ${kernel.block.join("×")}` : null,
      ],
      ["waves", kernel.waves === null ? null : plain(kernel.waves)],
      ["registers", kernel.registers === null ? null : String(kernel.registers)],
      ["shared memory", kernel.shared === null ? null : size(kernel.shared)],
      ["configuration", kernel.config],
      ["operators", kernel.aten.join(", ")],
      ["from", places(kernel.places)],
      ["generated code", places(kernel.generated)],
      [
        "autotune",
        tuned &&
          `${tuned.status.replaceAll("_", " ")}${tuned.speedup === null ? "" : `, ${plain(tuned.speedup)}×`}${tuned.config ? ` with ${tuned.config}` : ""}`,
      ],
    ]),
    kernel.half && outcome({ ...kernel.half, label: "twice as fast" }, per),
    traceable && traced(kernel),
  );
}

function bound(kernel: Kernel): Node | string {
  if (kernel.bound === "unknown") return "-";
  return h(
    "span",
    { class: `badge ${kernel.bound}` },
    `${kernel.estimated ? "~" : ""}${kernel.bound}${kernel.borderline ? "?" : ""}`,
  );
}

function roof(kernel: Kernel, share: number | null): string {
  return share === null ? "-" : `${kernel.estimated ? "~" : ""}${percent(share)}`;
}

function from(kernel: Kernel): Child {
  const [first, ...more] = kernel.places;
  return first ? h("span", { title: first }, place(first), more.length ? ` +${more.length}` : null) : null;
}

function traced(kernel: Kernel): Node {
  const button = h("button", { type: "button", class: "action" }, "Open in Perfetto");
  button.addEventListener("click", () => ask({ trace: kernel.id }));
  return h("p", {}, button);
}
