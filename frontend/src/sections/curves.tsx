// Curves over batch size, one strip a figure, all on the same columns. A batch runs in the smallest size that holds it, so
// that a column stands for all batches from the size before it: padding shows as the slope inside a column.
import { scaleLinear, scaleLog } from "d3-scale";
import type { ComponentChildren } from "preact";
import { baseAt, shapeAt, size, sizeLabel, sizes } from "../model";
import { reason, type Row } from "../payload";
import { Scope, ScopeRow, type Frame } from "../scope";
import { hovered } from "../state";
import { DASH, readable } from "../values";

const HEIGHT = 92;
const TOP = 10;
type Scale = (value: number) => number;

export function Curves() {
  const has = (column: string) => [...shapeAt.value.values()].some((row) => row[column] !== null && row[column] !== undefined);
  return (
    <Scope id="curves" title="Batch size">
      {(frame) => (
        <>
          {has("time_ns") && <Strip frame={frame} column="time_ns" label="time per replay" detail={spread} draw={drawTime} also={["time_p90_ns"]} />}
          {has("time_per_token_ns") && <PerToken frame={frame} />}
          {has("busy_ns") && <Strip frame={frame} column="span_ns" label="busy and gap" detail={busy} draw={drawBusy} />}
          {has("launches") && <Strip frame={frame} column="launches" label="launches" detail={kinds} draw={drawBars("launches")} />}
          {has("capture_ns") && <Strip frame={frame} column="capture_ns" label="capture time" detail={recording} draw={drawCapture} sum="record_ns" />}
          {has("memory_bytes") && <Strip frame={frame} column="memory_bytes" label="memory" detail={() => "what this capture added, in capture order"} draw={drawBars("memory_bytes")} />}
          {["time_ns", "capture_ns", "memory_bytes", "busy_ns"].filter((column) => !has(column)).map((column) => (
            <Absent key={column} column={column} />
          ))}
        </>
      )}
    </Scope>
  );
}

interface Drawn { frame: Frame; y: Scale; rows: (Row | undefined)[] }

function Strip({ frame, column, label, detail, draw, also = [], sum, log = false, floor }: {
  frame: Frame; column: string; label: string; detail: (row: Row) => ComponentChildren; draw: (drawn: Drawn) => ComponentChildren;
  also?: string[]; sum?: string; log?: boolean; floor?: number;
}) {
  const rows = sizes.value.map(({ key }) => shapeAt.value.get(key));
  const base = column === "time_ns" ? [...baseAt.value.values()] : [];
  const values = [...rows, ...base].flatMap((row) => [...[column, ...also].map((name) => row?.[name]), sum && row?.[column] != null ? row[column] + (row[sum] ?? 0) : null]).filter((value): value is number => typeof value === "number");
  const top = Math.max(...values, 0) || 1;
  const scale = log
    ? scaleLog([Math.min(...values) * 0.8, floor ?? top * 1.15], [HEIGHT - 1, TOP])
    : scaleLinear([0, top * 1.06], [HEIGHT - 1, TOP]);
  const ticks = log ? thinned(scale.ticks(9).filter(round)) : linearTicks(column, top);
  return (
    <ScopeRow class="strip" label={<><Reading label={label} column={column} detail={detail} /><Axis ticks={ticks} y={scale} column={column} /></>}>
      <svg class="columns" width={frame.total} height={HEIGHT} role="img" aria-label={summary(label, column, rows)}>
        {ticks.map((tick) => (
          <line key={tick} class="tick" x1={0} x2={frame.total} y1={scale(tick)} y2={scale(tick)} />
        ))}
        {draw({ frame, y: scale, rows })}
        {rows.map((row, at) => (row?.[column] ?? null) === null && (
          <text key={at} class="gone" x={(at + 0.5) * frame.width} y={HEIGHT - 8}><title>{row ? reason(column) : "this shape is missing"}</title>{DASH}</text>
        ))}
        <line class="floor" x1={0} x2={frame.total} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      </svg>
    </ScopeRow>
  );
}

