import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { allGraphs, graphs, graphsLabel, rank, ranks, size, sizes } from "./model";
import { jump } from "./jump";
import { payload, tables } from "./payload";
import { choose, readout, view, type View } from "./state";
import { printable, shortened } from "./values";
import { Curves } from "./sections/curves";
import { Diff } from "./sections/diff";
import { Environment } from "./sections/environment";
import { Findings } from "./sections/findings";
import { HeatMap } from "./sections/heatmap";
import { Kernels } from "./sections/kernels";
import { Ranks } from "./sections/ranks";
import { Run } from "./sections/run";
import { Shape } from "./sections/shape";
import { Tables } from "./sections/tables";
import { Warnings } from "./sections/warnings";

const PLACES: [string, string][] = [
  ["run", "Run"], ["findings", "Findings"], ["curves", "Batch size"], ["heatmap", "Families"], ["kernels", "Kernels"], ["shape", "Shape"],
  ["ranks", "Ranks"], ["diff", "Diff"], ["environment", "Environment"], ["warnings", "Warnings"], ["tables", "Tables"],
];
const THEMES: View["theme"][] = ["auto", "light", "dark"];

/** Whether the sections below the fold are drawn: they wait until the first are on the screen. */
const whole = signal(false);

export function Page() {
  useEffect(() => void requestAnimationFrame(() => setTimeout(() => (whole.value = true))), []);
  useEffect(() => {
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  }, []);
  const { theme } = view.value;
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  const places = PLACES.filter(([id]) => (id !== "diff" && id !== "findings") || tables.has(id));
  return (
    <>
      <header class="top">
        <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); jump("run"); }}>To the content</a>
        <h1><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M1 14.5V9.5H5V6H9.5V2H15V14.5Z" /></svg>shapescope <bdi>{shortened(printable(payload.title), 48)}</bdi></h1>
        <nav aria-label="Sections">{places.map(([id, text]) => <a key={id} href={`#${id}`} onClick={(event) => { event.preventDefault(); jump(id); }}>{text}</a>)}</nav>
        <div class="controls">
          {allGraphs.length > 1 && <Select label="graphs" value={graphs.value} options={allGraphs.map((key) => [key, shortened(printable(graphsLabel(key)), 40)])} onChoose={(key) => choose({ graphs: key, zoom: [] })} />}
          {ranks.value.length > 1 && <Select label="rank" value={rank.value} options={ranks.value.map((each) => [each, each])} onChoose={(each) => choose({ rank: each })} />}
          <button class="theme" onClick={() => nextTheme()} aria-label={`Theme: ${theme}`} title="Theme (t)">{{ auto: "◐", light: "○", dark: "●" }[theme]}</button>
        </div>
      </header>
      <main id="main">
        <Run /><Findings /><Curves />
        {whole.value && <><HeatMap /><Kernels /><Shape /><Ranks /><Diff /><Environment /><Warnings /><Tables /></>}
      </main>
      <Foot />
    </>
  );
}

function Select({ label, value, options, onChoose }: { label: string; value: string; options: [string, string][]; onChoose: (value: string) => void }) {
  return (
    <label>{label} <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>{options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}</select></label>
  );
}

/** The line at the foot: what is under the pointer or the focus, in words. */
function Foot() {
  return (
    <footer class="readout"><output aria-live="polite">{readout.value || "Point at anything, or use the keyboard: ← → size, / find, t theme, Tab and arrows within a chart."}</output>
      <span class="version">{payload.live ? "live · " : ""}shapescope {payload.version}</span></footer>
  );
}

function nextTheme(): void {
  choose({ theme: THEMES[(THEMES.indexOf(view.value.theme) + 1) % THEMES.length]! });
}

function keys(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
  else if (event.key === "t") nextTheme();
  else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !target.closest(".data, .scope[tabindex='0']:focus")) {
    const keysOfSizes = sizes.value.map((each) => each.key);
    const next = keysOfSizes[keysOfSizes.indexOf(size.value) + (event.key === "ArrowLeft" ? -1 : 1)];
    if (next !== undefined) { event.preventDefault(); choose({ size: next, zoom: [] }); }
  }
}
