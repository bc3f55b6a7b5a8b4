import { useEffect } from "preact/hooks";
import { fetchLaunches, launchesAt } from "../launches";
import { rank, shapeAt, size, sizeLabel } from "../model";
import { copyText, Figure, Name, Section } from "../parts";
import { payload, table, type Row } from "../payload";
import { heading, printable, readable } from "../values";
import { Icicle } from "./icicle";
import { JoinStatus } from "./join";
import { Roofline } from "./roofline";
import { DataTable } from "./tables";
import { openTrace } from "../perfetto";

const HIDDEN = new Set(["runner", "size", "unit", "variant", "rank", "files", "phase", "status"]);

/** One shape in depth: its figures, the way from module to kernel, join status, roofline and launches. */
export function Shape() {
  const row = shapeAt.value.get(size.value);
  const launches = launchesAt(size.value);
  useEffect(() => void fetchLaunches(size.value), [size.value]);
  const note = <>{row ? [row.runner, row.phase, row.variant].filter(Boolean).join(" · ") : "no shape row"}<br />rank {rank.value}</>;
  return (
    <Section id="shape" title={size.value === "none" ? "Work without a size" : `Size ${sizeLabel(size.value)}`} note={note}>
      {row && <dl class="facts tight">{["status", ...table("shapes").columns.filter((column) => !HIDDEN.has(column))].map((column) => (
        <div key={column}><dt>{heading(column)}</dt><dd><Figure column={column} value={row[column]} /></dd></div>
      ))}</dl>}
      {row && <Traces files={(row.files ?? []) as string[]} />}
      <Icicle launches={launches} />
      <div class="pair">
        <JoinStatus />
        <Roofline />
      </div>
      <Launches rows={launches} />
    </Section>
  );
}

function Traces({ files }: { files: string[] }) {
  if (!files.length) return null;
  const command = "shapescope view RUN";
  return (
    <p class="traces"><span class="channel">traces</span> {files.map((file) => (
      <span key={file} class="trace"><Name text={file} most={90} />
        {payload.live && !file.endsWith(".nodes.json") && <button class="link" onClick={() => openTrace(file)}>open in Perfetto</button>}</span>
    ))}
      {!payload.live && <button class="link" onClick={() => copyText(command)} title="Copies the command: a file by mail does not carry the traces">Perfetto: {command}</button>}
    </p>
  );
}

function Launches({ rows }: { rows: Row[] }) {
  const left = table("launches").packed.left_out;
  const columns = ["seq", "kernel", "op", "dims", "types", "module", "grid", "block", "stream", "calls", "time_ns", "share", "source", "dims_source"];
  if (!rows.length) return <p class="quiet">{left ?? "This run holds no launches of this shape."}</p>;
  return (
    <details class="launches">
      <summary>{rows.length} launches in order, source {printable([...new Set(rows.map((row) => row.source))].join(", "))}{rows[0]!.time_ns === null ? "" : `, together ${readable("_ns", rows.reduce((sum, row) => sum + (row.time_ns ?? 0), 0))}`}</summary>
      <DataTable columns={columns} rows={rows} label="Launches of this shape" />
    </details>
  );
}