function Axis({ ticks, y, column }: { ticks: number[]; y: Scale; column: string }) {
  return (
    <svg class="axis" width={60} height={HEIGHT} aria-hidden="true">
      {ticks.map((tick) => <text key={tick} class="tick-label" text-anchor="end" x={56} y={y(tick) + 3.5}>{readable(column, tick).replace(/\.(\d*?)0+ /, (_, digits) => (digits ? `.${digits} ` : " "))}</text>)}
    </svg>
  );
}

/** Round numbers in the unit that the largest value is shown in: binary sizes have other round numbers than times. */
function linearTicks(column: string, top: number): number[] {
  const unit = column.endsWith("bytes") ? 1024 ** Math.max(0, Math.floor(Math.log2(top) / 10)) : 1;
  return scaleLinear([0, top / unit], [0, 1]).ticks(3).slice(1).map((tick) => tick * unit);
}

const round = (tick: number) => [1, 2, 5].includes(Number(tick.toExponential()[0]));
const thinned = (ticks: number[]) => ticks.filter((_, at) => at % Math.ceil(ticks.length / 3) === 0);

/** The channel's own display: its value at the size under the pointer, else at the chosen one. */
function Reading({ label, column, detail }: { label: string; column: string; detail: (row: Row) => ComponentChildren }) {
  const key = hovered.value ?? size.value;
  const row = shapeAt.value.get(key);
  const value = row?.[column] ?? null;
  return (
    <div class="reading">
      <span class="channel">{label}</span>
      <output class="value">{readable(column, value)}</output>
      <span class="detail"><b>{sizeLabel(key)}</b> {value === null ? (row ? reason(column) : "missing") : detail(row!)}</span>
    </div>
  );
}

function Absent({ column }: { column: string }) {
  const label = { time_ns: "time per replay", capture_ns: "capture time", memory_bytes: "memory", busy_ns: "busy and gap" }[column];
  return (
    <ScopeRow class="strip absent" label={<div class="reading"><span class="channel">{label}</span></div>}>
      <div class="columns">{DASH} {reason(column)}</div>
    </ScopeRow>
  );
}

function summary(label: string, column: string, rows: (Row | undefined)[]): string {
  const known = rows.filter((row) => (row?.[column] ?? null) !== null);
  if (!known.length) return `${label}: ${reason(column)}`;
  const [first, last] = [known[0]!, known.at(-1)!];
  return `${label} over batch size: ${readable(column, first[column])} at ${first.size}, ${readable(column, last[column])} at ${last.size}; ${known.length} of ${rows.length} sizes known`;
}

const counted = (row: Row) => `${row.time_source ?? "no source"} ×${row.replays ?? DASH}`;
const spread = (row: Row) => `p10 ${readable("_ns", row.time_p10_ns)} · p90 ${readable("_ns", row.time_p90_ns)} · ${counted(row)}`;
const busy = (row: Row) => row.gap_ns === null ? "" : `busy ${readable("_ns", row.busy_ns)} · gap ${readable("_ns", row.gap_ns)} · trace ×${row.replays_seen ?? DASH}`;
const kinds = (row: Row) => `${row.kernels ?? DASH} kernels · ${row.families ?? DASH} families · ${row.ops ?? DASH} ops · captured`;
const recording = (row: Row) => `recording it took ${readable("_ns", row.record_ns)} more · manifest ×1`;

function drawTime({ frame, y, rows }: Drawn) {
  const base = sizes.value.map(({ key }) => baseAt.value.get(key));
  return (
    <>
      {base.some(Boolean) && <path class="base" d={steps(base, frame, y)} />}
      {rows.map((row, at) => row?.time_ns != null && row.time_p10_ns != null && (
        <rect key={at} class="spread" x={at * frame.width + frame.width * 0.18} width={frame.width * 0.64} y={y(row.time_p90_ns)}
          height={Math.max(1, y(row.time_p10_ns) - y(row.time_p90_ns))} />
      ))}
      <path class="line" d={steps(rows, frame, y)} />
    </>
  );
}

