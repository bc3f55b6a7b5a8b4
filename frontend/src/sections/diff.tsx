import { Choice, Section } from "../parts";
import { payload, table, tables } from "../payload";
import { choose, view } from "../state";
import { printable } from "../values";
import { DataTable } from "./tables";

/** This run against the base run; only there when a base was given. */
export function Diff() {
  if (!tables.has("diff")) return null;
  const rows = table("diff").rows();
  const verdicts = [...new Set(rows.map((row) => String(row.verdict)))];
  const chosen = view.value.verdict;
  const shown = rows.filter((row) => chosen === "all" || (chosen === "changed" ? row.verdict !== "same" : row.verdict === chosen));
  const count = (verdict: string) => rows.filter((row) => row.verdict === verdict).length;
  const options: [string, string][] = [["changed", `changed ${rows.length - count("same")}`], ...verdicts.map((each): [string, string] => [each, `${each} ${count(each)}`]), ["all", `all ${rows.length}`]];
  return (
    <Section id="diff" title="Diff" note={<>against<br /><bdi>{printable(payload.base?.title ?? "")}</bdi></>}>
      <Choice label="Which verdicts" value={chosen} options={options} onChoose={(verdict) => choose({ verdict })} />
      {shown.length ? <DataTable columns={table("diff").columns.filter((column) => column !== "variant" || shown.some((row) => row.variant))} rows={shown} label="Differences" /> : <p class="quiet">No difference of this kind.</p>}
    </Section>
  );
}
