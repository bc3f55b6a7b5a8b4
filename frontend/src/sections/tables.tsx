import { useState } from "preact/hooks";
import { Name, Section } from "../parts";
import { reason, table, tables, type Row } from "../payload";
import { choose, view } from "../state";
import { DASH, heading, readable } from "../values";

const PAGE = 100;

/** Every table as the commands print it: all columns, sorted and searched. */
export function Tables() {
  const names = [...tables.keys()];
  const name = view.value.table !== null && tables.has(view.value.table) ? view.value.table : names[0];
  const [open, setOpen] = useState(view.value.table !== null);
  if (name === undefined) return null;
  const chosen = table(name);
  // A total that is a table of its own is for machines: JSON holds it.
  const totals = Object.entries(chosen.packed.summary).filter(([, value]) => value !== null && !(Array.isArray(value) && typeof value[0] === "object"));
  return (
    <Section id="tables" title="Tables" note="as the commands print them">
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{names.map((each) => `${each} ${table(each).count}`).join(" · ")}</summary>
        {open && <>
          <div class="tabs">{names.map((each) => <button key={each} aria-pressed={each === name} onClick={() => choose({ table: each, order: "", filter: "" })}>{each}</button>)}
            <input type="search" aria-label="Find in this table" placeholder="find in this table" value={view.value.filter} onInput={(event) => choose({ filter: event.currentTarget.value })} /></div>
          {chosen.packed.left_out && <p class="quiet">{chosen.packed.left_out}</p>}
          <DataTable key={name} columns={chosen.columns} rows={chosen.rows()} label={name} filter={view.value.filter} order={view.value.order} onOrder={(order) => choose({ order })} />
          {totals.length > 0 && <dl class="facts tight">{totals.map(([key, value]) => <div key={key}><dt>{heading(key)}</dt><dd>{readable(key, value)}</dd></div>)}</dl>}
        </>}
      </details>
    </Section>
  );
}

/** Rows with sortable columns, a page at a time. */
export function DataTable({ columns, rows, label, filter = "", order, onOrder }: {
  columns: string[]; rows: Row[]; label: string; filter?: string; order?: string; onOrder?: (order: string) => void;
}) {
  const [own, setOwn] = useState("");
  const [most, setMost] = useState(PAGE);
  const current = order ?? own;
  const setOrder = onOrder ?? setOwn;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? rows.filter((row) => { const text = columns.map((column) => readable(column, row[column])).join(" ").toLowerCase(); return words.every((word) => text.includes(word)); }) : rows;
  const sorted = sort(found, current);
  const numeric = new Set(columns.filter((column) => rows.every((row) => row[column] === null || row[column] === undefined || typeof row[column] === "number")));
  return (
    <div class="data" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{columns.map((column) => {
          const direction = current === column ? "ascending" : current === `-${column}` ? "descending" : undefined;
          return <th key={column} scope="col" aria-sort={direction} class={numeric.has(column) ? "number" : ""}><button onClick={() => setOrder(direction === "descending" ? column : direction === "ascending" ? "" : `-${column}`)}>{heading(column)}<i aria-hidden="true">{direction === "ascending" ? "↑" : direction === "descending" ? "↓" : ""}</i></button></th>;
        })}</tr></thead>
        <tbody>{sorted.slice(0, most).map((row, at) => (
          <tr key={at}>{columns.map((column) => <td key={column} class={numeric.has(column) ? "number" : ""}><Cell column={column} value={row[column]} /></td>)}</tr>
        ))}</tbody>
      </table>
      {sorted.length > most && <button class="link more" onClick={() => setMost(most + PAGE * 4)}>{sorted.length - most} more rows</button>}
    </div>
  );
}

function Cell({ column, value }: { column: string; value: unknown }) {
  const text = readable(column, value);
  if (text === DASH) return <abbr class="missing" title={reason(column)}>{DASH}</abbr>;
  return typeof value === "number" ? <>{text}</> : <Name text={text} most={72} />;
}

function sort(rows: Row[], order: string): Row[] {
  if (!order) return rows;
  const [column, sign] = order.startsWith("-") ? [order.slice(1), -1] : [order, 1];
  // A missing value is last in either direction: it is neither small nor large.
  return [...rows].sort((a, b) => {
    const [left, right] = [a[column] ?? null, b[column] ?? null];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return sign * (typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right)));
  });
}
