// The roofline (Williams, Waterman and Patterson 2009): what a kernel reaches against what its device could give it.

import * as Plot from "@observablehq/plot";
import type { Device, Kernel, Roof } from "./data";
import { foldLater, h, MOST_DEVICES, named, quiet, section } from "./dom";
import { ask, hosted } from "./host";
import { duration, percent, plain, three } from "./units";

/** Kernels beyond these, the hottest first, are left to the table: circles nobody can tell apart. */
const MOST_POINTS = 1500;

/** Above this part of the highest roof a rate is no measurement: what is counted for the kernel is not its own. */
const MOST_OF_A_ROOF = 1.05;

interface Point {
  x: number;
  y: number;
  kernel: Kernel;
}

export function roofline(
  devices: Device[],
  kernels: Kernel[],
  per: string,
  show: (kernel: Kernel) => Node,
): HTMLElement[] {
  const of = (device: Device) => {
    const mine = kernels.filter((kernel) => kernel.device === device.id);
    const most = (MOST_OF_A_ROOF / 1e12) * Math.max(...device.roofs.flatMap((roof) => Object.values(roof.flops)));
    const points = mine
      .filter((kernel) => (kernel.intensity ?? 0) > 0 && (kernel.tflops ?? 0) > 0 && (kernel.tflops ?? 0) <= most)
      .map((kernel) => ({ x: kernel.intensity as number, y: kernel.tflops as number, kernel }));
    const title = `Roofline of ${named(device, devices)}`;
    return device.roofs.length && points.length ? [chart(title, device, mine, points, per, show)] : [];
  };
  const [first, more] = [devices.slice(0, MOST_DEVICES), devices.slice(MOST_DEVICES)];
  const rest = more.length
    ? [
        section(
          "Rooflines of the other devices",
          foldLater(`${more.length} more`, () => more.flatMap(of)),
        ),
      ]
    : [];
  return [...first.flatMap(of), ...rest];
}

function chart(
  title: string,
  device: Device,
  mine: Kernel[],
  all: Point[],
  per: string,
  show: (kernel: Kernel) => Node,
): HTMLElement {
  const points = all.slice(0, MOST_POINTS);
  const low = Math.min(0.1, ...points.map((point) => point.x / 2));
  const high = Math.max(1e4, ...points.map((point) => point.x * 2));
  const roofs = device.roofs.flatMap((roof) => lines(roof, low, high));
  const figure = Plot.plot({
    width: 860,
    height: 460,
    marginLeft: 60,
    marginRight: 150,
    x: { type: "log", label: "FLOP per byte →", domain: [low, high], grid: true, tickFormat: power },
    y: { type: "log", label: "↑ TFLOP/s", grid: true, tickFormat: power },
    r: { range: [0, 22] },
    ariaLabel: title,
    ariaDescription: "The kernels stand in the table of hot kernels as well.",
    marks: [
      ...[true, false].map((measured) =>
        Plot.line(
          roofs.filter((place) => place.measured === measured),
          {
            x: "x",
            y: "y",
            z: "z",
            stroke: "currentColor",
            strokeWidth: 1.5,
            strokeDasharray: measured ? "none" : "5 4",
          },
        ),
      ),
      Plot.dot(points, {
        x: "x",
        y: "y",
        r: (point: Point) => point.kernel.us,
        fill: (point: Point) => `var(--${point.kernel.bound})`,
        fillOpacity: 0.55,
        stroke: (point: Point) => `var(--${point.kernel.bound})`,
        strokeWidth: 1.5,
        sort: null,
        ariaLabel: (point: Point) => words(point.kernel, per),
      }),
      ...[true, false].map((measured) =>
        Plot.text(
          roofs.filter((place) => place.label && place.measured === measured),
          // Measured ones within the frame, the datasheet's beside it: the two are often a line's height apart.
          {
            x: "x",
            y: "y",
            text: "label",
            textAnchor: measured ? "end" : "start",
            dx: measured ? -4 : 6,
            dy: measured ? 8 : 0,
            fill: "currentColor",
            stroke: "var(--back)",
            strokeWidth: 3,
          },
        ),
      ),
      Plot.tip(points, Plot.pointer({ x: "x", y: "y", title: (point: Point) => words(point.kernel, per) })),
    ],
  });
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  reachable(figure, points, (point) => detail.replaceChildren(show(point.kernel)));
  return section(
    title,
    h("p", { class: "note" }, note(device, mine, all, points)),
    h(
      "p",
      { class: "note" },
      `Tab to the kernels, the arrow keys go from the hottest to the next, Enter shows one.${hosted ? " A click shows its line in the code as well." : ""}`,
    ),
    legend(),
    h("div", { class: "chart" }, figure),
    detail,
  );
}

