// Numbers as people read them; the same figures as ridgeline/units.py, so that all views agree.

const NONE = "-";

/** Python rounds ties to the even digit, `toFixed` away from zero. A tie is a multiple of half of the last digit. */
function fixed(value: number, digits: number): string {
  const tie = Number.isInteger(value * 2 ** (digits + 1)) && !Number.isInteger(value * 2 ** digits);
  if (!tie) return value.toFixed(digits);
  const below = Math.floor(value * 10 ** digits);
  return ((below % 2 ? below + 1 : below) / 10 ** digits).toFixed(digits);
}

export function three(value: number): string {
  if (value === 0) return "0";
  if (value >= 99.95) return fixed(value, 0);
  return value >= 9.995 ? fixed(value, 1) : fixed(value, 2);
}

/** Three significant digits with the unit that fits; `-` for unknown. */
export function duration(us: number | null): string {
  if (us === null) return NONE;
  const sign = us < 0 ? "-" : "";
  const value = Math.abs(us);
  for (const [limit, factor, unit] of [
    [1, 1e3, "ns"],
    [1e3, 1, "µs"],
    [1e6, 1e-3, "ms"],
    [6e7, 1e-6, "s"],
  ] as const) {
    if (value < limit * 0.9995) return `${sign}${three(value * factor)} ${unit}`;
  }
  return `${sign}${three((value * 1e-6) / 60)} min`;
}

export function percent(value: number | null): string {
  if (value === null) return NONE;
  if (value !== 0 && Math.abs(value) < 0.05) return "<0.1 %";
  return `${fixed(value, Math.abs(value) >= 9.95 ? 0 : 1)} %`;
}

/** Decimal units: `1.07 GB`. */
export function size(value: number | null): string {
  if (value === null) return NONE;
  const sign = value < 0 ? "-" : "";
  const bytes = Math.abs(value);
  for (const [limit, factor, unit] of [
    [1e3, 1, "B"],
    [1e6, 1e-3, "kB"],
    [1e9, 1e-6, "MB"],
    [1e12, 1e-9, "GB"],
  ] as const) {
    if (bytes < limit * 0.9995) return `${sign}${unit === "B" ? fixed(bytes, 0) : three(bytes * factor)} ${unit}`;
  }
  return `${sign}${three(bytes * 1e-12)} TB`;
}

export function count(value: number): string {
  return Math.abs(value - Math.round(value)) < 0.05 ? fixed(value, 0) : fixed(value, 1);
}

export function plain(value: number | null, unit = ""): string {
  return value === null ? NONE : `${three(value)}${unit && ` ${unit}`}`;
}
