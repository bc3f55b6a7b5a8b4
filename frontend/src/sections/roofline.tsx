import { scaleLog } from "d3-scale";
import { useRef } from "preact/hooks";
import { size } from "../model";
import { payload, table, tables, type Row } from "../payload";
import { readout } from "../state";
import { fixed, printable, readable, shortened } from "../values";
import { moveFocus } from "../keys";
import { useWidth } from "../width";

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [300, 46, 34, 22, 12];

/** Ops under the device's roof: arithmetic intensity against what was attained; other sizes faint behind. */
export function Roofline() {
  return tables.has("roofline") ? <Plot /> : null;
}

function Plot() {
  const holder = useRef<HTMLElement>(null);
  const [width] = useWidth(holder);
  const rows = table("roofline").rows().filter((row) => row.flops > 0 && row.bytes > 0 && row.tflops > 0);
  const here = rows.filter((row) => String(row.size) === size.value);
  if (!rows.length) return <figure class="roofline" ref={holder}><figcaption><span class="channel">roofline</span></figcaption><p class="quiet">No op of this run has both a known cost and a measured time.</p></figure>;
  const intensity = (row: Row) => row.flops / row.bytes;
  const { device } = payload;
  const roofs = device ? [...new Set(here.map((row) => mathOf(row)))].filter((name) => device.peak[name] !== undefined) : [];
  const peaks = roofs.map((name) => device!.peak[name]! / 1e12);
  const bandwidth = device?.bandwidth ? device.bandwidth / 1e9 : undefined;
  const peak = peaks.length ? Math.max(...peaks) : undefined;
  const x = scaleLog(spread(rows.map(intensity), bandwidth && peak ? [(peak * 2000) / bandwidth] : []), [LEFT, width - RIGHT]);
  const y = scaleLog(spread(rows.map((row) => row.tflops), peak ? [peak] : []), [HEIGHT - BOTTOM, TOP]);
  const [low, high] = x.domain() as [number, number];
  const least = y.domain()[0]!;
  const roof = (top: number) => {
    const start = Math.max(low, (least * 1000) / bandwidth!);
    return [start, (top * 1000) / bandwidth!, high].map((at) => `${x(at).toFixed(1)},${y(Math.min(top, (at * bandwidth!) / 1000)).toFixed(1)}`).join("L");
  };
  return (
    <figure class="roofline" ref={holder}>
      <figcaption><span class="channel">roofline</span> <span class="quiet">{here.length} ops of this size · {device ? printable(device.name) : "unknown device: no roof, absolute figures only"}</span></figcaption>
      <svg width={width} height={HEIGHT} role="group" aria-label={`Roofline: ${here.length} ops of this size`} onKeyDown={moveFocus(".op")}>
        {x.ticks(4).filter(power).map((tick) => <g key={`x${tick}`}><line class="tick" x1={x(tick)} x2={x(tick)} y1={TOP} y2={HEIGHT - BOTTOM} /><text class="tick-label" text-anchor="middle" x={x(tick)} y={HEIGHT - BOTTOM + 14}>{readable("", tick)}</text></g>)}
        {y.ticks(4).filter(power).map((tick) => <g key={`y${tick}`}><line class="tick" x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} /><text class="tick-label" text-anchor="end" x={LEFT - 5} y={y(tick) + 4}>{readable("", tick)}</text></g>)}
        <text class="tick-label" text-anchor="end" x={width - RIGHT} y={HEIGHT - 4}>FLOP per byte</text>
        <text class="tick-label" x={2} y={10}>TFLOP/s</text>
        {bandwidth && roofs.map((name, at) => (
          <g key={name}>
            <path class="roof" d={`M${roof(peaks[at]!)}`} />
            <text class="tick-label" text-anchor="end" x={width - RIGHT} y={y(peaks[at]!) - 4}>{name} {fixed(peaks[at]!, 0)}</text>
          </g>
        ))}
        {rows.map((row, at) => <circle key={at} class="other" cx={x(intensity(row))} cy={y(row.tflops)} r={2} />)}
        {here.map((row, at) => {
          const words = describe(row);
          return <circle key={at} class="op" tabIndex={at === 0 ? 0 : -1} role="img" aria-label={words} cx={x(intensity(row))} cy={y(row.tflops)} r={5}
            onFocus={() => (readout.value = words)} onPointerEnter={() => (readout.value = words)}><title>{words}</title></circle>;
        })}
      </svg>
    </figure>
  );
}

/** The number type that a row's op computes in: that of its first operand, as the device's table spells it. */
function mathOf(row: Row): string {
  const first = String(Array.isArray(row.types) ? (row.types[0] ?? "") : (row.types ?? "")).toLowerCase();
  const spellings: [RegExp, string][] = [[/bf16|bfloat16/, "bf16"], [/fp8|float8/, "fp8"], [/fp16|half|float16/, "fp16"], [/fp32|float/, "fp32"]];
  return spellings.find(([spelling]) => spelling.test(first))?.[1] ?? "";
}

function describe(row: Row): string {
  const share = row.attainment === null ? "attainment unknown" : `${readable("attainment", row.attainment)} of the roof`;
  return `${shortened(printable(String(row.op ?? row.class)), 120)} ${shortened(printable(String(row.dims ?? "")), 120)}: ${readable("", row.tflops)} TFLOP/s, ${readable("", row.gbps)} GB/s, ${row.bound ?? "bound unknown"}, ${share}, ${readable("_ns", row.time_ns)}`;
}

const power = (tick: number) => Number.isInteger(Math.log10(tick)) || tick.toString().startsWith("1");

function spread(values: number[], also: number[]): [number, number] {
  const all = [...values, ...also];
  return [Math.min(...all) / 1.6, Math.max(...all) * 1.6];
}
