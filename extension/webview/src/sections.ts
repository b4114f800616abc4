// The sections that are tables and words.

import type { Category, Change, Comparison, Device, Finding, Line, Op, Page, Range } from "./data";
import { bar, facts, fold, foldLater, h, MOST_DEVICES, named, place, section, unseen } from "./dom";
import { recall, remember } from "./host";
import { type Column, simple, Table } from "./table";
import { count, duration, percent, size } from "./units";

export function head(page: Page): HTMLElement {
  const { head: it } = page;
  const recorded = Object.entries(it.recorded_with)
    .filter(([, used]) => used)
    .map(([name]) => name);
  return h(
    "header",
    {},
    h("h1", {}, it.title),
    facts([
      [page.per, it.step === null ? null : duration(it.step)],
      ["unprofiled", it.plain_step === null || it.plain_step === it.step ? null : duration(it.plain_step)],
      [
        "under the profiler",
        it.recorded_step === null || it.recorded_step === it.step ? null : duration(it.recorded_step),
      ],
      ["steps recorded", it.steps === null ? null : String(it.steps)],
      ["device", page.devices.map((device) => device.name).join(", ")],
      ["recorded", it.created],
      ["with", recorded.join(", ")],
      ["torch", it.torch],
      ["revision", it.revision],
      ["ranks", it.ranks?.join(", ") ?? null],
      ["command", it.argv?.join(" ") ?? null],
      ["compilation (left out)", it.compile ? duration(it.compile) : null],
      ["warm-up (left out)", it.warmup ? duration(it.warmup) : null],
      ["profiler's overhead", it.overhead === null ? null : percent(it.overhead)],
      ["other processes on the device", it.others ? String(it.others) : null],
    ]),
  );
}

export function quality(page: Page): HTMLElement | null {
  if (!page.quality.length) return null;
  const list = h("ul");
  for (const warning of page.quality) list.append(h("li", {}, warning.message));
  return section("Before you trust the numbers", list);
}

export function breakdown(page: Page): HTMLElement {
  const more = page.devices.slice(MOST_DEVICES);
  return section(
    `Where the ${page.per} goes`,
    ...page.devices.slice(0, MOST_DEVICES).flatMap((device) => deviceParts(device, page)),
    more.length
      ? foldLater(`${more.length} more devices`, () => more.flatMap((device) => deviceParts(device, page)))
      : null,
    phases(page),
    categories("Categories", page.categories, page),
    categories("Categories of your own", page.own, page),
  );
}

function deviceParts(device: Device, page: Page): Node[] {
  const total = device.parts.reduce((sum, part) => sum + part.us, 0);
  if (!total) return [];
  const strip = h("div", { class: "strip", "aria-hidden": "true" });
  for (const part of device.parts) {
    const piece = h("span", { class: `fill ${part.name} ${part.group}`, title: `${part.label}: ${duration(part.us)}` });
    piece.style.width = `${(100 * part.us) / total}%`;
    strip.append(piece);
  }
  const rows = device.parts.map((part) => {
    const share = (100 * part.us) / total;
    const label = h(
      "span",
      {},
      h("span", { class: `swatch ${part.name} ${part.group}`, "aria-hidden": "true" }),
      part.label,
    );
    return [label, duration(part.us), percent(share), bar(share, `${part.name} ${part.group}`)];
  });
  return [
    h("h3", {}, named(device, page.devices)),
    h(
      "p",
      {},
      device.idle === null
        ? null
        : `Busy ${percent(100 - device.idle)} of the time; ${duration(total)} a ${page.per} in all.`,
    ),
    strip,
    simple(
      `Where the time of ${named(device, page.devices)} goes`,
      ["part", `time/${page.per}`, "share", unseen("share as a bar")],
      rows,
    ),
  ];
}

