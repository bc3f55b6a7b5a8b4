/** Arrow keys move the focus between the elements of a grid, by where they stand on the screen. */
export function moveFocus(selector: string) {
  return (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    const from = (event.target as HTMLElement).closest<HTMLElement>(selector);
    if (!move || !from) return;
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(selector)];
    const to = nearest(from, all, move);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    from.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  };
}

function nearest(from: Element, all: HTMLElement[], [dx, dy]: [number, number]): HTMLElement | undefined {
  const here = from.getBoundingClientRect();
  let best: HTMLElement | undefined;
  let least = Infinity;
  for (const each of all) {
    const box = each.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2 - here.left - here.width / 2, box.top + box.height / 2 - here.top - here.height / 2];
    const along = dx * x + dy * y;
    const across = Math.abs(dx * y) + Math.abs(dy * x);
    const distance = along + across * 3;
    if (each !== from && along > 1 && distance < least) [best, least] = [each, distance];
  }
  return best;
}
