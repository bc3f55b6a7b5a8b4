import { scaleLinear } from "d3-scale";
import { allRanksAt, ranks, rank, sizes } from "../model";
import { Section } from "../parts";
import { table, type Row } from "../payload";
import { Scope, ScopeRow, type Frame } from "../scope";
import { DASH, fixed, readable } from "../values";
import { DataTable } from "./tables";

const HEIGHT = 84;

/** Rank against rank: each size's times around their median, and what the analysis found. */
export function Ranks() {
  const several = ranks.value.length > 1;
  const rows = table("ranks").rows();
  const columns = table("ranks").columns.filter((column) => rows.some((row) => row[column] !== null && row[column] !== ""));
  if (!several && rows.length === 0) return <Section id="ranks" title="Ranks"><p class="quiet">This run has one rank: {ranks.value[0] ?? DASH}.</p></Section>;
  return (
    <>
      {several && (
        <Scope id="ranks" title="Ranks">
          {(frame) => <Spread frame={frame} />}
        </Scope>
      )}
      {rows.length > 0 && <div class={several ? "text-section joined" : "text-section"} id={several ? undefined : "ranks"}><div class="gutter">{!several && <h2>Ranks</h2>}</div><div class="body"><DataTable columns={columns} rows={rows} label="Ranks" /></div></div>}
    </>
  );
}

function Spread({ frame }: { frame: Frame }) {
  const groups = sizes.value.map(({ key }) => (allRanksAt.value.get(key) ?? []).filter((row) => row.time_ns !== null));
  const medians = groups.map((rows) => median(rows.map((row) => row.time_ns)));
  const off = (row: Row, at: number) => row.time_ns / medians[at]! - 1;
  const most = Math.max(0.01, ...groups.flatMap((rows, at) => rows.map((row) => Math.abs(off(row, at)))));
  const y = scaleLinear([-most, most], [HEIGHT - 10, 10]);
  return (
    <ScopeRow class="strip" label={<div class="reading"><span class="channel">time against the median</span><span class="value">±{fixed(most * 100, 1)}%</span><span class="detail">{ranks.value.length} ranks; the chosen one is filled</span></div>}>
      <svg class="columns" width={frame.total} height={HEIGHT} role="img" aria-label={`Time of each rank against the median of ranks: within ${fixed(most * 100, 1)} percent`}>
        <line class="floor" x1={0} x2={frame.total} y1={y(0)} y2={y(0)} />
        {groups.map((rows, at) => rows.map((row) => (
          <circle key={`${at}-${row.rank}`} class={String(row.rank) === rank.value ? "rank chosen" : "rank"} cx={(at + 0.5) * frame.width} cy={y(off(row, at))} r={3.5}>
            <title>{`rank ${row.rank} at ${row.size}: ${readable("_ns", row.time_ns)}`}</title>
          </circle>
        )))}
        {groups.map((rows, at) => rows.length === 0 && <text key={at} class="gone" x={(at + 0.5) * frame.width} y={HEIGHT / 2 - 4}><title>no rank has a time at this size</title>{DASH}</text>)}
      </svg>
    </ScopeRow>
  );
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
