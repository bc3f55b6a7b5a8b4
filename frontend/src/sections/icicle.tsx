// From module to op to kernel, as wide as the time it takes (or the launches, where there is no time).
import { hierarchy, partition, type HierarchyRectangularNode } from "d3-hierarchy";
import { useMemo, useRef } from "preact/hooks";
import { moveFocus } from "../keys";
import { UNNAMED } from "../model";
import type { Row } from "../payload";
import { choose, readout, view } from "../state";
import { printable, readable, shortened } from "../values";
import { useWidth } from "../width";

interface Part { name: string; value: number; calls: number; instances: Set<string>; children: Map<string, Part> }
type Placed = HierarchyRectangularNode<Part>;
const ROW = 30;
const LEVELS = ["replay", "module", "op", "kernel"];

export function Icicle({ launches }: { launches: Row[] }) {
  const holder = useRef<HTMLDivElement>(null);
  const [width] = useWidth(holder);
  const timed = launches.some((row) => row.time_ns !== null);
  const root = useMemo(() => placed(launches, timed), [launches, timed]);
  const zoomed = root.descendants().find((node) => pathOf(node).join("\u001f") === view.value.zoom.join("\u001f")) ?? root;
  const scale = (x: number) => ((x - zoomed.x0) / (zoomed.x1 - zoomed.x0)) * width;
  const shown = root.descendants().filter((node) => scale(node.x1) > 0.5 && scale(node.x0) < width - 0.5 && scale(node.x1) - scale(node.x0) >= 1);
  const zoom = (node: Placed) => choose({ zoom: node === zoomed ? pathOf(node.parent ?? root) : pathOf(node) });
  return (
    <figure class="icicle" ref={holder}>
      <figcaption><span class="channel">module → op → kernel</span> <span class="quiet">{launches.length ? `width is ${timed ? "time" : "launches"}; click or Enter zooms, Escape goes back` : "no launches at hand for this shape"}</span></figcaption>
      {launches.length > 0 && (
        <svg width={width} height={ROW * 4} role="group" aria-label="Time from module to op to kernel"
          onKeyDown={(event) => { if (event.key === "Escape") { choose({ zoom: [] }); event.stopPropagation(); } else moveFocus(".part")(event); }}>
          {shown.map((node) => {
            const [x0, x1] = [Math.max(0, scale(node.x0)), Math.min(width, scale(node.x1))];
            const words = describe(node, root, timed);
            return (
              <g key={pathOf(node).join("\u001f") || "root"} class={`part depth-${node.depth}`} tabIndex={node === root ? 0 : -1} role="button" aria-label={words}
                style={{ "--v": String(Math.min(1, node.value! / root.value!)) }}
                onClick={() => zoom(node)} onFocus={() => (readout.value = words)} onPointerEnter={() => (readout.value = words)}
                onKeyDown={(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(node); } }}>
                <rect x={x0 + 0.5} y={node.depth * ROW + 0.5} width={Math.max(0.5, x1 - x0 - 1)} height={ROW - 1} />
              </g>
            );
          })}
          <g aria-hidden="true" class="names">
            {shown.map((node) => {
              const [x0, x1] = [Math.max(0, scale(node.x0)), Math.min(width, scale(node.x1))];
              const room = Math.floor((x1 - x0 - 10) / 6.7);
              return room > 2 && <text key={pathOf(node).join("\u001f") || "root"} x={x0 + 6} y={node.depth * ROW + 19}>{shortened(printable(title(node, root)), room)}</text>;
            })}
          </g>
        </svg>
      )}
    </figure>
  );
}

function title(node: Placed, root: Placed): string {
  return node === root ? "replay" : node.data.name;
}

function describe(node: Placed, root: Placed, timed: boolean): string {
  const amount = timed ? readable("_ns", node.value!) : `${node.value} launches`;
  const instances = node.depth === 1 && node.data.instances.size > 1 ? ` (${node.data.instances.size} instances)` : "";
  const name = shortened(printable(title(node, root)), 300);
  return `${LEVELS[node.depth]} ${name}${instances}: ${amount}, ${readable("share", node.value! / root.value!)}, ${node.data.calls} calls`;
}

function pathOf(node: Placed): string[] {
  return node.ancestors().reverse().slice(1).map((each) => each.data.name);
}

function placed(launches: Row[], timed: boolean): Placed {
  const root: Part = empty("replay");
  for (const row of launches) {
    const value = timed ? (row.time_ns ?? 0) : (row.calls ?? 1);
    const module = (row.module as string | null) ?? "no module";
    // `RMSNorm_12` is one of many RMSNorm: layers of a kind stand together.
    const path = [module.replace(/_\d+$/, ""), row.op ?? "no op", row.family ?? row.kernel ?? UNNAMED] as string[];
    let part = root;
    part.calls += row.calls ?? 1;
    path.forEach((name, depth) => {
      let child = part.children.get(name);
      if (!child) part.children.set(name, (child = empty(name)));
      child.calls += row.calls ?? 1;
      child.instances.add(module);
      if (depth === 2) child.value += value;
      part = child;
    });
  }
  const tree = hierarchy(root, (part) => [...part.children.values()]).sum((part) => (part.children.size ? 0 : part.value));
  return partition<Part>().size([1, 4])(tree.sort((a, b) => b.value! - a.value!));
}

const empty = (name: string): Part => ({ name, value: 0, calls: 0, instances: new Set(), children: new Map() });
