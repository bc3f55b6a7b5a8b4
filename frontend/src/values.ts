// How a value reads for a person: the same words as src/shapescope/show/values.py, held to it by a parity test.

export const DASH = "–";
export type Value = unknown;

const TIME: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const BYTES: [number, string][] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const SHARES = new Set(["share", "attainment", "attainment_upper", "padding", "completeness", "confidence", "idle"]);

/** A cell's text by its column's name: `*_ns` as time, `*bytes` as size, shares as percent; missing as a dash. */
export function readable(column: string, value: Value): string {
  if (value === null || value === undefined || value === "") return DASH;
  if (typeof value === "number") {
    if (column.endsWith("_ns")) return scaled(value, TIME);
    if (column.endsWith("bytes") || column === "bytes_on_disk") return scaled(value, BYTES);
    if (SHARES.has(column) || column.endsWith("_share")) return `${fixed(value * 100, 1)}%`;
  }
  return printable(words(value)) || DASH;
}

function words(value: Value): string {
  if (value === null || value === undefined) return DASH;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (Number.isInteger(value)) return fixed(value, 0);
    return Math.abs(value) < 1000 ? general(value, 3) : fixed(value, 0);
  }
  if (Array.isArray(value)) return value.map(words).join(" ");
  if (typeof value === "object") return Object.entries(value).map(([key, item]) => `${key} ${words(item)}`).join(", ");
  return String(value);
}

/** Control characters and direction marks as visible escapes. */
export function printable(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}\p{Zs}]/gu, (character) => {
    if (character === " ") return character;
    const code = character.codePointAt(0)!;
    const short: Record<number, string> = { 9: "\\t", 10: "\\n", 13: "\\r" };
    if (short[code]) return short[code];
    const hex = code.toString(16);
    return code < 256 ? `\\x${hex.padStart(2, "0")}` : code < 65536 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
}

function scaled(value: number, units: [number, string][]): string {
  const [size, name] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1)!;
  const number = value / size;
  const whole = size === 1 || Math.abs(number) >= 1000;
  return `${whole ? grouped(fixed(number, 0)) : fixed(number, 2)} ${name}`;
}

const grouped = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, ",");

/** As Python's `.{digits}f`: an exact tie goes to the even neighbour, where toFixed goes up. */
export function fixed(value: number, digits: number): string {
  const tie = Math.abs(value * 2 ** (digits + 1)) % 2 === 1;
  if (Math.abs(value) >= 1e21) return digits > 0 ? `${BigInt(value)}.${"0".repeat(digits)}` : String(BigInt(value));
  if (!tie) return value.toFixed(digits);
  const scale = 10 ** digits;
  const below = Math.floor(value * scale);
  return ((below % 2 === 0 ? below : below + 1) / scale).toFixed(digits);
}

/** As Python's `.{digits}g`. */
function general(value: number, digits: number): string {
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent < -4 || exponent >= digits) {
    const [mantissa, power] = value.toExponential(digits - 1).split("e") as [string, string];
    const size = power.slice(1).padStart(2, "0");
    return `${trimmed(mantissa)}e${power[0]}${size}`;
  }
  return trimmed(fixed(value, digits - 1 - exponent));
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** `time_per_token_ns` as `time per token`. */
export function heading(column: string): string {
  return column.replace(/_(ns|bytes)$/, "").replaceAll("_", " ");
}

/** A long name with its middle cut out: both ends of a kernel's name tell it from its siblings. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.62);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
