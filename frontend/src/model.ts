// What the chosen graphs and rank hold, by size: derived from the tables, computed once per choice.
import { computed } from "@preact/signals";
import { payload, table, type Row, type Table } from "./payload";
import { view } from "./state";

export interface Cell { calls: number | null; time: number | null; share: number | null; kernels: string }
/** A class, a family or a kernel, with its numbers at each size (by the size's text). */
export interface Node { path: string[]; name: string | null; level: number; cells: Map<string, Cell>; children: Node[] }
export interface Size { key: string; value: number | null; before: number }

export const UNNAMED = "unnamed";
const NO_SIZE = "none";
// Which source speaks where several do: measured in production's own form first, then what stands in for it.
const SOURCES = ["replay", "replay-dummy", "warmup", "eager", "trace", "nodes", "capture"];

export const sizeKey = (size: number | null): string => (size === null ? NO_SIZE : String(size));
export const sizeLabel = (key: string): string => (key === NO_SIZE ? "no size" : key);

const shapes = table("shapes");
const kernels = table("kernels");

function graphsKeys(of: Table): string[] {
  const [runner, variant, unit] = ["runner", "variant", "unit"].map((name) => of.column(name)) as [any[], any[], any[]];
  return runner.map((_, at) => `${runner[at] ?? ""}|${variant[at] ?? ""}|${unit[at] ?? ""}`);
}

export function graphsLabel(key: string): string {
  const [runner, variant, unit] = key.split("|") as [string, string, string];
  return [runner || "no runner", variant, unit && `in ${unit}`].filter(Boolean).join(" · ");
}

const keysOf = new Map([shapes, kernels].map((each) => [each, graphsKeys(each)]));
export const allGraphs = unique([...keysOf.values()].flat());
export const graphs = computed(() => {
  const asked = view.value.graphs;
  return asked !== null && allGraphs.includes(asked) ? asked : (allGraphs[0] ?? "||");
});

export const ranks = computed(() => {
  const found = new Set<string>();
  for (const [each, keys] of keysOf) each.column("rank").forEach((value, at) => keys[at] === graphs.value && found.add(String(value)));
  return [...found];
});
export const rank = computed(() => {
  const asked = view.value.rank;
  return asked !== null && ranks.value.includes(asked) ? asked : (ranks.value[0] ?? "null");
});

/** The rows of the chosen graphs and one rank (null: all ranks). */
export function rowsOf(from: Table, ofRank: string | null): Row[] {
  const keys = keysOf.get(from) ?? graphsKeys(from);
  const rankOf = from.column("rank");
  const found: Row[] = [];
  for (let at = 0; at < from.count; at++) {
    if (keys[at] === graphs.value && (ofRank === null || String(rankOf[at]) === ofRank)) found.push(from.row(at));
  }
  return found;
}

const shapeRows = computed(() => rowsOf(shapes, rank.value));
export const shapeAt = computed(() => firstBySize(shapeRows.value));
export const baseAt = computed(() => firstBySize(rowsOf(table("base_shapes"), rank.value)));
export const allRanksAt = computed(() => bySize(rowsOf(shapes, null)));
const kernelRows = computed(() => bySize(rowsOf(kernels, rank.value)));

export const sizes = computed<Size[]>(() => {
  const found = unique([...shapeRows.value.map((row) => sizeKey(row.size)), ...kernelRows.value.keys()]);
  const ordered = found.sort((a, b) => (a === NO_SIZE ? 1 : b === NO_SIZE ? -1 : Number(a) - Number(b)));
  return ordered.map((key, at) => ({
    key,
    value: key === NO_SIZE ? null : Number(key),
    before: at === 0 || key === NO_SIZE ? 0 : Number(ordered[at - 1]),
  }));
});

/** The chosen size; where none is chosen, that of the first finding, else the largest. */
export const size = computed<string>(() => {
  const keys = sizes.value.map((each) => each.key);
  const asked = view.value.size;
  if (asked !== null && keys.includes(asked)) return asked;
  const found = table("findings").column("size").find((value) => value !== null && keys.includes(String(value)));
  return found !== undefined ? String(found) : (keys.filter((key) => key !== NO_SIZE).at(-1) ?? keys.at(-1) ?? "");
});

