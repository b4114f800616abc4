// A table that sorts, filters and searches, and holds only the rows in sight: ten thousand cost what fifty do.

import { type Child, h, unique } from "./dom";
import { recall, remember, settled } from "./host";

export interface Column<T> {
  title: string;
  /** What it sorts by; unknown values go last whichever way. */
  value: (row: T) => number | string | null;
  cell: (row: T) => Child;
  /** In characters, the padding among them; the one column without takes what is left. */
  width?: number;
  hint?: string;
  /** Texts begin at the left, numbers end at the right. */
  text?: boolean;
}

export interface Filter<T> {
  label: string;
  value: (row: T) => string;
}

export interface Options<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  /** Index of the column to sort by at first, largest first. */
  sort: number;
  search?: (row: T) => string;
  filters?: Filter<T>[];
  /** Shown under the table for the row that is chosen. */
  detail?: (row: T) => Node;
  /** What tells that row again among those of another run. */
  key?: (row: T) => string;
}

/** How a person left it. */
interface Kept {
  title: string | undefined;
  descending: boolean;
  search: string;
  chosen: string[];
  top: number;
  row: string | null;
}

const ROW = 30;
const OVERSCAN = 12;
const MOST_HEIGHT = 480;

export class Table<T> {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly region: HTMLElement;
  private readonly status = h("output", { class: "status" });
  private readonly detail = h("div", { class: "detail", "aria-live": "polite" });
  private readonly headers: HTMLTableCellElement[] = [];
  private readonly texts: string[] | undefined;
  private readonly chosen: string[];
  /** All rows in order, */
  private sorted: number[] = [];
  /** and those of them that the filters leave. */
  private view: number[] = [];
  private words: string[] = [];
  private column: number;
  private descending = true;
  private active = 0;
  private first = -1;
  private search = "";
  private shown: string | null = null;
  private readonly keep: () => void;

