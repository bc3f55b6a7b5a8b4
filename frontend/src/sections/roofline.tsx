import { scaleLog } from "d3-scale";
import { useRef } from "preact/hooks";
import { size } from "../model";
import { table, tables, type Row } from "../payload";
import { readout } from "../state";
import { printable, readable, shortened } from "../values";
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
  const { summary } = table("roofline").packed;
  const rows = table("roofline").rows().filter((row) => row.flops > 0 && row.bytes > 0 && row.tflops > 0);
  const here = rows.filter((row) => String(row.size) === size.value);
  if (!rows.length) return <figure class="roofline" ref={holder}><figcaption><span class="channel">roofline</span></figcaption><p class="quiet">No op of this run has both a known cost and a measured time.</p></figure>;
  const intensity = (row: Row) => row.flops / row.bytes;
  const [peak, bandwidth] = [summary.peak_tflops as number | undefined, summary.peak_gbps as number | undefined];
  const x = scaleLog(spread(rows.map(intensity), bandwidth && peak ? [(peak * 1000) / bandwidth] : []), [LEFT, width - RIGHT]);
  const y = scaleLog(spread(rows.map((row) => row.tflops), peak ? [peak] : []), [HEIGHT - BOTTOM, TOP]);
  const [low, high] = x.domain() as [number, number];
  const roof = peak && bandwidth ? [low, (peak * 1000) / bandwidth, high].map((at) => `${x(at)},${y(Math.max(y.domain()[0]!, Math.min(peak, (at * bandwidth) / 1000)))}`).join("L") : null;
  return (
    <figure class="roofline" ref={holder}>
      <figcaption><span class="channel">roofline</span> <span class="quiet">{here.length} ops of this size · {summary.device ? printable(String(summary.device)) : "unknown device: no roof, absolute figures only"}</span></figcaption>
      <svg width={width} height={HEIGHT} role="group" aria-label={`Roofline: ${here.length} ops of this size`} onKeyDown={moveFocus(".op")}>
        {x.ticks(4).filter(power).map((tick) => <g key={`x${tick}`}><line class="tick" x1={x(tick)} x2={x(tick)} y1={TOP} y2={HEIGHT - BOTTOM} /><text class="tick-label" text-anchor="middle" x={x(tick)} y={HEIGHT - BOTTOM + 14}>{tick}</text></g>)}
        {y.ticks(4).filter(power).map((tick) => <g key={`y${tick}`}><line class="tick" x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} /><text class="tick-label" text-anchor="end" x={LEFT - 5} y={y(tick) + 4}>{tick}</text></g>)}
        <text class="tick-label" text-anchor="end" x={width - RIGHT} y={HEIGHT - 4}>FLOP per byte</text>
        <text class="tick-label" x={2} y={10}>TFLOP/s</text>
        {roof && <path class="roof" d={`M${roof}`} />}
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

function describe(row: Row): string {
  const share = row.attainment === null ? "attainment unknown" : `${readable("attainment", row.attainment)} of the roof`;
  return `${shortened(printable(String(row.op ?? row.class)), 120)} ${shortened(printable(String(row.dims ?? "")), 120)}: ${readable("", row.tflops)} TFLOP/s, ${readable("", row.gbps)} GB/s, ${row.bound ?? "bound unknown"}, ${share}, ${readable("_ns", row.time_ns)}`;
}

const power = (tick: number) => Number.isInteger(Math.log10(tick)) || tick.toString().startsWith("1");

function spread(values: number[], also: number[]): [number, number] {
  const all = [...values, ...also];
  return [Math.min(...all) / 1.6, Math.max(...all) * 1.6];
}
