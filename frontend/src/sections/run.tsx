import { Section } from "../parts";
import { payload, tables } from "../payload";
import { DASH, printable } from "../values";

/** The run: model, device, engine, versions, ranks, and what is missing. */
export function Run() {
  const partial = [...tables.values()].some((table) => table.packed.partial);
  return (
    <Section id="run" title="Run" note={<bdi>{printable(payload.title)}</bdi>}>
      <dl class="facts">
        {payload.facts.map((fact) => (
          <div key={fact.name}>
            <dt>{fact.name}</dt>
            <dd>{fact.value === null
              ? <abbr class="missing" title={fact.missing}>{DASH} <small>{fact.missing}</small></abbr>
              : <bdi>{printable(fact.value)}</bdi>}</dd>
          </div>
        ))}
      </dl>
      {partial && <p class="partial">Something of this run was lost or damaged; figures are of what is left. <a href="#warnings" data-jump="warnings">Warnings</a> name the files.</p>}
    </Section>
  );
}
