// REST calls with the session's cookie. Errors carry a sentence an operator can act on.

import { boot } from "./boot";
import type { AuditChoices, AuditEntry, AuditPage } from "./audit";
import type { CheckpointDetail } from "./checkpoints";
import type { Continuation } from "./continuation";
import type { Course } from "./course";
import type { Checkpoint, Entry, Incident, Operation, Plan, Rule, Sample, Snapshot } from "./entities.generated";
import type { Recent } from "./history";
import type { OperatorLog } from "./logs";
import type { OperatorDescription, OperatorProblem, OperatorRows } from "./operators";
import type { Pipeline, Verdict } from "./editing";
import type { Replicas, ReplicationPlan } from "./replication";
import type { Results } from "./results";
import type { TentativePeriod } from "./tentative";
import type { Savepoint } from "./savepoints";
import type { Settings } from "./settings";
import type { CreatedToken, Rack, Token, Version } from "./types";
import type { Prediction } from "./whatif";

const BASE = "/api/v1/";

export class ApiError extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

function csrfToken(): string {
  return /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? boot.csrfToken;
}

/** The text of an error answer: `{"errors": [{"path", "message"}]}`, or a sentence for its status. */
export function errorText(body: unknown, status: number): string {
  // It may be read after the user has signed in again, so it does not say that credentials are missing.
  if (status === 401) return "Your session had ended, and nothing was done. Once you have signed in again, send it again.";
  const errors = body && typeof body === "object" ? (body as { errors?: unknown }).errors : undefined;
  if (Array.isArray(errors) && errors.length) {
    return errors.map((error: { path?: string; message?: string }) => (error.path ? `${error.path}: ${error.message}` : String(error.message))).join(" ");
  }
  if (status === 403) return "Your role does not permit this, or you signed out in another tab. Reload the page.";
  if (status === 404) return "This no longer exists on the server.";
  return `The server answered ${status}.`;
}

const call = async <T>(path: string, init: RequestInit = {}, read?: (text: string) => string): Promise<T> => (await answer<T>(path, init, read)).body;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** JSON with whole numbers beyond 2^53, such as ids, as texts: the nearest number that JavaScript has would be another id. */
const exactly = (text: string): string => text.replace(TOKENS, (token) => (/^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token));

/** What is done once the session has ended: a page that shows nothing yet goes to sign in; one with a state keeps what was
    filled in, and says so (`store.svelte.ts`). */
export const session = { ended: (): void => location.assign(`/login/?next=${encodeURIComponent(location.pathname + location.search)}`) };

/** How long an answer is awaited. A connection that is half open gives none. */
const LONGEST_MS = 60_000;

/** The answer with its tag, by which an edit says what it was made from. */
async function answer<T>(path: string, init: RequestInit = {}, read = (text: string): string => text): Promise<{ body: T; tag: string }> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(BASE + path, { credentials: "same-origin", signal: AbortSignal.timeout(LONGEST_MS), ...init, headers: { Accept: "application/json", ...init.headers } });
    text = await response.text();
  } catch (problem) {
    const late = problem instanceof DOMException && problem.name === "TimeoutError";
    const done = init.method ? " It may have done it all the same: look before you ask again." : "";
    throw new ApiError(late ? `The server gave no answer within ${LONGEST_MS / 1000} s.${done}` : "The server cannot be reached.", 0);
  }
  let body: unknown = text;
  try {
    body = text ? JSON.parse(read(text)) : null;
  } catch {
    // An answer that is not JSON is shown as text.
  }
  if (response.status === 401 || (response.status === 403 && !boot.user)) session.ended();
  if (!response.ok) throw new ApiError(errorText(body, response.status), response.status);
  return { body: body as T, tag: response.headers.get("ETag") ?? "" };
}

export const fetchSnapshot = (): Promise<Snapshot> => call<Snapshot>("snapshot/");

/** What the sparklines of a page begin with that has just been opened. */
export const fetchRecent = (): Promise<Recent> => call<Recent>("snapshot/recent/");

/** Availability samples that are older than what the snapshot brings, oldest first: all of them, page by page. */
export async function fetchSamples(topology: string, since: number, until: number): Promise<Omit<Sample, "topology">[]> {
  const time = (at: number): string => new Date(at * 1000).toISOString();
  const samples: Omit<Sample, "topology">[] = [];
  for (;;) {
    const query = new URLSearchParams({ since: time(since), until: time(until), limit: "1000", offset: String(samples.length) });
    const page = await call<{ next: string | null; results: Omit<Sample, "topology">[] }>(`topologies/${encodeURIComponent(topology)}/availability/?${query}`);
    samples.push(...page.results);
    if (!page.next || !page.results.length) return samples;
  }
}

