// What the server wrote into the page: who is signed in and how this installation is set up.

import type { Policy } from "./entities.generated";

export interface Boot {
  user: string;
  role: "viewer" | "operator" | "administrator" | null;
  admin: boolean;
  faultInjection: boolean;
  theta: number;
  /** Relative latency above which a query that is available is lost again during an incident. */
  heartbeatInterval: number;
  sessionTimeout: number;
  checkpointInterval: number;
  checkpointsKept: number;
  maxUtilisation: number;
  /** Seconds until a replacement node comes, from and to. */
  replacementDelay: [number, number];
  policyDefaults: Policy;
  planners: string[];
  algorithms: string[];
  defaultAlgorithms: string[];
  mostAlgorithms: number;
  version: string;
  assets: string;
  layoutWorker: string;
  csrfToken: string;
}

const FALLBACK: Boot = {
  user: "", role: null, admin: false, faultInjection: false, theta: 1.2, heartbeatInterval: 1, sessionTimeout: 4,
  checkpointInterval: 10, checkpointsKept: 12, maxUtilisation: 0.8, replacementDelay: [0, 0], planners: [], algorithms: [], defaultAlgorithms: [], mostAlgorithms: 8,
  policyDefaults: { method: "auto", planner: "best_density", rollback: "ancestors", approval: "automatic", rebalancing: "automatic", overload: "automatic", slow_nodes: "automatic", correlation_threshold: 2, correlation_window: 10, replication_mode: "advise", replication_planner: "structure_aware", replication_budget: null, tentative_output: "off", tentative_fidelity: 0, tentative_worth: 0.5, tentative_except: [] },
  version: "", assets: "/static/dashboard/", layoutWorker: "/static/dashboard/layout.js", csrfToken: "",
};

function read(): Boot {
  const element = typeof document === "undefined" ? null : document.getElementById("boot");
  return element?.textContent ? { ...FALLBACK, ...(JSON.parse(element.textContent) as Partial<Boot>) } : FALLBACK;
}

export const boot: Boot = read();
export const mayAct = boot.role === "operator" || boot.role === "administrator";
