/** Scroll to a section and hand it the keyboard; the hash stays for the state. */
export function jump(id: string): void {
  const section = document.getElementById(id);
  if (!section) return;
  section.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
  const title = section.querySelector<HTMLElement>("h2");
  title?.setAttribute("tabindex", "-1");
  title?.focus({ preventScroll: true });
}
