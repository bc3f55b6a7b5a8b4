// The instrument's frame: a gutter of labels and one column a size, the same columns for every strip, map and table.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { size, sizeLabel, sizes, sourceAt } from "./model";
import { choose, hovered } from "./state";
import { useWidth } from "./width";

const NARROWEST = 26;
const WIDEST = 168;

/** `width` of a column and `total` of all, in pixels; `letters` that a family's label has room for. */
export interface Frame { width: number; total: number; index: Map<string, number>; letters: number }

/** Children get the width of one column; rows are `ScopeRow`s. */
export function Scope({ title, id, note, least = NARROWEST, children }: {
  title: string; id: string; note?: ComponentChildren; least?: number; children: (frame: Frame) => ComponentChildren;
}) {
  const holder = useRef<HTMLDivElement>(null);
  const [whole, gutter] = useWidth(holder);
  const room = Math.max(0, whole - gutter);
  const count = Math.max(1, sizes.value.length);
  const width = Math.min(WIDEST, Math.max(least, Math.floor(room / count)));
  const index = new Map(sizes.value.map((each, at) => [each.key, at]));
  const frame = { width, total: width * count, index, letters: Math.floor((gutter - (gutter < 200 ? 14 : 92)) / 7) };
  const chosen = index.get(size.value) ?? 0;
  useLayoutEffect(() => {
    // On a narrow screen the chosen column may be out of sight.
    const element = holder.current!;
    const [left, right] = [chosen * width, (chosen + 1) * width];
    if (right > element.scrollLeft + room || left < element.scrollLeft) element.scrollLeft = left - room / 2;
  }, [chosen, width, room]);
  const pointed = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).querySelector(".columns")?.getBoundingClientRect();
    const at = box ? Math.floor((event.clientX - box.left) / width) : -1;
    hovered.value = sizes.value[at]?.key ?? null;
  };
  return (
    <section id={id} class="scope-section" aria-labelledby={`${id}-title`}>
      {note}
      <div class="scope" ref={holder} tabIndex={room < frame.total ? 0 : undefined} role="group" aria-labelledby={`${id}-title`}
        onPointerMove={pointed} onPointerLeave={() => (hovered.value = null)}>
        <div class="scope-inner" style={{ "--w": `${width}px`, "--total": `${frame.total}px` }}>
          <ScopeRow class="scope-head" label={<h2 id={`${id}-title`}>{title}</h2>}>
            <div class="columns sizes">
              {sizes.value.map(({ key }) => (
                <button key={key} class="size" aria-pressed={key === size.value} onClick={() => choose({ size: key, zoom: [] })}
                  title={`size ${sizeLabel(key)}; kernels from ${sourceAt.value.get(key) ?? "no source"}`}>
                  {sizeLabel(key)}
                </button>
              ))}
            </div>
          </ScopeRow>
          {children(frame)}
          <Cursor kind="selected" at={index.get(size.value)} />
          <Hover index={index} />
        </div>
      </div>
    </section>
  );
}

export function ScopeRow({ label, children, class: name = "", role, labelRole }: {
  label: ComponentChildren; children: ComponentChildren; class?: string; role?: "row"; labelRole?: "columnheader" | "gridcell";
}) {
  return (
    <div class={`scope-row ${name}`} role={role}>
      <div class="gutter" role={labelRole}>{label}</div>
      {children}
    </div>
  );
}

function Hover({ index }: { index: Map<string, number> }) {
  return <Cursor kind="hover" at={hovered.value === null ? undefined : index.get(hovered.value)} />;
}

function Cursor({ kind, at }: { kind: string; at: number | undefined }) {
  return at === undefined ? null : <div class={`cursor ${kind}`} style={{ left: `calc(var(--gutter) + ${at} * var(--w))` }} />;
}
