// Hands a trace over to Perfetto's page: ours when the server has one (offline), else ui.perfetto.dev.
import { readout } from "./state";

const PATIENCE_MS = 30_000;

export async function openTrace(file: string): Promise<void> {
  // Opened at once, inside the click: a browser blocks a window that comes later.
  const page = window.open("about:blank", "_blank");
  try {
    const { address } = await (await answered(fetch("perfetto"))).json() as { address: string };
    const trace = await (await answered(fetch(`trace/${file.split("/").map(encodeURIComponent).join("/")}`))).arrayBuffer();
    if (!page) throw new Error("the browser blocked the new window");
    const target = new URL(address, location.href);
    page.location.replace(target.href);
    await handOver(page, target.origin, trace, file);
    readout.value = `${file} is in Perfetto`;
  } catch (error) {
    page?.close();
    readout.value = `Perfetto did not open ${file}: ${(error as Error).message}`;
  }
}

/** Perfetto's own protocol: PING until it answers PONG, then the bytes. */
function handOver(page: Window, origin: string, buffer: ArrayBuffer, title: string): Promise<void> {
  return new Promise((done, failed) => {
    const ping = setInterval(() => page.postMessage("PING", origin), 100);
    const patience = setTimeout(() => { stop(); failed(new Error("it did not answer")); }, PATIENCE_MS);
    const listen = (event: MessageEvent) => {
      if (event.source !== page || event.origin !== origin || event.data !== "PONG") return;
      stop();
      page.postMessage({ perfetto: { buffer, title } }, origin, [buffer]);
      done();
    };
    const stop = () => { clearInterval(ping); clearTimeout(patience); removeEventListener("message", listen); };
    addEventListener("message", listen);
  });
}

async function answered(request: Promise<Response>): Promise<Response> {
  const response = await request;
  if (!response.ok) throw new Error(`the server said ${response.status}`);
  return response;
}