function phases(page: Page): HTMLElement | null {
  if (!page.phases) return null;
  const total = Object.values(page.phases).reduce((sum, us) => sum + us, 0);
  const rows = Object.entries(page.phases).map(([name, us]) => [name, duration(us), percent((100 * us) / total)]);
  return h(
    "div",
    {},
    h("h3", {}, "Forward, backward, optimizer"),
    h("p", { class: "note" }, "Of all device time, by the graph, the operator or the optimizer that launched it."),
    simple("Phases", ["phase", `time/${page.per}`, "share"], rows),
  );
}

function categories(title: string, found: Category[], page: Page): HTMLElement | null {
  if (!found.length) return null;
  const several = page.devices.length > 1;
  const rows = found.map((row) => [
    row.name.replaceAll("_", " ") + (several ? `, device ${row.device}` : ""),
    duration(row.us),
    percent(row.share),
    count(row.count),
    bar(row.share ?? 0, "useful"),
  ]);
  const titles = ["category", `time/${page.per}`, "share", "launches", unseen("share as a bar")];
  return h("div", {}, h("h3", {}, title), simple(title, titles, rows));
}

export function lines(page: Page): HTMLElement | null {
  const lost = page.unattributed;
  const reasons = lost.reasons.map(([name, us]) => `${name}: ${duration(us)}`).join("; ");
  const note =
    lost.us > 0
      ? h("p", { class: "note" }, `Without a line: ${percent(lost.share)} of device time (${reasons}).`)
      : null;
  if (!page.lines.length) return note && section("Lines", note);
  const table = new Table<Line>({
    caption: "Lines of the program",
    rows: page.lines,
    sort: 1,
    search: (row) => `${row.place} ${row.text ?? ""}`,
    columns: [
      { title: "line", value: (row) => row.place, cell: (row) => place(row.place), width: 28, text: true },
      {
        title: `time/${page.per}`,
        value: (row) => row.us,
        cell: (row) => duration(row.us),
        width: 9,
        hint: "of all that touches the line",
      },
      { title: "of step", value: (row) => row.share, cell: (row) => percent(row.share), width: 8 },
      { title: "calls", value: (row) => row.count, cell: (row) => count(row.count), width: 7 },
      { title: "backward", value: (row) => row.phase[1], cell: (row) => duration(row.phase[1]), width: 9 },
      { title: "source", value: (row) => row.text, cell: source, text: true },
    ],
  });
  return section("Lines", note, table.element);
}

function source(line: Line): Node {
  const said = line.function
    ? "the whole function"
    : line.shared_with.length
      ? `shared with ${line.shared_with
          .slice(0, 6)
          .map((n) => `L${n}`)
          .join(", ")}`
      : null;
  return h("span", {}, h("code", {}, line.text ?? ""), said && h("span", { class: "note" }, ` ${said}`));
}

export function operators(page: Page): HTMLElement | null {
  if (!page.ops.length) return null;
  const shapes = page.ops.some((op) => op.shapes);
  const holder = h("div");
  const show = (grouped: boolean) =>
    holder.replaceChildren(operatorTable(grouped ? merged(page.ops) : page.ops, !grouped, page.per));
  const box = h("input", { type: "checkbox", id: "by-shape", checked: recall<boolean>("by shape") ?? false });
  box.addEventListener("change", () => {
    remember("by shape", box.checked);
    show(!box.checked);
  });
  show(!box.checked);
  return section(
    "Operators",
    shapes ? h("p", {}, box, " ", h("label", { for: "by-shape" }, "one row a shape")) : null,
    holder,
  );
}

