import { Figure, Name, Section } from "../parts";
import { table, tables, type Row } from "../payload";
import { choose } from "../state";
import { jump } from "../jump";

const GLYPHS: Record<string, string> = { high: "●", medium: "◐", low: "○", info: "·" };

/** What is worth a look, each with its evidence and the command that shows it. */
export function Findings() {
  if (!tables.has("findings")) return null;
  const rows = table("findings").rows();
  const note = rows.length ? `${rows.length} worth a look` : undefined;
  return (
    <Section id="findings" title="Findings" note={note}>
      {rows.length === 0 && <p class="quiet">Nothing was found by the rules that this version knows.</p>}
      <ol class="findings">{rows.map((row, at) => <Finding key={at} row={row} />)}</ol>
    </Section>
  );
}

function Finding({ row }: { row: Row }) {
  const severity = String(row.severity ?? "info");
  const cost = row.cost_ns ?? row.cost_bytes ?? null;
  const column = row.cost_ns === null || row.cost_ns === undefined ? "cost_bytes" : "cost_ns";
  return (
    <li class={`finding ${severity}`}>
      <span class="severity" title={`severity ${severity}`}><span aria-hidden="true">{GLYPHS[severity] ?? "·"}</span><span class="word">{severity}</span></span>
      <div>
        <p class="what"><Name text={row.what ?? row.kind ?? row.code} most={240} /></p>
        <p class="evidence">
          <Name text={evidence(row.evidence)} most={320} />
          {row.command && <code><Name text={row.command} most={120} /></code>}
        </p>
      </div>
      <span class="cost"><Figure column={column} value={cost} why="this finding has no cost in time or memory" /></span>
      <span>{row.size === null ? null : (
        <button class="link" onClick={() => { choose({ size: String(row.size), zoom: [] }); jump("shape"); }}>size {row.size}</button>
      )}</span>
    </li>
  );
}

function evidence(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);
}
