// What Python puts into the page (pyserver/ridgeline/report/page_data.py). Times are microseconds a step.

export type Known<T> = T | null;

export interface Part {
  name: string;
  label: string;
  group: "useful" | "limited" | "moving" | "idle";
  us: number;
}

export interface Roof {
  source: "measured" | "datasheet" | "unknown";
  /** GB/s */
  bandwidth: number;
  /** FLOP/s by type */
  flops: Record<string, number>;
}

export interface Device {
  id: number;
  name: string;
  kind: string;
  idle: Known<number>;
  streams: Known<number>;
  roofs: Roof[];
  parts: Part[];
}

export interface Outcome {
  name: string;
  label: string;
  low: number;
  high: number;
  estimate: Known<number>;
  assumptions: string[];
}

export interface Autotune {
  status: "candidate" | "verified" | "no_gain";
  best_us: Known<number>;
  speedup: Known<number>;
  config: Known<string>;
}

export interface Kernel {
  id: string;
  name: string;
  symbol: string;
  device: number;
  category: string;
  us: number;
  count: number;
  share: Known<number>;
  step: Known<number>;
  /** least, first quartile, median, third quartile, most: of one launch */
  spread: [number, number, number, number, number];
  bound: "memory" | "compute" | "latency" | "unknown";
  borderline: boolean;
  resource: Known<string>;
  reason: Known<string>;
  estimated: boolean;
  compute: Known<number>;
  memory: Known<number>;
  bytes: Known<number>;
  flops: Known<number>;
  intensity: Known<number>;
  gbs: Known<number>;
  tflops: Known<number>;
  grid: Known<number[]>;
  block: Known<number[]>;
  registers: Known<number>;
  shared: Known<number>;
  config: Known<string>;
  waves: Known<number>;
  places: string[];
  generated: string[];
  aten: string[];
  autotune: Known<Autotune>;
  half: Known<Outcome>;
}

export interface Line {
  place: string;
  text: Known<string>;
  us: number;
  split: number;
  share: Known<number>;
  count: number;
  shared_with: number[];
  function: boolean;
  phase: [number, number, number];
}

export interface Op {
  name: string;
  shapes: Known<string>;
  count: number;
  self_cpu: number;
  cpu: number;
  self_device: Known<number>;
  device: Known<number>;
  self_cpu_bytes: Known<number>;
  self_device_bytes: Known<number>;
  place: Known<string>;
}

export interface Range {
  name: string;
  count: number;
  wall: number;
  device: Known<number>;
  place: Known<string>;
}

export interface Finding {
  code: string;
  title: string;
  severity: "warning" | "information" | "hint";
  message: string;
  place: Known<string>;
  cost: Known<number>;
  saving: Known<number>;
  bound: Known<number>;
  gain: Known<number>;
}

export interface Step {
  name: string;
  wall: number;
  busy: Known<number>;
  kernels: number;
  window: number;
}

export interface Memory {
  device: number;
  peak: Known<number>;
  reserved: Known<number>;
  timeline: [number, number][];
  top: { bytes: number; op: Known<string>; place: Known<string> }[];
}

export interface Change {
  label: string;
  before: Known<number>;
  after: Known<number>;
  delta: number;
  pct: Known<number>;
  verdict: "faster" | "slower" | "same" | "appeared" | "vanished";
  noise: Known<number>;
}

export interface Comparison {
  before: string;
  after: string;
  basis: "step" | "window";
  step: Known<Change>;
  device: Change;
  kernels: Change[];
  lines: Change[];
  categories: Change[];
  refused: string[];
  resolved: string[];
}

export interface Category {
  device: number;
  name: string;
  us: number;
  share: Known<number>;
  count: number;
}

export interface Head {
  title: string;
  kind: string;
  created: Known<string>;
  torch: Known<string>;
  python: Known<string>;
  revision: Known<string>;
  ranks: Known<number[]>;
  argv: Known<string[]>;
  steps: Known<number>;
  recorded_with: Record<string, Known<boolean>>;
  step: Known<number>;
  plain_step: Known<number>;
  recorded_step: Known<number>;
  compile: Known<number>;
  warmup: Known<number>;
  overhead: Known<number>;
  others: Known<number>;
}

export interface Page {
  format: number;
  version: string;
  per: "step" | "window";
  head: Head;
  devices: Device[];
  phases: Known<Record<string, number>>;
  categories: Category[];
  /** Those that the person made, by patterns of kernels' names. */
  own: Category[];
  kernels: Kernel[];
  lines: Line[];
  ops: Op[];
  ranges: Range[];
  findings: Finding[];
  unattributed: { us: number; share: Known<number>; reasons: [string, number][] };
  stepRows: Step[];
  memory: Known<Memory>;
  whatif: Outcome[];
  quality: { code: string; message: string; count: number }[];
  comparison: Known<Comparison>;
  redacted: number;
}
