// Pages and their addresses. Selections live in the query string, so that every view can be sent as a link.

export type Page =
  | { name: "fleet" }
  | { name: "topology"; topology: string }
  | { name: "query"; topology: string; query: string }
  | { name: "nodes" }
  | { name: "incidents" }
  | { name: "incident"; number: number }
  | { name: "what-if" }
  | { name: "checkpoints" }
  | { name: "alerts" }
  | { name: "audit" }
  | { name: "faults" }
  | { name: "settings" }
  | { name: "editor" }
  | { name: "missing"; path: string };

export function parse(path: string): Page {
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { name: "missing", path }; // such as an address that was cut off behind a %
  }
  const [first, second] = parts;
  if (first === "topologies" && parts[2] === "queries" && parts.length === 4) return { name: "query", topology: second ?? "", query: parts[3] ?? "" };
  if (first === undefined || first === "topologies") {
    return second === undefined ? { name: "fleet" } : { name: "topology", topology: second };
  }
  if (first === "nodes" && parts.length === 1) return { name: "nodes" };
  if (first === "incidents" && parts.length === 1) return { name: "incidents" };
  if (first === "incidents" && second && /^\d+$/.test(second) && parts.length === 2) return { name: "incident", number: Number(second) };
  for (const name of ["what-if", "checkpoints", "alerts", "audit", "faults", "settings", "editor"] as const) if (first === name && parts.length === 1) return { name };
  return { name: "missing", path };
}

export const paths = {
  fleet: () => "/",
  topology: (name: string, query: Record<string, string> = {}) => withQuery(`/topologies/${encodeURIComponent(name)}/`, query),
  query: (topology: string, query: string) => `/topologies/${encodeURIComponent(topology)}/queries/${encodeURIComponent(query)}/`,
  nodes: (query: Record<string, string> = {}) => withQuery("/nodes/", query),
  incidents: () => "/incidents/",
  incident: (number: number) => `/incidents/${number}/`,
  whatIf: (query: Record<string, string> = {}) => withQuery("/what-if/", query),
  checkpoints: (query: Record<string, string> = {}) => withQuery("/checkpoints/", query),
  alerts: (query: Record<string, string> = {}) => withQuery("/alerts/", query),
  audit: (query: Record<string, string> = {}) => withQuery("/audit/", query),
  faults: (query: Record<string, string> = {}) => withQuery("/faults/", query),
  editor: (query: Record<string, string> = {}) => withQuery("/editor/", query),
  settings: (query: Record<string, string> = {}) => withQuery("/settings/", query),
};

function withQuery(path: string, query: Record<string, string>): string {
  const text = new URLSearchParams(query).toString();
  return text ? `${path}?${text}` : path;
}

class Router {
  path = $state(typeof location === "undefined" ? "/" : location.pathname);
  query = $state.raw(new URLSearchParams(typeof location === "undefined" ? "" : location.search));
  page = $derived(parse(this.path));
  kiosk = $derived(this.query.has("kiosk"));
  /** Seconds that a wall display stays on one page; 0 where it stays for good. */
  kioskSeconds = $derived(Number(this.query.get("kiosk")) >= 5 ? Number(this.query.get("kiosk")) : 0);

  start(): void {
    addEventListener("popstate", () => this.read());
    document.addEventListener("click", (event) => {
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      const link = (event.target as Element).closest?.("a");
      if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
      if (parse(link.pathname).name === "missing") return; // the server's own pages: admin, API, sign out
      event.preventDefault();
      this.go(link.pathname + link.search);
    });
  }

  go(address: string): void {
    // A wall display stays one from page to page.
    if (this.kiosk && !/[?&]kiosk/.test(address)) address += `${address.includes("?") ? "&" : "?"}kiosk=${this.query.get("kiosk") || 1}`;
    if (address !== location.pathname + location.search) history.pushState(null, "", address);
    const before = this.path;
    this.read();
    if (before !== this.path) scrollTo(0, 0);
  }

  /** Changes parts of the query string; null removes one. Does not add to the browser's history unless asked. */
  set(changes: Record<string, string | null>, push = false): void {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    const address = text ? `${location.pathname}?${text}` : location.pathname;
    if (push) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.read();
  }

  private read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }
}

export const router = new Router();