function steps(rows: (Row | undefined)[], frame: Frame, y: Scale): string {
  let open = false;
  return rows.map((row, at) => {
    if (row?.time_ns == null) { open = false; return ""; }
    const move = `${open ? "L" : "M"}${at * frame.width},${y(row.time_ns).toFixed(1)}H${(at + 1) * frame.width}`;
    open = true;
    return move;
  }).join("");
}

/** Time per request or token that is really in the batch: it falls inside a column as padding gives way to work. */
function PerToken({ frame }: { frame: Frame }) {
  const worst = sizes.value.map(({ key, before }) => { const row = shapeAt.value.get(key); return row?.time_ns == null ? 0 : row.time_ns / (before + 1); });
  return <Strip frame={frame} column="time_per_token_ns" label={`time per ${[...shapeAt.value.values()][0]?.unit === "tokens" ? "token" : "request"}`} log floor={Math.max(...worst) * 1.1}
    detail={(row) => padding(row)} draw={drawPerToken} />;
}

function padding(row: Row): string {
  const before = sizes.value.find((each) => each.value === row.size)?.before ?? 0;
  const worst = row.time_ns / (before + 1);
  return before + 1 === row.size ? `full · ${counted(row)}` : `full; ${readable("_ns", worst)} at a batch of ${before + 1} · ${counted(row)}`;
}

function drawPerToken({ frame, y, rows }: Drawn) {
  return rows.map((row, at) => {
    const each = sizes.value[at]!;
    if (row?.time_ns == null || !each.value) return null;
    const first = each.before + 1;
    const x = (batch: number) => (at + (each.value === first ? 1 : (batch - first) / (each.value! - first))) * frame.width;
    const points = Array.from({ length: 13 }, (_, step) => first + ((each.value! - first) * step) / 12);
    const curve = points.map((batch) => `${x(batch).toFixed(1)},${y(row.time_ns / batch).toFixed(1)}`).join("L");
    const full = y(row.time_ns / each.value).toFixed(1);
    return (
      <g key={at}>
        {first !== each.value && <path class="padding" d={`M${curve}H${(at * frame.width).toFixed(1)}Z`} />}
        {first !== each.value && <path class="line faint" d={`M${curve}`} />}
        <line class="line" x1={at * frame.width + 1} x2={(at + 1) * frame.width - 1} y1={full} y2={full} />
      </g>
    );
  });
}

function drawBusy({ frame, y, rows }: Drawn) {
  return rows.map((row, at) => row?.span_ns != null && (
    <g key={at}>
      <rect class="gap" {...bar(at, frame)} y={y(row.span_ns)} height={HEIGHT - 1 - y(row.span_ns)} />
      {row.busy_ns !== null && <rect class="bar" {...bar(at, frame)} y={y(row.busy_ns)} height={HEIGHT - 1 - y(row.busy_ns)} />}
    </g>
  ));
}

/** Capture, and on top of it what recording it took. */
function drawCapture({ frame, y, rows }: Drawn) {
  return rows.map((row, at) => row?.capture_ns != null && (
    <g key={at}>
      <rect class="within" {...bar(at, frame)} y={y(row.capture_ns + (row.record_ns ?? 0))} height={HEIGHT - 1 - y(row.capture_ns + (row.record_ns ?? 0))} />
      <rect class="bar" {...bar(at, frame)} y={y(row.capture_ns)} height={HEIGHT - 1 - y(row.capture_ns)} />
    </g>
  ));
}

function drawBars(column: string) {
  return ({ frame, y, rows }: Drawn) => rows.map((row, at) => row?.[column] != null && (
    <g key={at}>
      <rect class="bar" {...bar(at, frame)} y={y(row[column])} height={Math.max(0, HEIGHT - 1 - y(row[column]))} />
    </g>
  ));
}

const bar = (at: number, frame: Frame) => ({ x: at * frame.width + Math.max(1, frame.width * 0.18), width: Math.max(2, frame.width * 0.64) });
