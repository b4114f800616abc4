// What if: reckoned in Python (ridgeline/report/whatif.py), with bounds and the assumptions named.

import type { Outcome, Page } from "./data";
import { h, section, unique } from "./dom";
import { duration, percent } from "./units";

const SELECTABLE = 200;

export function whatif(page: Page): HTMLElement | null {
  const step = page.head.step;
  const halves = page.kernels.filter((kernel) => kernel.half).slice(0, SELECTABLE);
  const gpus = page.whatif.filter((found) => found.name.startsWith("gpu:"));
  const whole = page.whatif.filter((found) => !found.name.startsWith("gpu:"));
  if (step === null || (!halves.length && !page.whatif.length)) return null;
  return section(
    "What if",
    h(
      "p",
      { class: "note" },
      `Now: ${duration(step)} a ${page.per}, as recorded. Bounds first; an estimate only where one can be defended.`,
    ),
    halves.length
      ? choice(
          "A kernel twice as fast",
          halves.map((kernel) => ({ ...(kernel.half as Outcome), label: kernel.name })),
          page,
          step,
        )
      : null,
    ...whole.map((found) => h("div", { class: "card" }, outcome(found, page.per, step))),
    gpus.length ? choice("Another GPU", gpus, page, step) : null,
  );
}

function choice(title: string, found: Outcome[], page: Page, step: number): HTMLElement {
  const id = unique("whatif");
  const select = h("select", { id });
  found.forEach((one, index) => {
    select.append(h("option", { value: index }, one.label.length > 80 ? `${one.label.slice(0, 79)}…` : one.label));
  });
  const result = h("div", { "aria-live": "polite" });
  const show = () => result.replaceChildren(outcome(found[Number(select.value)] as Outcome, page.per, step));
  select.addEventListener("change", show);
  show();
  return h("div", { class: "card" }, h("p", {}, h("label", { for: id }, `${title} `), select), result);
}

export function outcome(found: Outcome, per: string, step?: number): HTMLElement {
  const range =
    Math.abs(found.high - found.low) < 0.5 ? duration(found.high) : `${duration(found.low)} to ${duration(found.high)}`;
  const change = step && found.estimate !== null ? ` (${signed(100 * (found.estimate / step - 1))})` : "";
  const still = range === (step === undefined ? "" : duration(step));
  const guess = found.estimate === null ? "no estimate" : `~${duration(found.estimate)}${change}`;
  const list = h("ul", { class: "assumptions" });
  for (const assumption of found.assumptions) list.append(h("li", {}, assumption));
  return h(
    "div",
    { class: "outcome" },
    h("p", {}, h("strong", {}, found.label), still ? ": no change" : `: ${guess}, between bounds of ${range} a ${per}`),
    list,
  );
}

function signed(change: number): string {
  return Math.abs(change) < 0.05 ? "no change" : `${change > 0 ? "+" : "−"}${percent(Math.abs(change))}`;
}
