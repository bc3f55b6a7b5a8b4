import { families, marks, sizes, sizeLabel, sourceAt, timed, weight, UNNAMED, type Cell, type Node } from "../model";
import { Choice, Name } from "../parts";
import { Scope, ScopeRow, type Frame } from "../scope";
import { choose, readout, view } from "../state";
import { DASH, printable, readable, shortened } from "../values";
import { moveFocus } from "../keys";

const FIRST = 28;
// Kinds of change, strongest first, with what marks them.
export const MARKS: [string, string, string][] = [
  ["cliff", "▲", "cliff"], ["fallback", "▽", "fallback"], ["step", "▸", "step"], ["island", "◇", "island"], ["absent", "×", "absent"], ["tile", "·", "kernel or tile"],
];

/** Family by batch size: where the time goes, with a mark where the kernel changes. */
export function HeatMap() {
  const unit = timed.value ? view.value.heat : "calls";
  const all = families.value;
  const chosen = view.value.families === "all" ? all : [...all].sort((a, b) => weight(b) - weight(a)).slice(0, FIRST);
  const rows = all.filter((node) => chosen.includes(node));
  const most = Math.max(1e-12, ...rows.flatMap((node) => [...node.cells.values()].map((cell) => figure(cell, unit) ?? 0)));
  const note = (
    <div class="scope-note">
      <Choice label="What a cell shows" value={unit} onChoose={(heat) => choose({ heat })}
        options={timed.value ? [["share", "share of replay"], ["time", "time"], ["calls", "calls"]] : [["calls", "calls"]]} />
      <span class="legend">{MARKS.filter(([kind]) => kind === "tile" || [...marks.value.values()].flat().some((mark) => mark.kind === kind)).map(([kind, glyph, words]) => <span key={kind}><b class={`mark ${kind}`}>{glyph}</b> {words}</span>)}</span>
      <span class="ramp" aria-hidden="true"><i />0 – {label(unit, most)}</span>
    </div>
  );
  return (
    <Scope id="heatmap" title="Families" note={note}>
      {(frame) => (
        <div class="heat" onKeyDown={moveFocus(".cell")}>
          {rows.map((node, at) => (
            <HeatRow key={node.path.join("\u001f")} node={node} frame={frame} unit={unit} most={most} head={at === 0 || rows[at - 1]!.path[0] !== node.path[0]} first={at === 0} />
          ))}
          {all.length > FIRST && (
            <ScopeRow label={<button class="link" onClick={() => choose({ families: view.value.families === "all" ? "top" : "all" })}>
              {view.value.families === "all" ? `the ${FIRST} heaviest` : `all ${all.length} families`}</button>}><div class="columns" /></ScopeRow>
          )}
        </div>
      )}
    </Scope>
  );
}

function HeatRow({ node, frame, unit, most, head, first }: { node: Node; frame: Frame; unit: string; most: number; head: boolean; first: boolean }) {
  return (
    <ScopeRow class={head ? "heat-row head" : "heat-row"} label={<span class="family"><span class="class">{head ? node.path[0] : ""}</span><Name text={node.name} most={frame.letters} /></span>}>
      <div class="columns cells">
        {sizes.value.map(({ key }, at) => <HeatCell key={key} node={node} at={key} before={sizes.value[at - 1]?.key} unit={unit} most={most} wide={frame.width >= 50} stop={first && at === 0} />)}
      </div>
    </ScopeRow>
  );
}

function HeatCell({ node, at, before, unit, most, wide, stop }: { node: Node; at: string; before?: string; unit: string; most: number; wide: boolean; stop: boolean }) {
  const cell = node.cells.get(at);
  const value = cell && figure(cell, unit);
  const change = marks.value.get(`${node.name ?? UNNAMED}|${at}`) ?? [];
  const previous = before === undefined ? undefined : node.cells.get(before);
  const other = change.length === 0 && cell && previous && cell.kernels !== "" && kinds(cell) !== kinds(previous);
  const kind = MARKS.find(([name]) => change.some((mark) => mark.kind === name)) ?? (other ? MARKS.at(-1) : undefined);
  const words = () => describe(node, at, cell, [...change.map((mark) => mark.text), ...(other ? [`other kernels of this family than at ${before}`] : [])]);
  const tell = () => (readout.value = words());
  return (
    <button class="cell" tabIndex={stop ? 0 : -1} style={value ? { "--v": Math.sqrt(value / most).toFixed(3) } : undefined} data-none={cell === undefined || undefined}
      aria-label={words()} onPointerEnter={tell} onFocus={tell} onClick={() => choose({ size: at, zoom: [], search: node.name ?? "" })}>
      {kind && <b class={`mark ${kind[0]}`} aria-hidden="true">{kind[1]}</b>}
      {cell && value === null && <span class="missing">{DASH}</span>}
      {wide && value !== undefined && value !== null ? <span>{label(unit, value)}</span> : null}
    </button>
  );
}

const kinds = (cell: Cell) => [...new Set(cell.kernels.split("\u001f"))].sort().join();

function figure(cell: Cell, unit: string): number | null {
  return unit === "share" ? cell.share : unit === "time" ? cell.time : cell.calls;
}

function label(unit: string, value: number): string {
  return unit === "share" ? readable("share", value) : unit === "time" ? readable("_ns", value) : String(value);
}

export function describe(node: Node, at: string, cell: Cell | undefined, changes: string[] = []): string {
  const name = `${shortened(printable(node.name ?? UNNAMED), 240)} at ${sizeLabel(at)}`;
  if (!cell) return `${name}: not launched`;
  const time = cell.time === null ? "no time" : readable("_ns", cell.time);
  const share = cell.share === null ? "" : `, ${readable("share", cell.share)} of the replay`;
  return [`${name}: ${time} in ${cell.calls ?? "?"} calls${share}; source ${sourceAt.value.get(at)}`, ...changes].join(". ");
}
