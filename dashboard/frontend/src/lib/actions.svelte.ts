// Actions an operator takes: a dialog asks for the reason, the call is made once, and its outcome is followed.

import { act, ApiError, change, create, fetchOperation, newKey, remove, replace } from "./api";
import { boot, mayAct } from "./boot";
import type { Operation } from "./entities.generated";
import { store } from "./store.svelte";

export interface Consequence {
  title: string;
  items?: string[];
  tone?: "bad" | "warn" | "idle";
}

/** What the user chooses in the dialog; `name` is the field of the request, and the first option is the default. `body`:
    what is sent of an option that is more than one field. */
export interface Choice {
  name: string;
  label: string;
  options: { value: string; label: string; body?: Record<string, unknown> }[];
}

/** What the user fills in; `name` is the field of the request. */
export interface Field {
  name: string;
  label: string;
  kind: "text" | "number" | "select" | "area";
  value: string;
  options?: { value: string; label: string }[];
  optional?: true;
}

export interface Action {
  title: string;
  /** The label of the button that does it. */
  verb: string;
  path: string;
  explain: string;
  consequences: Consequence[];
  danger?: boolean;
  suggestion?: string;
  body?: Record<string, unknown>;
  choice?: Choice;
  fields?: Field[];
  /** What is sent of the fields; as they are if left out. */
  asked?: (given: Record<string, string>) => Record<string, unknown>;
  /** The same for several things at once; `path` is then the first of them. */
  paths?: string[];
  /** Done when the server has answered; otherwise an operation is followed to its end. */
  edit?: "create" | "change" | "remove" | "replace";
  /** Of what an edit was made from: the edit is refused if that has changed meanwhile. */
  tag?: string;
  /** Called once an edit is done. */
  done?: () => void;
  /** Called instead of an error in the dialog if what an edit was made from has changed. */
  outdated?: () => void;
}

export interface Notice {
  id: string;
  title: string;
  state: string;
  text: string;
  at: number;
}

const ENDED = new Set(["succeeded", "failed"]);
/** Milliseconds between two looks at what an action does: in the first five minutes, and afterwards. */
const [SOON, LATER] = [500, 10_000];
const SOON_TURNS = 300_000 / SOON;

class Actions {
  /** What the dialog asks about, or null. */
  asked = $state.raw<Action | null>(null);
  busy = $state(false);
  error = $state("");
  notices = $state.raw<Notice[]>([]);
  private key = "";
  /** Notices that are not to be shown again. */
  private readonly dismissed = new Set<string>();

  ask(action: Action): void {
    this.asked = action;
    this.error = "";
    this.key = newKey();
  }

  /** Asks about something as it is on the server now; `title` says what could not be read otherwise. */
  async askAbout<T>(title: string, read: () => Promise<T>, about: (found: T) => Action): Promise<void> {
    try {
      this.ask(about(await read()));
    } catch (error) {
      const text = error instanceof ApiError ? error.message : String(error);
      this.show({ id: newKey(), title, state: "failed", text, at: Date.now() });
    }
  }

  cancel(): void {
    if (!this.busy) this.asked = null;
  }

  /** `chosen`: the value of the action's choice, `given`: those of its fields, if it has some. */
  async confirm(reason: string, chosen = "", given: Record<string, string> = {}): Promise<void> {
    const action = this.asked;
    if (!action || this.busy) return;
    if (store.stale) {
      this.error = unreachable();
      return;
    }
    this.busy = true;
    this.error = "";
    try {
      const told = { reason, ...choiceBody(action.choice, chosen) };
      const body = { ...action.body, ...(action.asked?.(given) ?? given), ...told };
      if (action.edit) {
        const tag = action.tag ?? "";
        if (action.edit === "remove") await remove(action.path, told, tag);
        else if (action.edit === "replace") await replace(action.path, body, tag);
        else if (action.edit === "change") await change(action.path, body, tag);
        else await create(action.path, body, this.key);
        this.asked = null;
        this.done(action);
      } else {
        const paths = action.paths ?? [action.path];
        const answers = await Promise.allSettled(paths.map((path, i) => act(path, body, i ? `${this.key}-${i}` : this.key)));
        const refused = answers.filter((one) => one.status === "rejected").map((one): unknown => one.reason);
        if (refused.length === answers.length) throw refused[0];
        this.asked = null;
        const operations = answers.filter((one) => one.status === "fulfilled").map((one) => one.value);
        void this.follow(action, operations, refused.map((one) => (one instanceof ApiError ? one.message : String(one))));
      }
    } catch (error) {
      // The key stays: pressing again after a lost answer repeats the question, not the action.
      this.error = error instanceof ApiError ? error.message : String(error);
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.key = newKey();
      if (error instanceof ApiError && error.status === 412 && action.outdated) {
        this.asked = null;
        action.outdated();
      }
    } finally {
      this.busy = false;
    }
  }