function operatorTable(rows: Op[], shapes: boolean, per: string): HTMLElement {
  return new Table<Op>({
    caption: "Operators",
    rows,
    // Self time on the device; on the host where there is no device.
    sort: shapes ? 2 : 1,
    search: (row) => `${row.name} ${row.shapes ?? ""} ${row.place ?? ""}`,
    columns: [
      { title: "operator", value: (row) => row.name, cell: (row) => row.name, text: true },
      ...(shapes
        ? [
            {
              title: "shapes",
              value: (row: Op) => row.shapes,
              cell: (row: Op) => row.shapes ?? "-",
              width: 34,
              text: true,
            },
          ]
        : []),
      ...deviceColumns(rows, [
        ["self device", (row) => row.self_device, 11, `a ${per}`],
        ["device", (row) => row.device, 9, "with the operators within"],
      ]),
      { title: "self host", value: (row) => row.self_cpu, cell: (row) => duration(row.self_cpu), width: 9 },
      { title: "host", value: (row) => row.cpu, cell: (row) => duration(row.cpu), width: 9 },
      { title: "calls", value: (row) => row.count, cell: (row) => count(row.count), width: 7 },
      {
        title: "host each",
        value: (row) => row.cpu / row.count,
        cell: (row) => duration(row.count ? row.cpu / row.count : null),
        width: 9,
      },
      ...deviceColumns(rows, [
        ["device each", (row) => (row.device === null || !row.count ? null : row.device / row.count), 11, ""],
      ]),
      ...memoryColumns(rows, per),
      ...(rows.some((row) => row.place)
        ? [{ title: "from", value: (row: Op) => row.place, cell: (row: Op) => place(row.place), width: 18, text: true }]
        : []),
    ],
  }).element;
}

type DeviceColumn = [title: string, value: (row: Op) => number | null, width: number, hint: string];

/** None on a machine without an accelerator, where the host is the device. */
function deviceColumns(rows: Op[], columns: DeviceColumn[]): Column<Op>[] {
  if (!rows.some((row) => row.device !== null)) return [];
  return columns.map(([title, value, width, hint]) => {
    return { title, value, cell: (row) => duration(value(row)), width, hint };
  });
}

/** What an operator itself allocated less what it freed, where memory was recorded. */
function memoryColumns(rows: Op[], per: string): Column<Op>[] {
  const found: Column<Op>[] = [];
  for (const [title, value] of [
    ["device memory", (row: Op) => row.self_device_bytes],
    ["host memory", (row: Op) => row.self_cpu_bytes],
  ] as const) {
    if (!rows.some((row) => value(row))) continue;
    found.push({
      title,
      value,
      cell: (row) => size(value(row)),
      width: 13,
      hint: `a ${per}: allocated less freed, by itself`,
    });
  }
  return found;
}

/** One row a name. What is unknown in every row stays unknown. */
function merged(ops: Op[]): Op[] {
  const rows = new Map<string, Op>();
  for (const op of ops) {
    const row = rows.get(op.name);
    if (!row) {
      rows.set(op.name, { ...op, shapes: null });
      continue;
    }
    row.count += op.count;
    row.self_cpu += op.self_cpu;
    row.cpu += op.cpu;
    row.self_device = sum(row.self_device, op.self_device);
    row.device = sum(row.device, op.device);
    row.self_cpu_bytes = sum(row.self_cpu_bytes, op.self_cpu_bytes);
    row.self_device_bytes = sum(row.self_device_bytes, op.self_device_bytes);
  }
  return [...rows.values()];
}

function sum(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : a + b;
}

export function ranges(page: Page): HTMLElement | null {
  if (!page.ranges.length) return null;
  const table = new Table<Range>({
    caption: "The program's own ranges",
    rows: page.ranges,
    sort: 1,
    columns: [
      { title: "range", value: (row) => row.name, cell: (row) => row.name, text: true },
      { title: `time/${page.per}`, value: (row) => row.wall, cell: (row) => duration(row.wall), width: 10 },
      { title: "device", value: (row) => row.device, cell: (row) => duration(row.device), width: 10 },
      { title: "calls", value: (row) => row.count, cell: (row) => count(row.count), width: 8 },
      { title: "from", value: (row) => row.place, cell: (row) => place(row.place), width: 26, text: true },
    ],
  });
  return section("Ranges (record_function)", table.element);
}

