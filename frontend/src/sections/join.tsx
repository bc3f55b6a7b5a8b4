import { Figure } from "../parts";
import { table, tables } from "../payload";
import { readable } from "../values";

const STATUSES: [string, string][] = [
  ["exact", "by the graph's own node ids"], ["aligned", "by order, names and grids"], ["ambiguous", "several launches fit: dims withheld"],
  ["conflict", "name or grid disagree: dims withheld"], ["unverified", "nothing to check against: dims withheld"], ["missing", "captured, but not seen in the replay"],
];

/** How many replayed kernels know which op, shapes and module they came from. */
export function JoinStatus() {
  if (!tables.has("join")) return null;
  const { summary, left_out: left } = table("join").packed;
  const known = STATUSES.filter(([name]) => typeof summary[name] === "number");
  const total = known.reduce((sum, [name]) => sum + summary[name], 0);
  return (
    <figure class="join">
      <figcaption><span class="channel">join of replay to capture</span> <span class="quiet">whole run{left && `; ${left}`}</span></figcaption>
      {total === 0 ? <p class="quiet">Nothing was joined: this run holds no replay, or no capture that names its kernels.</p> : (
        <>
          <div class="stack" aria-hidden="true">{known.filter(([name]) => summary[name] > 0).map(([name]) => <i key={name} class={name} style={{ flexGrow: summary[name] }} />)}</div>
          <table class="plain">
            <tbody>{known.map(([name, words]) => (
              <tr key={name}><th scope="row"><i class={`swatch ${name}`} aria-hidden="true" />{name}</th><td class="number">{summary[name]}</td><td class="number">{readable("share", summary[name] / total)}</td><td class="quiet">{words}</td></tr>
            ))}</tbody>
          </table>
          <p class="quiet">kernel time attributed: <Figure column="share" value={summary.time_ns ? summary.attributed_time_ns / summary.time_ns : null} /> of <Figure column="_ns" value={summary.time_ns} />
            {" "}· replays complete: <Figure column="" value={summary.complete_launches} /> of <Figure column="" value={summary.launches} /></p>
        </>
      )}
    </figure>
  );
}