  dismiss(id: string): void {
    this.dismissed.add(id);
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  private done(action: Action): void {
    const id = newKey();
    this.show({ id, title: action.title, state: "succeeded", text: "", at: Date.now() });
    setTimeout(() => this.dismiss(id), 8_000);
    action.done?.();
  }

  /** Tells how the operations go on until all have ended, or the notice was dismissed. `refused`: why others were not even begun. */
  private async follow(action: Action, begun: readonly Operation[], refused: readonly string[]): Promise<void> {
    const id = begun[0]?.id ?? newKey();
    let operations = [...begun];
    const tell = (): string => {
      const state = overall(operations, refused);
      this.show({ id, title: action.title, state, text: outcomeText(operations, refused), at: Date.now() });
      return state;
    };
    this.dismissed.delete(id);
    tell();
    for (let turn = 0; operations.some((one) => !ENDED.has(one.state)); turn += 1) {
      const soon = turn < SOON_TURNS;
      await new Promise((resolve) => setTimeout(resolve, soon ? SOON : LATER));
      operations = await Promise.all(operations.map((one) => newest(one, !soon || turn % 6 === 5)));
      if (this.dismissed.has(id)) return;
      tell();
    }
    if (tell() === "succeeded") setTimeout(() => this.dismiss(id), 8_000);
  }

  /** A notice keeps its place, so that the button beside it does not move away while others tell something. */
  private show(notice: Notice): void {
    const known = this.notices.find((other) => other.id === notice.id);
    if (!known) this.notices = [...this.notices, notice];
    else if (known.state !== notice.state || known.text !== notice.text) this.notices = this.notices.map((other) => (other === known ? notice : other));
  }
}

function choiceBody(choice: Choice | undefined, chosen: string): Record<string, unknown> {
  return choice ? (choice.options.find((option) => option.value === chosen)?.body ?? { [choice.name]: chosen }) : {};
}

/** What the events have told of an operation; asks the server when they have told nothing for a while. */
async function newest(operation: Operation, ask: boolean): Promise<Operation> {
  if (ENDED.has(operation.state) || !operation.id) return operation;
  const told = store.entities.operation.get(operation.id);
  if (told && told.state !== operation.state) return { ...operation, ...told };
  return ask ? fetchOperation(operation.id).catch(() => operation) : operation;
}

function overall(operations: readonly Operation[], refused: readonly string[]): string {
  if (operations.some((one) => !ENDED.has(one.state))) return operations.every((one) => one.state === "pending") ? "pending" : "running";
  return refused.length || operations.some((one) => one.state === "failed") ? "failed" : "succeeded";
}

function outcomeText(operations: readonly Operation[], refused: readonly string[]): string {
  const told = [...refused, ...operations.map((one) => one.error || resultText(one)).filter(Boolean)];
  const many = operations.length + refused.length;
  if (many === 1) return told[0] ?? "";
  const done = operations.filter((one) => one.state === "succeeded").length;
  return [`${done} of ${many} done.`, ...new Set(told)].join(" ");
}

function resultText(operation: Operation): string {
  const result = operation.result;
  if (result && typeof result === "object") {
    for (const name of ["message", "detail", "text"]) {
      const text = (result as Record<string, unknown>)[name];
      if (typeof text === "string") return text;
    }
  }
  return "";
}

export const actions = new Actions();

/** Why nothing can be asked of the server now, or the empty string. */
export function unreachable(): string {
  if (!store.stale) return "";
  if (store.link === "signed-out") return `${store.stale} Sign in again in another tab and come back: what you have filled in stays here.`;
  return `${store.stale} The page may be out of date. Actions are possible again when it is ${store.problem ? "up to date" : "connected"}.`;
}

/** Why the user may not act now, or the empty string. Every action button shows it. `own`: about the user's own tokens. */
export function whyNot(own = false): string {
  if (!mayAct && !(own && boot.role)) return `${boot.role ? `Your role is ${boot.role}` : "You have no role"}; this action needs the operator role.`;
  return unreachable();
}