  constructor(private readonly options: Options<T>) {
    const kept = recall<Kept>(`table ${options.caption}`);
    const sorted = options.columns.findIndex((column) => column.title === kept?.title);
    this.column = sorted < 0 ? options.sort : sorted;
    this.descending = sorted < 0 || (kept?.descending ?? true);
    this.search = (options.search && kept?.search) || "";
    this.words = words(this.search);
    this.keep = settled(() => remember(`table ${options.caption}`, this.state()));
    this.texts = options.search && options.rows.map((row) => options.search?.(row).toLowerCase() ?? "");
    this.chosen = (options.filters ?? []).map((filter, index) => {
      const value = kept?.chosen[index] ?? "";
      return options.rows.some((row) => filter.value(row) === value) ? value : "";
    });
    const table = h(
      "table",
      { class: "virtual", "aria-rowcount": options.rows.length + 1 },
      h("caption", { class: "unseen" }, options.caption),
      this.columns(),
      this.head(),
      this.body,
    );
    this.region = h(
      "div",
      { class: "scroll", role: "region", "aria-label": `${options.caption}, rows`, tabindex: 0 },
      table,
    );
    this.region.style.maxHeight = `${MOST_HEIGHT}px`;
    let pending = false;
    this.region.addEventListener("scroll", () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        this.paint();
        this.keep();
      });
    });
    if (options.detail) this.body.addEventListener("keydown", (event) => this.key(event));
    this.element = h("div", { class: "table" }, this.controls(), this.region, options.detail ? this.detail : null);
    this.sort();
    if (kept) this.restore(kept);
  }

  /** Once it is in the page, for what is not has no height to be scrolled by. */
  private restore(kept: Kept): void {
    const row = kept.row === null ? -1 : this.options.rows.findIndex((one) => this.options.key?.(one) === kept.row);
    const at = row < 0 ? -1 : this.view.indexOf(row);
    if (at >= 0) this.choose(at);
    requestAnimationFrame(() => {
      this.region.scrollTop = kept.top;
    });
  }

  private state(): Kept {
    const { column, descending, search, chosen, shown } = this;
    const title = this.options.columns[column]?.title;
    return { title, descending, search, chosen, top: this.region.scrollTop, row: shown };
  }

  private columns(): HTMLElement {
    const group = h("colgroup");
    for (const column of this.options.columns) {
      const col = h("col");
      if (column.width) col.style.width = `${column.width}ch`;
      group.append(col);
    }
    return group;
  }

  private head(): HTMLElement {
    const row = h("tr", { "aria-rowindex": 1 });
    this.options.columns.forEach((column, index) => {
      const button = h("button", { type: "button", title: column.hint ?? null }, column.title);
      button.addEventListener("click", () => {
        this.descending = this.column === index ? !this.descending : !column.text;
        this.column = index;
        this.sort();
      });
      const header = h("th", { scope: "col", class: column.text ? "text" : null }, button);
      this.headers.push(header);
      row.append(header);
    });
    return h("thead", {}, row);
  }

  private controls(): HTMLElement | null {
    const { search, filters = [], rows } = this.options;
    if (!search && !filters.length) return null;
    const controls = h("div", { class: "controls" });
    if (search) {
      const input = h("input", {
        type: "search",
        placeholder: "words to find",
        "aria-label": `Search ${this.options.caption}`,
        value: this.search,
      });
      input.addEventListener("input", () => {
        this.search = input.value;
        this.words = words(input.value);
        this.refresh();
      });
      controls.append(input);
    }
    filters.forEach((filter, index) => {
      const id = unique("filter");
      const select = h("select", { id }, h("option", { value: "" }, "all"));
      for (const value of [...new Set(rows.map(filter.value))].sort())
        select.append(h("option", { value, selected: value === this.chosen[index] }, value.replaceAll("_", " ")));
      select.addEventListener("change", () => {
        this.chosen[index] = select.value;
        this.refresh();
      });
      controls.append(h("label", { for: id }, filter.label), select);
    });
    controls.append(this.status);
    return controls;
  }

  private sort(): void {
    const { rows, columns } = this.options;
    const value = columns[this.column]?.value ?? (() => null);
    const keys = rows.map(value);
    const way = this.descending ? -1 : 1;
    this.sorted = rows.map((_, index) => index);
    this.sorted.sort((a, b) => order(keys[a] ?? null, keys[b] ?? null, way) || a - b);
    this.refresh();
  }

  /** Filters anew what is sorted. */
  private refresh(): void {
    const { rows, filters = [] } = this.options;
    const view = this.sorted.filter((index) => {
      const text = this.texts?.[index] ?? "";
      if (!this.words.every((word) => text.includes(word))) return false;
      return filters.every((filter, f) => !this.chosen[f] || filter.value(rows[index] as T) === this.chosen[f]);
    });
    this.view = view;
    this.active = 0;
    this.first = -1;
    this.region.scrollTop = 0;
    this.status.textContent =
      view.length === rows.length ? `${rows.length} rows` : `${view.length} of ${rows.length} rows`;
    this.headers.forEach((header, index) => {
      if (index === this.column) header.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    this.paint();
    this.keep();
  }

  /** Puts the rows in sight into the page. */
  private paint(): void {
    const shown = Math.ceil(MOST_HEIGHT / ROW) + 2 * OVERSCAN;
    const most = Math.max(0, this.view.length - shown);
    const first = Math.min(most, Math.max(0, Math.floor(this.region.scrollTop / ROW) - OVERSCAN));
    if (first === this.first) return;
    this.first = first;
    const rows: HTMLElement[] = [];
    if (first > 0) rows.push(this.spacer(first));
    for (let at = first; at < Math.min(this.view.length, first + shown); at++) rows.push(this.row(at));
    const below = this.view.length - first - shown;
    if (below > 0) rows.push(this.spacer(below));
    const focused = this.body.contains(document.activeElement);
    this.body.replaceChildren(...rows);
    if (focused) this.focus();
  }

  private spacer(rows: number): HTMLElement {
    const cell = h("td", { colspan: this.options.columns.length, class: "spacer" });
    cell.style.height = `${rows * ROW}px`;
    return h("tr", { "aria-hidden": "true" }, cell);
  }

  private row(at: number): HTMLElement {
    const row = this.options.rows[this.view[at] as number] as T;
    const element = h("tr", { "aria-rowindex": at + 2 });
    for (const column of this.options.columns) {
      const content = column.cell(row);
      const cell = h("td", { class: column.text ? "text" : null }, content);
      if (column.text && typeof content === "string") cell.title = content;
      element.append(cell);
    }
    if (this.options.detail) {
      element.classList.add("chooses");
      const named = element.cells[this.options.columns.findIndex((column) => column.text)];
      if (named) {
        const button = h("button", {
          type: "button",
          class: "choose",
          tabindex: at === this.active ? 0 : -1,
          "data-at": at,
        });
        button.append(...named.childNodes);
        named.replaceChildren(button);
      }
      element.addEventListener("click", () => this.choose(at));
    }
    return element;
  }

  private choose(at: number): void {
    const row = this.options.rows[this.view[at] as number];
    if (row === undefined || !this.options.detail) return;
    this.active = at;
    for (const button of this.body.querySelectorAll<HTMLElement>("button.choose")) {
      const chosen = Number(button.dataset.at) === at;
      button.tabIndex = chosen ? 0 : -1;
      button.closest("tr")?.classList.toggle("chosen", chosen);
    }
    this.detail.replaceChildren(this.options.detail(row));
    this.shown = this.options.key?.(row) ?? null;
    this.keep();
  }

  private key(event: KeyboardEvent): void {
    const page = Math.floor(MOST_HEIGHT / ROW) - 1;
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.active = Math.max(0, Math.min(this.view.length - 1, this.active + step));
    const top = this.active * ROW;
    const { scrollTop, clientHeight } = this.region;
    if (top < scrollTop) this.region.scrollTop = top;
    else if (top + 3 * ROW > scrollTop + clientHeight) this.region.scrollTop = top + 3 * ROW - clientHeight;
    this.first = -1;
    this.paint();
    this.focus();
  }

  private focus(): void {
    this.body.querySelector<HTMLElement>(`button.choose[data-at="${this.active}"]`)?.focus({ preventScroll: true });
  }
}

function words(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function order(a: number | string | null, b: number | string | null, way: number): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "string" || typeof b === "string") return way * String(a).localeCompare(String(b));
  return way * (a - b);
}

/** A small table as it stands: no sorting, every row in the page. */
export function simple(caption: string, titles: Child[], rows: Child[][], texts: number[] = [0]): HTMLElement {
  const body = h("tbody");
  for (const row of rows) {
    const element = h("tr");
    row.forEach((content, index) => {
      const kind = texts.includes(index) ? "text" : null;
      element.append(index ? h("td", { class: kind }, content) : h("th", { scope: "row", class: kind }, content));
    });
    body.append(element);
  }
  const head = h("tr");
  titles.forEach((title, index) => {
    head.append(h("th", { scope: "col", class: texts.includes(index) ? "text" : null }, title));
  });
  return h("table", { class: "simple" }, h("caption", { class: "unseen" }, caption), h("thead", {}, head), body);
}
