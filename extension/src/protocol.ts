// What the server and this client say to each other beyond LSP: the client's half of docs/protocol.md.
import type { Location } from "vscode-languageclient/node";

export interface RunInfo {
  id: string;
  folder: string;
  target: string;
  created: string;
  device: string | null;
  steps: number | null;
  stepUs: number | null;
  trace: string | null;
  pinned: boolean;
  rank: number | null;
}

export interface ProfileParams {
  uri?: string;
  module?: string;
  args?: string[];
  /** Typed by a person; the server splits it. */
  words?: string;
  cwd?: string;
  env?: Record<string, string>;
  envFile?: string;
  python?: string;
}

export interface Target {
  icon: string;
  label: string;
  description: string;
  params: ProfileParams;
  ask: { title: string; value: string; placeHolder: string } | null;
}

export interface Action {
  title: string;
  command: string;
  arguments?: unknown[];
}

export interface Cause {
  code: string;
  message: string;
  hint?: string | null;
  actions?: Action[];
}

export interface ProfileResult {
  state: "done" | "failed" | "cancelled";
  run: RunInfo | null;
  exitStatus: number | null;
  message: string;
  cause: Cause | null;
  log: string | null;
}

export interface Progress {
  state: "running" | "done" | "failed" | "cancelled";
  phase: string;
  message: string | null;
  step: number | null;
  steps: number | null;
  elapsedSeconds: number | null;
  percentage: number | null;
}

export interface Output {
  stream: "stdout" | "stderr";
  text: string;
}

export interface ProfileChanged {
  reason: string;
  run: RunInfo | null;
  uris: string[];
}

export interface HeatLine {
  line: number;
  bucket: number;
  /** Share of the step. */
  percent: number;
  text: string;
  stale: boolean;
}

export interface Annotations {
  uri: string;
  version: number | null;
  run: string | null;
  state: "none" | "fresh" | "edited" | "other-version";
  lines: HeatLine[];
}

export interface TreeItem {
  id: string;
  label: string;
  description: string;
  tooltip: string;
  icon: string;
  contextValue: "kernel" | "line" | "finding" | "change";
  location: Location | null;
  kernel: string | null;
  file: string | null;
}

export interface TreeGroup {
  id: "changes" | "kernels" | "lines" | "findings";
  label: string;
  description: string;
  items: TreeItem[];
}

export interface Tree {
  run: RunInfo | null;
  note: string | null;
  groups: TreeGroup[];
}

export interface OpenTrace {
  path: string;
  /** A page of this machine that shows it, */
  url: string | null;
  /** with the interface that is installed here or the public one. */
  ui: "local" | "public" | null;
  notes: string[];
}

export interface Overview {
  run: RunInfo | null;
  /** JSON that may stand inside an element. */
  page: string | null;
  /** What the page writes of a place, and the files and one-based lines of the run that it means. */
  places: { place: string; at: [string, number][] }[];
}

export interface HotKernel {
  id: string;
  name: string;
  category: string;
  stepUs: number | null;
  stepSharePct: number | null;
  generated: Location[];
}

/** Commands of this client that the server may name in lenses, hovers and actions. */
export const CLIENT_COMMANDS = [
  "goToLocations",
  "profileFile",
  "openTrace",
  "openOverview",
  "selectInterpreter",
  "rebuildAnalysis",
  "profileWith",
  "debugInfo",
  "openSettings",
].map((name) => `ridgeline.${name}`);

/** Commands of the server that run code of the program or of the analysis, and so need to be told the interpreters. */
export const NEED_PYTHON = [
  "openTrace",
  "benchmark",
  "verifyAutotune",
  "timeExpression",
  "timeFindings",
  "rebuildAnalysis",
].map((name) => `ridgeline.server.${name}`);

/** Those that take a while, so that they show that they run and can be cancelled. */
export const MEASURE = NEED_PYTHON.filter((name) => name !== "ridgeline.server.openTrace");

/** Commands of the server that may stand behind links in hovers. */
export const SERVER_COMMANDS = [
  "profile",
  "cancel",
  "openTrace",
  "benchmark",
  "verifyAutotune",
  "clear",
  "show",
  "mute",
  "selectRun",
  "pin",
].map((name) => `ridgeline.server.${name}`);
