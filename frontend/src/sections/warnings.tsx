import { Name, Section } from "../parts";
import { table, tables, type Warning } from "../payload";

/** What a reader must know of the data before trusting the figures. */
export function Warnings() {
  const found = new Map<string, Warning>();
  for (const each of tables.values()) for (const warning of each.packed.warnings) found.set(JSON.stringify(warning), warning);
  const left = [...tables].filter(([, each]) => each.packed.left_out !== null);
  const damaged = table("check").rows().filter((row) => row.status !== "ok" && row.status !== null);
  const count = found.size + left.length + damaged.length;
  return (
    <Section id="warnings" title="Warnings" note={count ? `${count}` : undefined}>
      {count === 0 && <p class="quiet">None.</p>}
      <ul class="warnings">
        {[...found.values()].map((warning, at) => (
          <li key={at}><code>{warning.code}</code> <Name text={warning.message} most={400} /> {warning.file && <small><Name text={warning.file} most={120} /></small>}</li>
        ))}
        {damaged.map((row, at) => (
          <li key={`file${at}`}><code>{row.status}</code> <Name text={row.file} most={160} /> {row.lost ? <small>{row.lost} events lost of {row.events + row.lost}</small> : null}</li>
        ))}
        {left.map(([name, each]) => <li key={name}><code>left-out</code> {name}: {each.packed.left_out}</li>)}
      </ul>
    </Section>
  );
}
