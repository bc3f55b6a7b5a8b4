import { size, sizeLabel, sizes, sourceAt, timed, tree, type Cell, type Node } from "../model";
import { Figure, Name } from "../parts";
import { payload, table } from "../payload";
import { Scope, ScopeRow, type Frame } from "../scope";
import { choose, readout, view } from "../state";
import { fixed, readable } from "../values";
import { describe } from "./heatmap";

const MOST_ROWS = 400;
const SEPARATOR = "\u001f";

/** The table: class, family, kernel; a number at each size, with its source under the size. */
export function Kernels() {
  const { search, sort, open } = view.value;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const roots = ordered(tree.value.map((node) => filtered(node, words)).filter((node): node is Node => node !== null), sort);
  const rows = flattened(roots, new Set(open), words.length > 0, sort);
  const leaves = rows.length > MOST_ROWS ? `first ${MOST_ROWS} of ${rows.length} rows` : `${rows.length} rows`;
  const left = table("kernels").packed.left_out;
  const note = (
    <div class="scope-note">
      <input type="search" id="search" placeholder="find a class, family or kernel  ( / )" aria-label="Find a class, family or kernel" value={search}
        onInput={(event) => choose({ search: event.currentTarget.value })} />
      <span class="quiet">{leaves}{left && ` · ${left}`}</span>
      <span class="quiet end">{timed.value ? "us per replay; a size without times shows calls" : "calls; this run has no times"}</span>
    </div>
  );
  return (
    <Scope id="kernels" title="Kernels" least={58} note={note}>
      {(frame) => (
        <div role="treegrid" aria-label="Kernels by class, family and kernel" class="tree" onKeyDown={(event) => keys(event)}>
          <ScopeRow class="tree-head" role="row" labelRole="columnheader" label={<Sort by="name" text="class, family, kernel" />}>
            <div class="columns cells" role="presentation">
              {sizes.value.map(({ key }) => <span key={key} role="columnheader"><Sort by={key} text={`${sourceAt.value.get(key) ?? "–"}`} spoken={`size ${sizeLabel(key)}, source ${sourceAt.value.get(key) ?? "none"}`} /></span>)}
            </div>
          </ScopeRow>
          {rows.slice(0, MOST_ROWS).map(({ node, expanded }, at) => <KernelRow key={node.path.join(SEPARATOR)} node={node} expanded={expanded} frame={frame} first={at === 0} />)}
          {rows.length === 0 && <ScopeRow role="row" labelRole="gridcell" label={<span class="quiet">nothing matches</span>}><div class="columns" role="presentation" /></ScopeRow>}
        </div>
      )}
    </Scope>
  );
}

function Sort({ by, text, spoken }: { by: string; text: string; spoken?: string }) {
  const current = view.value.sort;
  const direction = current === by ? "ascending" : current === `-${by}` ? "descending" : "none";
  return (
    <button class="sort" data-sort={direction} aria-label={`Sort by ${spoken ?? text}${direction === "none" ? "" : `, now ${direction}`}`}
      onClick={() => choose({ sort: direction === "descending" ? by : direction === "ascending" ? "-" : `-${by}` })}>
      {text}<i aria-hidden="true">{direction === "ascending" ? "↑" : direction === "descending" ? "↓" : ""}</i>
    </button>
  );
}

function KernelRow({ node, expanded, frame, first }: { node: Node; expanded: boolean; frame: Frame; first: boolean }) {
  const path = node.path.join(SEPARATOR);
  const branch = node.children.length > 0;
  return (
    <div role="row" class={`scope-row tree-row level-${node.level}`} aria-level={node.level + 1} aria-expanded={branch ? expanded : undefined}
      tabIndex={first ? 0 : -1} data-path={path} onClick={(event) => branch && !getSelection()?.toString() && toggle(path, event)}>
      <div class="gutter" role="rowheader"><span class="twist" aria-hidden="true">{branch ? (expanded ? "▾" : "▸") : ""}</span><Name text={node.name} most={node.level === 2 ? 90 : 48} />
        {branch && <small>{node.children.length}</small>}</div>
      <div class="columns cells" role="presentation">
        {sizes.value.map(({ key }) => (
          <span role="gridcell" key={key} class={key === size.value ? "number chosen" : "number"} onPointerEnter={() => (readout.value = describe(node, key, node.cells.get(key)))}>
            <Number cell={node.cells.get(key)} width={frame.width} />
          </span>
        ))}
      </div>
    </div>
  );
}

function Number({ cell }: { cell: Cell | undefined; width: number }) {
  if (!cell) return <span class="nothing" title="not launched at this size">·</span>;
  if (cell.time === null) return cell.calls === null ? <Figure column="calls" value={null} /> : <span class="calls" title={`${cell.calls} calls; ${payload.reasons.time_ns}`}>{cell.calls}×</span>;
  return <span title={`${readable("_ns", cell.time)} in ${cell.calls} calls, ${readable("share", cell.share)}`}>{cell.time < 1e7 ? fixed(cell.time / 1e3, 1) : fixed(cell.time / 1e3, 0)}</span>;
}

function filtered(node: Node, words: string[]): Node | null {
  if (words.length === 0 || words.every((word) => (node.name ?? "").toLowerCase().includes(word))) return node;
  const children = node.children.map((child) => filtered(child, words)).filter((child): child is Node => child !== null);
  return children.length ? { ...node, children } : null;
}

function ordered(nodes: Node[], sort: string): Node[] {
  if (sort === "-") return nodes;
  const [by, sign] = sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1];
  const value = (node: Node) => node.cells.get(by)?.time ?? node.cells.get(by)?.calls ?? -1;
  return [...nodes].sort((a, b) => sign * (by === "name" ? String(a.name).localeCompare(String(b.name)) : value(a) - value(b)));
}

function flattened(nodes: Node[], open: Set<string>, all: boolean, sort: string): { node: Node; expanded: boolean }[] {
  return nodes.flatMap((node) => {
    const expanded = (all && node.level === 0) || open.has(node.path.join(SEPARATOR));
    return [{ node, expanded }, ...(expanded ? flattened(ordered(node.children, sort), open, all, sort) : [])];
  });
}

function toggle(path: string, event: Event): void {
  const { open } = view.value;
  choose({ open: open.includes(path) ? open.filter((each) => each !== path) : [...open, path] });
  (event.currentTarget as HTMLElement).focus();
}

function keys(event: KeyboardEvent): void {
  const row = (event.target as HTMLElement).closest<HTMLElement>("[role=row][data-path]");
  if (!row) return;
  const expanded = row.getAttribute("aria-expanded");
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key] as "nextElementSibling" | "previousElementSibling" | undefined;
  if (step) focusRow(row, row[step] as HTMLElement | null);
  else if ((event.key === "ArrowRight" && expanded === "false") || (event.key === "ArrowLeft" && expanded === "true") || (event.key === "Enter" && expanded)) row.click();
  else if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
  event.preventDefault();
  event.stopPropagation();
}

function focusRow(from: HTMLElement, to: HTMLElement | null): void {
  if (!to?.dataset.path) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}