interface Place {
  x: number;
  y: number;
  z: string;
  measured: boolean;
  label: string | null;
}

/** The slope of the memory and one ceiling a rate; types of one rate share a line. */
function lines(roof: Roof, low: number, high: number): Place[] {
  const names = new Map<number, string[]>();
  for (const [name, rate] of Object.entries(roof.flops)) names.set(rate, [...(names.get(rate) ?? []), name]);
  const measured = roof.source === "measured";
  return [...names].flatMap(([rate, types]) => {
    const top = rate / 1e12;
    const slope = roof.bandwidth / 1e3;
    const z = `${roof.source} ${types.join()}`;
    const label = `${types.join(", ")} ${three(top)}${measured ? "" : " (datasheet)"}`;
    const ridge = Math.max(low, top / slope);
    return [
      { x: low, y: low * slope, z, measured, label: null },
      { x: ridge, y: top, z, measured, label: null },
      { x: Math.max(high, ridge), y: top, z, measured, label },
    ];
  });
}

/** One tab stop for all points; arrow keys go on in order of time. */
function reachable(figure: Element, points: Point[], choose: (point: Point) => void): void {
  const circles = [...figure.querySelectorAll<SVGCircleElement>('g[aria-label="dot"] circle')];
  quiet(figure, "group");
  circles.forEach((circle, index) => {
    circle.setAttribute("tabindex", index ? "-1" : "0");
    circle.setAttribute("role", "button");
    circle.addEventListener("click", () => {
      const point = points[index] as Point;
      choose(point);
      if (point.kernel.places[0]) ask({ open: point.kernel.places[0], glance: true });
    });
    circle.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[
        event.key
      ];
      if (event.key === "Enter" || event.key === " ") choose(points[index] as Point);
      else if (step === undefined) return;
      event.preventDefault();
      const next = circles[Math.max(0, Math.min(circles.length - 1, index + (step ?? 0)))];
      circle.setAttribute("tabindex", "-1");
      next?.setAttribute("tabindex", "0");
      next?.focus();
    });
  });
}

export function words(kernel: Kernel, per: string): string {
  const mark = kernel.estimated ? "~" : "";
  return [
    kernel.name.length > 70 ? `${kernel.name.slice(0, 69)}…` : kernel.name,
    `${duration(kernel.us)} a ${per}, ${percent(kernel.share)} of device time`,
    `${mark}${kernel.bound} bound${kernel.borderline ? "?" : ""}${kernel.resource ? ` (${kernel.resource.replaceAll("_", " ")})` : ""}`,
    `${plain(kernel.tflops, "TFLOP/s")}, ${plain(kernel.gbs, "GB/s")}, ${plain(kernel.intensity, "FLOP/B")}`,
  ].join("\n");
}

function note(device: Device, mine: Kernel[], all: Point[], shown: Point[]): string {
  const total = mine.reduce((sum, kernel) => sum + kernel.us, 0);
  const placed = shown.reduce((sum, point) => sum + point.kernel.us, 0);
  const sources = device.roofs.map((roof) =>
    roof.source === "measured"
      ? `measured on this device: ${three(roof.bandwidth)} GB/s (solid)`
      : `from the vendor's datasheet: ${three(roof.bandwidth)} GB/s (dashed)`,
  );
  const rest = mine.length - all.length;
  return [
    `Roofs ${sources.join("; ")}.`,
    `${shown.length} of ${mine.length} kernels (${percent(total ? (100 * placed) / total : null)} of device time).`,
    rest ? `Of ${rest} either FLOPs or bytes are none or not known for sure.` : "",
    all.length > shown.length ? `The ${all.length - shown.length} shortest are left to the table.` : "",
  ].join(" ");
}

function legend(): HTMLElement {
  const list = h("ul", { class: "legend" });
  for (const bound of ["memory", "compute", "latency", "unknown"]) {
    list.append(
      h(
        "li",
        {},
        h("span", { class: `swatch ${bound}`, "aria-hidden": "true" }),
        `${bound} bound`.replace("unknown bound", "not known"),
      ),
    );
  }
  return list;
}

function power(value: number): string {
  const exponent = Math.log10(value);
  if (Math.abs(exponent - Math.round(exponent)) > 1e-6) return "";
  return value >= 0.001 && value < 1e4 ? String(Number(value.toPrecision(2))) : `1e${Math.round(exponent)}`;
}
