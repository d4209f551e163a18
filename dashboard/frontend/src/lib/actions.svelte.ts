// Actions an operator takes: a dialog asks for the reason, the call is made once, and its outcome is followed.

import { act, ApiError, change, fetchOperation, newKey } from "./api";
import { boot, mayAct } from "./boot";
import { store } from "./store.svelte";
import type { Operation } from "./types";

export interface Consequence {
  title: string;
  items?: string[];
  tone?: "bad" | "warn" | "idle";
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
  /** An edit, done when the server has answered; otherwise an operation is followed to its end. */
  edit?: boolean;
}

export interface Notice {
  id: string;
  title: string;
  state: string;
  text: string;
  at: number;
}

const ENDED = new Set(["succeeded", "failed"]);

class Actions {
  /** What the dialog asks about, or null. */
  asked = $state.raw<Action | null>(null);
  busy = $state(false);
  error = $state("");
  notices = $state.raw<Notice[]>([]);
  private key = "";

  ask(action: Action): void {
    this.asked = action;
    this.error = "";
    this.key = newKey();
  }

  cancel(): void {
    if (!this.busy) this.asked = null;
  }

  async confirm(reason: string): Promise<void> {
    const action = this.asked;
    if (!action || this.busy) return;
    this.busy = true;
    this.error = "";
    try {
      const body = { ...action.body, reason };
      if (action.edit) {
        await change(action.path, body, this.key);
        this.asked = null;
        this.done(action);
      } else {
        const operation = await act(action.path, body, this.key);
        this.asked = null;
        void this.follow(action, operation);
      }
    } catch (error) {
      // The key stays: pressing again after a lost answer repeats the question, not the action.
      this.error = error instanceof ApiError ? error.message : String(error);
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.key = newKey();
    } finally {
      this.busy = false;
    }
  }

  dismiss(id: string): void {
    this.notices = this.notices.filter((notice) => notice.id !== id);
  }

  private done(action: Action): void {
    const id = newKey();
    this.show({ id, title: action.title, state: "succeeded", text: "", at: Date.now() });
    setTimeout(() => this.dismiss(id), 8_000);
  }

  private async follow(action: Action, first: Operation): Promise<void> {
    const id = first.id ?? newKey();
    this.show({ id, title: action.title, state: first.state ?? "pending", text: "", at: Date.now() });
    let operation = first;
    for (let turn = 0; !ENDED.has(operation.state) && turn < 600; turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      const told = store.entities.operation.get(id);
      if (told && told.state !== operation.state) operation = { ...operation, ...told };
      else if (turn % 6 === 5 && first.id) operation = await fetchOperation(id).catch(() => operation);
      this.show({ id, title: action.title, state: operation.state, text: operation.error || outcomeText(operation), at: Date.now() });
    }
    this.show({ id, title: action.title, state: operation.state, text: operation.error || outcomeText(operation), at: Date.now() });
    if (operation.state === "succeeded") setTimeout(() => this.dismiss(id), 8_000);
  }

  private show(notice: Notice): void {
    const others = this.notices.filter((other) => other.id !== notice.id);
    this.notices = [...others, notice].slice(-4);
  }
}

function outcomeText(operation: Operation): string {
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

/** Why nobody may act now, or the empty string. Every action button shows it. */
export function whyNot(): string {
  if (!mayAct) return `You are signed in as ${boot.role ?? "nobody"}; acting needs the operator role.`;
  if (store.link === "lost") return "Not connected: the page may be out of date. It acts again once it has reconnected.";
  return "";
}
