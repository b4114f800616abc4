// Draws the overview from the data in the page. Sections stand in the order in which a person asks.

import "./page.css";
import { memory, spreads, steps } from "./charts";
import type { Page } from "./data";
import { h, section } from "./dom";
import { hosted, recall, remember, settled } from "./host";
import { kernelDetail, kernelTable } from "./kernels";
import { roofline } from "./roofline";
import { breakdown, comparison, findings, head, lines, operators, quality, ranges } from "./sections";
import { whatif } from "./whatif";

const FORMAT = 1;

export function draw(page: Page, into: HTMLElement): void {
  if (page.format !== FORMAT) {
    into.replaceChildren(h("p", {}, "This page's script and data are of different versions; make the report again."));
    return;
  }
  const nav = h("nav", { "aria-label": "Contents" });
  const tables = [
    quality(page),
    breakdown(page),
    page.kernels.length ? section("Hot kernels", kernelTable(page)) : null,
    lines(page),
    operators(page),
    ranges(page),
    findings(page),
  ].filter(shown);
  into.replaceChildren(head(page), nav, ...tables);
  contents(nav, tables);
  // Tables first: the charts of ten thousand kernels would hold up the first paint.
  requestAnimationFrame(() =>
    setTimeout(() => {
      const charts = [
        ...roofline(page.devices, page.kernels, page.per, (kernel) => kernelDetail(kernel, page.per)),
        spreads(page.kernels),
        steps(page.stepRows),
        page.memory && memory(page.memory),
        page.comparison && comparison(page.comparison),
        whatif(page),
      ].filter(shown);
      into.append(...charts, foot(page));
      contents(nav, [...tables, ...charts]);
      scrollTo(0, recall<number>("scroll") ?? 0);
      addEventListener(
        "scroll",
        settled(() => remember("scroll", Math.round(scrollY))),
      );
    }),
  );
}

function shown(child: HTMLElement | null): child is HTMLElement {
  return child !== null;
}

function contents(nav: HTMLElement, sections: HTMLElement[]): void {
  const list = h("ul");
  for (const one of sections) {
    const heading = one.querySelector("h2");
    if (heading) list.append(h("li", {}, h("a", { href: `#${heading.id}` }, heading.textContent)));
  }
  // The editor has a theme of its own.
  nav.replaceChildren(...(hosted ? [list] : [list, themes()]));
}

function themes(): HTMLElement {
  const select = h("select", { "aria-label": "Theme" });
  for (const [value, label] of [
    ["", "theme of the system"],
    ["light", "light"],
    ["dark", "dark"],
    ["contrast", "high contrast"],
  ] as const) {
    select.append(h("option", { value }, label));
  }
  select.addEventListener("change", () => {
    if (select.value) document.documentElement.dataset.theme = select.value;
    else delete document.documentElement.dataset.theme;
  });
  return select;
}

function foot(page: Page): HTMLElement {
  const hidden = page.redacted
    ? ` ${page.redacted} ${page.redacted === 1 ? "text that looks" : "texts that look"} like secrets left out.`
    : "";
  return h(
    "footer",
    {},
    `Ridgeline ${page.version}. “~” marks estimates, “-” what is not known. Paths are relative to the program.${hidden}`,
  );
}

const data = document.getElementById("data");
const into = document.getElementById("page");
if (data && into) draw(JSON.parse(data.textContent ?? "") as Page, into);
