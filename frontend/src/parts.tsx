// Small parts that every section uses.
import type { ComponentChildren } from "preact";
import { reason } from "./payload";
import { DASH, printable, readable, shortened } from "./values";

/** A value by its column's name; a missing one is a dash with its reason. */
export function Figure({ column, value, why }: { column: string; value: unknown; why?: string }) {
  const text = readable(column, value);
  if (text !== DASH) return <span class="figure">{text}</span>;
  const words = why ?? reason(column);
  return <abbr class="missing" title={words} aria-label={`missing: ${words}`}>{DASH}</abbr>;
}

/** A name that may be very long or hostile: shown as text, cut in the middle, whole in its title. */
export function Name({ text, most = 64 }: { text: string | null | undefined; most?: number }) {
  if (text === null || text === undefined || text === "") return <Figure column="" value={null} />;
  const clean = printable(text);
  const shown = shortened(clean, most);
  return <bdi class="name" title={shown === clean ? undefined : clean.slice(0, 2000)}>{shown}</bdi>;
}

export function Section({ id, title, note, children }: { id: string; title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section id={id} class="text-section" aria-labelledby={`${id}-title`}>
      <div class="gutter"><h2 id={`${id}-title`}>{title}</h2>{note && <p class="note">{note}</p>}</div>
      <div class="body">{children}</div>
    </section>
  );
}

/** One of a few: a segmented control. */
export function Choice<T extends string>({ label, value, options, onChoose }: {
  label: string; value: T; options: [T, string][]; onChoose: (value: T) => void;
}) {
  return (
    <span class="choice" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button key={option} aria-pressed={option === value} onClick={() => onChoose(option)}>{text}</button>
      ))}
    </span>
  );
}

export const copyText = (text: string): void => void navigator.clipboard?.writeText(text);
