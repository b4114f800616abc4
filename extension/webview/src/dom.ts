// Elements from values. Text only ever becomes text: whatever a trace holds is not trusted to be markup.

import { ask, hosted, recall, remember } from "./host";

export type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | null> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Devices that are shown at once; those of more ranks are there when asked for. */
export const MOST_DEVICES = 4;

/** A device by its name; by its number as well where there are several. */
export function named(device: { id: number; name: string }, all: unknown[]): string {
  return all.length > 1 ? `${device.name} (device ${device.id})` : device.name;
}

let last = 0;

/** A section with its heading, found by both in the table of contents and by screen readers as a region. */
export function section(title: string, ...children: Child[]): HTMLElement {
  const id = `section-${++last}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function unique(prefix: string): string {
  return `${prefix}-${++last}`;
}

/** A bar of `share` per cent that says nothing to screen readers; the figure stands beside it. */
export function bar(share: number, kind: string): HTMLElement {
  const fill = h("span", { class: `fill ${kind}` });
  fill.style.width = `${Math.max(0, Math.min(100, share))}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** Plot labels its groups, which have no role that may be labelled; the drawing as a whole has its label. */
export function quiet(figure: Element, role: "img" | "group"): Element {
  for (const group of figure.querySelectorAll("g")) group.removeAttribute("aria-label");
  const drawing = figure instanceof SVGElement ? figure : figure.querySelector("svg");
  drawing?.setAttribute("role", role);
  return figure;
}

/** What only screen readers say. */
export function unseen(text: string): HTMLElement {
  return h("span", { class: "unseen" }, text);
}

/** `model.py:14`: within the editor a button that goes there. */
export function place(text: string | null): Child {
  if (!text || !hosted) return text;
  const button = h("button", { type: "button", class: "place", title: "Go to the line" }, text);
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    ask({ open: text });
  });
  return button;
}

/** Several places, with commas between them. */
export function places(texts: string[]): Child {
  if (!texts.length) return null;
  return h("span", {}, ...texts.flatMap((text, index) => [index ? ", " : null, place(text)]));
}

/** What is shown when asked for; it stays as it was left. */
export function fold(title: string, ...content: Node[]): HTMLDetailsElement {
  const key = `fold ${title}`;
  const details = h("details", { open: recall<boolean>(key) ?? false }, h("summary", {}, title), ...content);
  details.addEventListener("toggle", () => remember(key, details.open));
  return details;
}

/** As {@link fold}, of what is not worth making before somebody looks. */
export function foldLater(title: string, make: () => Node[]): HTMLElement {
  const details = fold(title);
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(...make());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

export function facts(rows: [string, Child][]): HTMLElement {
  const list = h("dl", { class: "facts" });
  for (const [name, value] of rows) if (value) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  return list;
}
