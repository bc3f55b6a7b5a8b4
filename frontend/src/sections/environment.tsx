import { Section } from "../parts";
import { payload } from "../payload";
import { DASH, printable } from "../values";

/** Versions, driver and settings; with a base, what differs is marked. */
export function Environment() {
  const { environment, base } = payload;
  const names = [...new Set([...Object.keys(environment), ...Object.keys(base?.environment ?? {})])];
  if (names.length === 0) return <Section id="environment" title="Environment"><p class="quiet">These traces come without a record of their environment.</p></Section>;
  return (
    <Section id="environment" title="Environment">
      <dl class="facts wide">
        {names.map((name) => {
          const [here, there] = [environment[name], base?.environment[name]];
          const differs = base !== null && here !== there;
          return (
            <div key={name} class={differs ? "differs" : ""}>
              <dt><bdi>{printable(name)}</bdi></dt>
              <dd>{here === undefined ? <abbr class="missing" title="not recorded in this run">{DASH}</abbr> : <bdi>{printable(here)}</bdi>}
                {differs && <small> base: {there === undefined ? DASH : <bdi>{printable(there)}</bdi>}</small>}</dd>
            </div>
          );
        })}
      </dl>
    </Section>
  );
}