/** Which source the kernels' numbers at each size come from. */
export const sourceAt = computed(() => {
  const found = new Map<string, string>();
  for (const [key, rows] of kernelRows.value) {
    const present = new Set(rows.map((row) => row.source as string));
    found.set(key, SOURCES.find((source) => present.has(source)) ?? [...present][0]!);
  }
  return found;
});

export const timed = computed(() => [...kernelRows.value.values()].some((rows) => rows.some((row) => row.time_ns !== null)));

/** Class, family, kernel as a tree, the heaviest first. */
export const tree = computed<Node[]>(() => {
  const roots: Node[] = [];
  const index = new Map<string, Node>();
  for (const { key } of sizes.value) {
    for (const row of kernelRows.value.get(key) ?? []) {
      if (row.source !== sourceAt.value.get(key)) continue;
      const path = [row.class, row.family, row.kernel].map((name) => name ?? UNNAMED) as string[];
      let siblings = roots;
      for (let level = 0; level < 3; level++) {
        const at = path.slice(0, level + 1).join("\u001f");
        let node = index.get(at);
        if (!node) {
          node = { path: path.slice(0, level + 1), name: path[level]!, level, cells: new Map(), children: [] };
          index.set(at, node);
          siblings.push(node);
        }
        add(node, key, row);
        siblings = node.children;
      }
    }
  }
  const sort = (nodes: Node[]) => {
    nodes.sort((a, b) => weight(b) - weight(a));
    nodes.forEach((node) => sort(node.children));
  };
  sort(roots);
  return roots;
});

export const families = computed(() => tree.value.flatMap((node) => node.children));

function add(node: Node, key: string, row: Row): void {
  const cell = node.cells.get(key) ?? { calls: null, time: null, share: null, kernels: "" };
  cell.calls = plus(cell.calls, row.calls);
  cell.time = plus(cell.time, row.time_ns);
  cell.share = plus(cell.share, row.share);
  cell.kernels += `${row.kernel}\u001f`;
  node.cells.set(key, cell);
}

/** Invariant: a sum over nothing known is unknown, not 0. */
function plus(sum: number | null, value: number | null): number | null {
  return value === null || value === undefined ? sum : (sum ?? 0) + value;
}

export function weight(node: Node): number {
  let most = 0;
  for (const cell of node.cells.values()) most = Math.max(most, cell.share ?? 0, cell.time === null ? (cell.calls ?? 0) / 1e6 : 0);
  return most;
}

export interface Mark { kind: string; text: string }
/** Where the kernel changes, by `family` and the size that it changes to. */
export const marks = computed(() => {
  const found = new Map<string, Mark[]>();
  const [runner, variant] = graphs.value.split("|");
  for (const row of table("switches").rows()) {
    if ((row.runner ?? "") !== runner || (row.variant ?? "") !== variant) continue;
    const ratio = row.time_ratio === null ? "" : `, ${row.time_ratio.toFixed(2)}x its neighbours`;
    const text = `${row.kind}: ${row.op ?? "an op"} ${row.dims_pattern ?? ""} runs ${row.family_from ?? "nothing"} at ${row.size_from} and ${row.family_to ?? "nothing"} at ${row.size_to}${ratio} (${row.source}; ${row.evidence ?? ""})`;
    for (const family of new Set([row.family_to, row.family_from])) {
      const key = `${family ?? UNNAMED}|${row.size_to}`;
      found.set(key, [...(found.get(key) ?? []), { kind: row.kind, text }]);
    }
  }
  return found;
});

export const title = payload.title;

function bySize(rows: Row[]): Map<string, Row[]> {
  const found = new Map<string, Row[]>();
  for (const row of rows) {
    const key = sizeKey(row.size);
    const group = found.get(key);
    if (group) group.push(row);
    else found.set(key, [row]);
  }
  return found;
}

function firstBySize(rows: Row[]): Map<string, Row> {
  const found = new Map<string, Row>();
  for (const [key, group] of bySize(rows)) found.set(key, group.find((row) => row.time_ns !== null) ?? group[0]!);
  return found;
}

function unique<T>(values: T[]): T[] {
  return [...new Set(values)];
}
