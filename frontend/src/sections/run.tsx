import { Section } from "../parts";
import { payload, tables } from "../payload";
import { DASH, printable } from "../values";

/** The run: model, device, engine, versions, ranks, and what is missing. */
export function Run() {
  const known = payload.facts.filter((fact) => fact.value !== null);
  const reasons = [...new Set(payload.facts.filter((fact) => fact.value === null).map((fact) => fact.missing))];
  // Analyses are partial for want of data, too; files only where something was lost.
  const partial = ["shapes", "check"].some((name) => tables.get(name)?.packed.partial);
  return (
    <Section id="run" title="Run" note={<bdi>{printable(payload.title)}</bdi>}>
      <dl class="facts">
        {known.map((fact) => <div key={fact.name}><dt>{fact.name}</dt><dd><bdi>{printable(fact.value!)}</bdi></dd></div>)}
      </dl>
      {reasons.map((reason) => (
        <p key={reason} class="gaps"><span class="channel">{payload.facts.filter((fact) => fact.value === null && fact.missing === reason).map((fact) => fact.name).join(", ")}</span> {DASH} {reason}</p>
      ))}
      {partial && <p class="partial">Something of this run was lost or damaged; figures are of what is left. <a href="#warnings" data-jump="warnings">Warnings</a> name the files.</p>}
    </Section>
  );
}