export function findings(page: Page): HTMLElement | null {
  if (!page.findings.length) return null;
  const weight = { warning: 0, information: 1, hint: 2 };
  const rank = (found: Finding) => weight[found.severity];
  const all = [...page.findings].sort((a, b) => (b.saving ?? 0) - (a.saving ?? 0) || rank(a) - rank(b));
  const list = h("ol", { class: "findings" });
  const hints = h("ol", { class: "findings" });
  for (const found of all) {
    if (found.code === "summary") continue;
    const gain = found.saving
      ? `saves ~${duration(found.saving)} a ${page.per}${found.gain === null ? "" : ` (${percent(found.gain)})`}${found.bound === null ? "" : `, at most ${duration(found.bound)}`}`
      : null;
    const item = h(
      "li",
      { class: found.severity },
      h("strong", {}, found.title),
      " ",
      found.place && h("span", { class: "place" }, place(found.place)),
      gain && h("span", { class: "gain" }, ` ${gain}`),
      h("p", {}, found.message),
      h("p", { class: "note" }, `${found.severity}: ${found.code}`),
    );
    (found.severity === "hint" ? hints : list).append(item);
  }
  const summary = page.findings.find((found) => found.code === "summary");
  return section(
    "Findings, by what they save",
    summary && h("p", {}, `${summary.title}. ${summary.message}`),
    list.children.length ? list : null,
    hints.children.length
      ? fold(hints.children.length === 1 ? "1 hint" : `${hints.children.length} hints`, hints)
      : null,
  );
}

export function comparison(found: Comparison): HTMLElement {
  const refused = h("ul");
  for (const reason of found.refused) refused.append(h("li", {}, reason));
  const resolved = h("ul");
  for (const one of found.resolved) resolved.append(h("li", {}, one));
  return section(
    `Compared with ${found.before}`,
    h("p", {}, sentence(found.step, "A step", found.basis) ?? "Wall time is not compared:"),
    found.refused.length ? refused : null,
    h("p", {}, sentence(found.device, "Device time", found.basis)),
    found.resolved.length ? h("p", {}, "Findings that are gone:") : null,
    found.resolved.length ? resolved : null,
    changes("Kernels compared", found.kernels, found.basis),
    fold("Lines", changes("Lines compared", found.lines, found.basis)),
    fold("Categories", changes("Categories compared", found.categories, found.basis)),
  );
}

function sentence(change: Change | null, what: string, basis: string): string | null {
  if (!change) return null;
  const verdict = change.verdict === "same" ? "no change beyond the noise" : change.verdict;
  return `${what}: ${duration(change.before)} before, ${duration(change.after)} after a ${basis} (${verdict}${change.pct === null ? "" : `, ${change.pct > 0 ? "+" : "−"}${percent(Math.abs(change.pct))}`}).`;
}

function changes(caption: string, rows: Change[], per: string): HTMLElement {
  return new Table<Change>({
    caption,
    rows,
    sort: 3,
    search: (row) => row.label,
    filters: [{ label: "verdict", value: (row) => row.verdict }],
    columns: [
      { title: "what", value: (row) => row.label, cell: (row) => row.label, text: true },
      { title: "before", value: (row) => row.before, cell: (row) => duration(row.before), width: 10, hint: `a ${per}` },
      { title: "after", value: (row) => row.after, cell: (row) => duration(row.after), width: 10, hint: `a ${per}` },
      {
        title: "change",
        value: (row) => Math.abs(row.delta),
        cell: (row) => `${row.delta > 0 ? "+" : ""}${duration(row.delta)}`,
        width: 10,
      },
      {
        title: "verdict",
        value: (row) => row.verdict,
        cell: (row) => h("span", { class: `badge ${row.verdict}` }, row.verdict),
        width: 11,
        text: true,
      },
    ],
  }).element;
}
