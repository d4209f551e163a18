// The one store: snapshot over REST, numbered events over the websocket, and how fresh it all is.

import { fetchRecent, fetchSnapshot, ApiError, session } from "./api";
import { Connection, type EventsMessage } from "./connection";
import { editsIn, type Edit } from "./edits";
import { seconds } from "./format";
import { History } from "./history";
import { painted } from "./painted";
import { applyEvents, emptyState, fromSnapshot, type Entities, type State } from "./reducer";

export type Link = "connecting" | "live" | "lost" | "signed-out";

const EDITS = 100;
/** Seconds without a word, after which what is shown may be out of date: the server pings every 5 s. */
const SILENT = 8;
/** Beyond this many waiting events a fresh snapshot is cheaper than applying them. */
const MOST_WAITING = 3_000;

class Store {
  state = $state.raw<State>(emptyState());
  loaded = $state(false);
  problem = $state("");
  link = $state<Link>("connecting");
  retryAt = $state(0);
  paused = $state(false);
  /** Wall clock of the server, in seconds; stands still while updates are paused. */
  now = $state(Date.now() / 1000);
  /** Server time of the last thing heard, and of the last change shown. */
  heardAt = $state(0);
  /** Seconds since then; goes on while updates are paused. */
  silence = $state(0);
  changedAt = $state(0);
  waiting = $state(0);
  history = $state.raw(new History());
  /** Edits since the page was opened, newest first. */
  edits = $state.raw<Edit[]>([]);
  revision = $state(0);

  private held: EventsMessage[] = [];
  /** The state is to be loaded anew when updates go on. */
  private due = false;
  private offset = 0;
  private fetching = false;
  private again = false;
  private retry = (): void => {};
  private connection: Connection | null = null;

  /** Why the page may be out of date, so that no action is possible; empty while it is not. */
  get stale(): string {
    if (!this.loaded) return "";
    if (this.link === "signed-out") return "You were signed out.";
    if (this.link === "lost") return "Not connected to the server.";
    if (this.problem) return `The state could not be loaded again: ${this.problem}`;
    return this.silence > SILENT ? "The server does not answer." : "";
  }

  /** Number of the newest event that the page shows. */
  get sequence(): number {
    return this.state.sequence;
  }

  get entities(): Entities {
    return this.state.entities;
  }

  start(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.connection = new Connection(`${scheme}://${location.host}/ws/v1/`, {
      sequence: () => (this.loaded ? this.reached() : null),
      events: (message) => this.receive(message),
      resync: () => this.resync(),
      heard: (time) => this.heard(time),
      opened: () => (this.link = this.loaded ? "live" : "connecting"),
      closed: (retryAt) => {
        this.link = "lost";
        this.retryAt = retryAt / 1000;
      },
      refused: () => (this.link = "signed-out"),
    });
    const signIn = session.ended;
    session.ended = () => (this.loaded ? this.connection?.refuse() : signIn());
    void this.refetch();
    this.connection.open();
    setInterval(() => this.tick(), 500);
    addEventListener("offline", () => this.connection?.lose());
    addEventListener("online", () => this.connection?.retryNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.connection?.retryNow());
  }

  retryNow(): void {
    if (this.silence > SILENT) this.connection?.lose();
    this.connection?.retryNow();
    this.retry();
  }

  setPaused(paused: boolean): void {
    this.paused = paused;
    if (paused) return;
    const held = this.held;
    this.held = [];
    this.waiting = 0;
    if (this.due) void this.refetch();
    else for (const message of held) this.apply(message);
    this.tick();
  }

  /** The local clock corrected to the server's, in seconds. */
  serverNow(): number {
    return Date.now() / 1000 + this.offset;
  }

  private reached(): number {
    return this.held.at(-1)?.sequence ?? this.state.sequence;
  }

  private tick(): void {
    this.silence = this.heardAt ? Math.max(0, this.serverNow() - this.heardAt) : 0;
    if (!this.paused) this.now = this.serverNow();
  }

  private heard(time: number | null): void {
    if (time !== null) this.offset = time - Date.now() / 1000;
    this.heardAt = this.serverNow();
    this.silence = 0;
    if (this.loaded) this.link = "live";
  }

  private receive(message: EventsMessage): void {
    if (!this.loaded) return;
    if (this.paused) {
      if (message.after > this.reached()) return this.connection?.subscribe();
      this.waiting += message.events.length;
      if (this.waiting > MOST_WAITING) this.due = true;
      if (this.due) this.held = [{ ...message, events: [] }]; // only how far they reach
      else this.held.push(message);
      return;
    }
    this.apply(message);
  }

  private resync(): void {
    if (this.paused && this.loaded) this.due = true;
    else void this.refetch();
  }

  private apply(message: EventsMessage): void {
    const { state, gap } = applyEvents(this.state, message.events, message.after, message.sequence);
    if (gap) {
      void this.refetch();
      return;
    }
    this.history.record(message.events);
    const edits = editsIn(message.events, this.state.entities);
    if (edits.length) this.edits = [...edits, ...this.edits].slice(0, EDITS);
    this.state = state;
    if (message.events.length) {
      this.changedAt = this.serverNow();
      this.revision += 1;
    }
  }

  /** Loads the snapshot anew; tries again by itself, for ever, while the server is away. */
  private async refetch(): Promise<void> {
    if (this.fetching) {
      this.again = true;
      return;
    }
    this.fetching = true;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const snapshot = await fetchSnapshot();
        const time = seconds(snapshot.server_time);
        if (time !== null) this.offset = time - Date.now() / 1000;
        this.state = fromSnapshot(snapshot);
        this.held = [];
        this.waiting = 0;
        this.due = false;
        this.problem = "";
        this.loaded = true;
        this.heardAt = this.changedAt = this.now = this.serverNow();
        this.revision += 1;
        break;
      } catch (error) {
        this.problem = error instanceof ApiError ? error.message : String(error);
        await new Promise<void>((resolve) => {
          this.retry = resolve;
          setTimeout(resolve, Math.min(8_000, 500 * 2 ** attempt));
        });
      }
    }
    this.fetching = false;
    this.connection?.subscribe();
    void painted().then(() => this.fillHistory());
    if (this.again) {
      this.again = false;
      void this.refetch();
    }
  }

  private async fillHistory(): Promise<void> {
    try {
      const filled = new History();
      filled.begin(await fetchRecent());
      this.history = filled;
      this.revision += 1;
    } catch {
      // Sparklines then start empty and fill as events arrive.
    }
  }
}

export const store = new Store();
