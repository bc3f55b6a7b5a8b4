// The launches of one size, by the source that says most; a live page asks its server for those that its file left out.
import { signal } from "@preact/signals";
import { rank, rowsOf, sizeKey } from "./model";
import { payload, table, type Row } from "./payload";

const fetched = signal(new Map<string, Row[]>());

/** Times and ops, as the join gives them; else what there is. */
export function launchesAt(key: string): Row[] {
  const rows = rowsOf(table("launches"), rank.value).filter((row) => sizeKey(row.size) === key);
  const known = rows.length ? rows : (fetched.value.get(key) ?? []).filter((row) => String(row.rank) === rank.value);
  const sources = ["replay", "warmup", "eager", "nodes", "capture"].map((source) => known.filter((row) => row.source === source));
  const candidates = [joinedAt(key), ...sources].filter((found) => found.length > 0);
  const says = (found: Row[]) => Number(found.some((row) => row.op !== null)) * 2 + Number(found.some((row) => row.time_ns !== null));
  return candidates.sort((a, b) => says(b) - says(a))[0] ?? [];
}

/** One joined replay of this size: the first whose rows the file holds. */
function joinedAt(key: string): Row[] {
  const join = table("join");
  const [sizeOf, rankOf, fileOf, launchOf] = ["size", "rank", "replay_file", "launch"].map((name) => join.column(name)) as [any[], any[], any[], any[]];
  const first = sizeOf.findIndex((value, at) => sizeKey(value) === key && String(rankOf[at]) === rank.value && launchOf[at] !== null);
  if (first < 0) return [];
  const kernels = table("kernels");
  const families = new Map(kernels.column("kernel").map((kernel, at) => [kernel, kernels.column("family")[at]]));
  return join.rows()
    .filter((row) => row.replay_file === fileOf[first] && row.launch === launchOf[first])
    .map((row) => ({ ...row, family: families.get(row.kernel) ?? null, seq: row.seq_replay, calls: 1, source: `join: ${row.status}` }));
}

/** Ask the server for a size that the file left out; the page draws it when it comes. */
export async function fetchLaunches(key: string): Promise<void> {
  if (!payload.live || !table("launches").packed.left_out || fetched.value.has(key) || key === "none") return;
  fetched.value = new Map(fetched.value).set(key, []);
  const response = await fetch(`api/kernels?by=launch&size=${key}`);
  if (response.ok) fetched.value = new Map(fetched.value).set(key, ((await response.json()) as { rows: Row[] }).rows);
}