/** Figures of a resource from one time to another, such as `nodes/node-1/`; seconds since 1970. */
export const fetchCourse = (path: string, since: number, until: number): Promise<Course> =>
  call<Course>(`${path}measurements/?${new URLSearchParams({ since: new Date(since * 1000).toISOString(), until: new Date(until * 1000).toISOString() })}`);

/** A page of a query's committed rows, newest first; `before` is the `next` of the page before. */
export const fetchResults = (topology: string, query: string, before: string, limit: number, windows: number): Promise<Results> =>
  call<Results>(`topologies/${encodeURIComponent(topology)}/queries/${encodeURIComponent(query)}/results/?${new URLSearchParams({ limit: String(limit), windows: String(windows), before })}`, {}, exactly);

const operatorPath = (topology: string, operator: string): string => `topologies/${encodeURIComponent(topology)}/operators/${encodeURIComponent(operator)}/`;

/** How an operator is configured, and the columns of what it gets and gives. */
export const fetchOperator = (topology: string, operator: string): Promise<OperatorDescription> => call<OperatorDescription>(operatorPath(topology, operator));

/** The end of the logs of the processes that an operator runs in, as `logQuery` asks for it. */
export const fetchOperatorLog = (topology: string, operator: string, query: string): Promise<OperatorLog> => call<OperatorLog>(`${operatorPath(topology, operator)}log/?${query}`);

/** The problems of an operator, with the rows that caused them. */
export const fetchOperatorProblems = (topology: string, operator: string): Promise<OperatorProblem[]> => call<OperatorProblem[]>(`${operatorPath(topology, operator)}problems/`, {}, exactly);

/** The last rows that a partition of an operator gave; asks for them where they are not kept anyway. */
export const fetchOperatorRows = (topology: string, operator: string, partition: number, limit: number): Promise<OperatorRows> =>
  call<OperatorRows>(`${operatorPath(topology, operator)}rows/?${new URLSearchParams({ partition: String(partition), limit: String(limit) })}`, {}, exactly);

/** Asks the simulator. Changes nothing. */
export const predict = (question: Record<string, unknown>): Promise<Prediction> => send<Prediction>("POST", "what-if/", question);

/** Checkpoints of all topologies that began before a moment, newest first; `count`: how many there are. */
export async function fetchCheckpoints(before: string, limit: number): Promise<{ count: number; results: Checkpoint[] }> {
  const page = await call<{ count: number; results: Omit<Checkpoint, "refusals">[] }>(`checkpoints/?${new URLSearchParams({ until: before, limit: String(limit) })}`);
  return { count: page.count, results: page.results.map((row) => ({ ...row, refusals: {} })) };
}

/** One checkpoint, partition by partition. */
export const fetchCheckpoint = (topology: string, epoch: number): Promise<CheckpointDetail> =>
  call<CheckpointDetail>(`topologies/${encodeURIComponent(topology)}/checkpoints/${epoch}/`);

/** A page of incidents, newest first, behind so many. */
export const fetchIncidents = async (behind: number, limit: number): Promise<Incident[]> => (await call<{ results: Incident[] }>(`incidents/?${new URLSearchParams({ offset: String(behind), limit: String(limit) })}`)).results;

/** One incident with its whole story. */
export const fetchIncident = (number: number): Promise<Incident & { entries: (Omit<Entry, "incident"> & { id: number })[] }> => call(`incidents/${number}/`);

/** The plans of an incident. */
export const fetchPlans = async (incident: number): Promise<Plan[]> => (await call<{ results: Plan[] }>(`incidents/${incident}/plans/?limit=1000`)).results;

/** Which partitions are worth an active replica, as `requestOf` asks for it. Changes nothing. */
export const fetchReplicationPlan = (request: string): Promise<ReplicationPlan> => call<ReplicationPlan>(request);

/** When queries went on without a part of their input, newest first. */
export const fetchTentative = (topology: string): Promise<{ results: TentativePeriod[] }> =>
  call<{ results: TentativePeriod[] }>(`topologies/${encodeURIComponent(topology)}/tentative/?limit=100`);

/** The replicas of a topology, and what a loss would take. */
export const fetchReplicas = (topology: string): Promise<Replicas> => call<Replicas>(`topologies/${encodeURIComponent(topology)}/replicas/`);

/** A page of the audit trail, as `requestOf` asks for it. */
export const fetchAudit = (request: string): Promise<AuditPage> => call<AuditPage>(request);
export const fetchAuditEntry = (id: number): Promise<AuditEntry> => call<AuditEntry>(`audit/${id}/`);
export const fetchAuditChoices = (): Promise<AuditChoices> => call<AuditChoices>("audit/choices/");

