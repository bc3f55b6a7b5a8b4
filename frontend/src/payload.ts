// The payload that the page was made with (src/shapescope/show/page.py), unpacked column by column as it is asked for.

export type Row = Record<string, any>;
type Packed = { all: unknown } | { words: unknown[]; at: number[] } | { values: unknown[] };

export interface Warning { code: string; message: string; file: string | null }
export interface Fact { name: string; value: string | null; missing: string }

interface PackedTable {
  command: string;
  columns: string[];
  count: number;
  data: Record<string, Packed>;
  summary: Row;
  warnings: Warning[];
  partial: boolean;
  streams: Row[] | null;
  left_out: string | null;
}

interface Payload {
  schema: number;
  version: string;
  live: boolean;
  title: string;
  facts: Fact[];
  tables: Record<string, PackedTable>;
  environment: Record<string, string>;
  device: { name: string; peak: Record<string, number>; bandwidth: number | null } | null;
  base: { title: string; environment: Record<string, string> } | null;
  reasons: Record<string, string>;
}

/** One table: columns as arrays, rows by number. A column that the table lacks is all null. */
export class Table {
  private cache = new Map<string, any[]>();
  readonly columns: string[];
  readonly count: number;
  constructor(readonly packed: PackedTable) {
    this.columns = packed.columns;
    this.count = packed.count;
  }

  column(name: string): any[] {
    let values = this.cache.get(name);
    if (!values) {
      const packed = this.packed.data[name];
      if (!packed) values = new Array(this.count).fill(null);
      else if ("all" in packed) values = new Array(this.count).fill(packed.all);
      else if ("words" in packed) values = packed.at.map((at) => packed.words[at]);
      else values = packed.values;
      this.cache.set(name, values);
    }
    return values;
  }

  row(at: number): Row {
    const row: Row = {};
    for (const name of this.columns) row[name] = this.column(name)[at];
    return row;
  }

  rows(): Row[] {
    return Array.from({ length: this.count }, (_, at) => this.row(at));
  }
}

const EMPTY: PackedTable = {
  command: "", columns: [], count: 0, data: {}, summary: {}, warnings: [], partial: false, streams: null, left_out: null,
};

export const payload: Payload = JSON.parse(document.getElementById("payload")!.textContent!);
export const tables = new Map(Object.entries(payload.tables).map(([name, packed]) => [name, new Table(packed)]));

export function table(name: string): Table {
  return tables.get(name) ?? new Table(EMPTY);
}

/** Why this column has no value here. */
export function reason(column: string): string {
  return payload.reasons[column] ?? "not recorded";
}
