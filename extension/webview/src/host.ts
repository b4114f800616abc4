// The editor around the page, where there is one: it opens what is clicked, and keeps what a person set in the page while
// the page is hidden, drawn anew for another run, or restored with the window. A page by itself shows places as text.

export type Request = { open: string; glance?: boolean } | { trace: string };

interface Api {
  postMessage(message: Request): void;
  getState(): unknown;
  setState(state: Record<string, unknown>): void;
}
declare function acquireVsCodeApi(): Api;

const host: Api | null = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : null;
const kept = (host?.getState() ?? {}) as Record<string, unknown>;

export const hosted = host !== null;
/** The editor has a trace of this run to open. */
export const traceable = hosted && document.getElementById("data")?.dataset.trace !== undefined;

export function ask(request: Request): void {
  host?.postMessage(request);
}

export function recall<T>(key: string): T | undefined {
  return kept[key] as T | undefined;
}

export function remember(key: string, value: unknown): void {
  kept[key] = value;
  host?.setState(kept);
}

/** Calls `work` once a moment has passed without another call. */
export function settled(work: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, 150);
  };
}
