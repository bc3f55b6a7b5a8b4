// What the reader has chosen. It lives in the URL's hash, so that a link shows what its sender saw.
import { signal } from "@preact/signals";

export interface View {
  graphs: string | null;
  rank: string | null;
  size: string | null;
  heat: "share" | "time" | "calls";
  families: "top" | "all";
  search: string;
  sort: string;
  open: string[];
  zoom: string[];
  verdict: string;
  table: string | null;
  filter: string;
  order: string;
  theme: "auto" | "light" | "dark";
}

const DEFAULTS: View = {
  graphs: null, rank: null, size: null, heat: "share", families: "top", search: "", sort: "-", open: [], zoom: [],
  verdict: "changed", table: null, filter: "", order: "", theme: "auto",
};

export const view = signal<View>(parse(location.hash));
/** The column under the pointer. */
export const hovered = signal<string | null>(null);
/** What the line at the foot of the page says. */
export const readout = signal<string>("");

export function choose(change: Partial<View>): void {
  view.value = { ...view.value, ...change };
  history.replaceState(null, "", spell(view.value) || location.href.split("#")[0]);
}

window.addEventListener("hashchange", () => (view.value = parse(location.hash)));

function parse(hash: string): View {
  const found: Record<string, unknown> = { ...DEFAULTS };
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    if (!(name in DEFAULTS)) continue;
    found[name] = Array.isArray(DEFAULTS[name as keyof View]) ? text.split("\u001f") : text;
  }
  return found as unknown as View;
}

function spell(state: View): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const text = Array.isArray(value) ? value.join("\u001f") : value;
    if (text !== null && text !== "" && text !== DEFAULTS[name as keyof View]) words.set(name, text);
  }
  const spelled = words.toString();
  return spelled && `#${spelled}`;
}