/** What draining a rack now would do. */
export const fetchRack = (rack: string): Promise<Rack> => call<Rack>(`racks/${encodeURIComponent(rack)}/`);

export const fetchSettings = (): Promise<Settings> => call<Settings>("settings/");

/** What the newest version of a topology would go on with, deployed from its newest checkpoint. */
export const fetchContinuation = (topology: string, savepoint = ""): Promise<Continuation> =>
  call<Continuation>(`topologies/${encodeURIComponent(topology)}/continuation/${savepoint ? `?savepoint=${encodeURIComponent(savepoint)}` : ""}`);

/** Savepoints, newest first. */
export const fetchSavepoints = async (): Promise<Savepoint[]> => (await call<{ results: Savepoint[] }>("savepoints/?limit=200")).results;

/** The newest versions of a topology's specification, newest first. */
export const fetchVersions = (topology: string): Promise<{ count: number; results: Version[] }> =>
  call<{ count: number; results: Version[] }>(`topologies/${encodeURIComponent(topology)}/versions/?limit=20`);

export const fetchTokens = (): Promise<{ results: Token[] }> => call<{ results: Token[] }>("tokens/?limit=1000");
export const createToken = (body: Record<string, unknown>): Promise<CreatedToken> => send<CreatedToken>("POST", "tokens/", body);

export const fetchOperation = (id: string): Promise<Operation> => call<Operation>(`operations/${encodeURIComponent(id)}/`);

export function newKey(): string {
  // randomUUID exists in secure contexts only; a dashboard on plain HTTP is not one.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function send<T>(method: "POST" | "PATCH" | "PUT", path: string, body: Record<string, unknown>, headers: Record<string, string> = {}): Promise<T> {
  return call<T>(path, {
    method,
    headers: { "Content-Type": "application/json", "X-CSRFToken": csrfToken(), ...headers },
    body: JSON.stringify(body),
  });
}

/** Asks for an action; the same `key` never runs it twice. */
export const act = (path: string, body: Record<string, unknown>, key: string): Promise<Operation> =>
  send<Operation>("POST", path, body, { "Idempotency-Key": key });

/** Makes what is there at once: the answer is the new thing, no operation. */
export const create = (path: string, body: Record<string, unknown>, key: string): Promise<unknown> =>
  send<unknown>("POST", path, body, { "Idempotency-Key": key });

/** With a tag an edit is refused if what it was made from has changed meanwhile. */
const ifMatch = (tag: string): Record<string, string> => (tag ? { "If-Match": tag } : {});

/** Changes what is done at once: the answer is the new state, no operation. */
export const change = (path: string, body: Record<string, unknown>, tag: string): Promise<unknown> =>
  send<unknown>("PATCH", path, body, ifMatch(tag));

/** Puts the whole of something new in place of what has this tag. */
export const replace = (path: string, body: Record<string, unknown>, tag: string): Promise<unknown> =>
  send<unknown>("PUT", path, body, ifMatch(tag));

/** The tag of something as it is now, for an edit that holds only for that. */
export const fetchTag = async (path: string): Promise<string> => (await answer<unknown>(path)).tag;

/** A rule as it is now, and its tag. */
export async function fetchRule(name: string): Promise<{ rule: Rule; tag: string }> {
  const { body, tag } = await answer<Rule>(`alert-rules/${encodeURIComponent(name)}/`);
  return { rule: body, tag };
}

/** A specification as text, and the tag of the newest version. */
export async function fetchSpecification(topology: string): Promise<{ version: number; text: string; tag: string }> {
  const { body, tag } = await answer<{ version: number; text: string }>(`topologies/${encodeURIComponent(topology)}/specification/`);
  return { ...body, tag };
}

/** Ready-made topologies to begin with. */
export const fetchPipelines = (): Promise<Pipeline[]> => call<Pipeline[]>("pipelines/");

/** Everything that is wrong with a specification. Changes nothing. */
export const validateSpecification = (text: string): Promise<Verdict> => send<Verdict>("POST", "topologies/validate/", { spec: text });

/** Takes something away at once. What is told, such as the reason, stands in the address: a DELETE has no body to rely on. */
export const remove = (path: string, told: Record<string, string>, tag: string): Promise<unknown> =>
  call<unknown>(`${path}?${new URLSearchParams(told)}`, { method: "DELETE", headers: { "X-CSRFToken": csrfToken(), ...ifMatch(tag) } });
