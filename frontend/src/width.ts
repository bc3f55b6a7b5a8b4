import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

/** The width of an element and of the page's gutter, in pixels, as they are and as they change. */
export function useWidth(holder: RefObject<HTMLElement | null>): [number, number] {
  const [widths, setWidths] = useState<[number, number]>([800, 264]);
  useLayoutEffect(() => {
    const element = holder.current!;
    const measure = () => {
      const gutter = parseFloat(getComputedStyle(element).getPropertyValue("--gutter"));
      setWidths((last) => (last[0] === element.clientWidth && last[1] === gutter ? last : [element.clientWidth, gutter]));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return widths;
}
