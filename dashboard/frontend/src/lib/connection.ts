// The websocket: connects, subscribes from where the state is, and comes back by itself after a loss.

import type { NumberedEvent } from "./entities.generated";

export interface EventsMessage {
  type: "events";
  after: number;
  sequence: number;
  events: NumberedEvent[];
}

export interface Handlers {
  /** The sequence number the state has reached, or null while there is no state yet. */
  sequence(): number | null;
  events(message: EventsMessage): void;
  resync(): void;
  heard(serverTime: number | null): void;
  opened(): void;
  closed(retryAt: number): void;
  refused(): void;
}

const FIRST_DELAY = 500;
const LONGEST_DELAY = 10_000;
/** The server pings each 5 s; after two silent periods and some the connection counts as lost. */
const SILENCE = 12_000;

export function backOff(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** attempt);
  return ceiling * (0.6 + 0.4 * random());
}

export class Connection {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly url: string, private readonly handlers: Handlers) {}

  open(): void {
    clearTimeout(this.timer);
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return;
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.listen();
    socket.onopen = () => {
      if (this.socket !== socket) return;
      this.handlers.opened();
      this.subscribe();
    };
    socket.onmessage = (message) => this.socket === socket && this.receive(String(message.data));
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      if (event.code === 4401) this.refuse();
      else this.lose();
    };
  }

  /** The session has ended. The page tries again when the user comes back to it, who may have signed in elsewhere. */
  refuse(): void {
    clearTimeout(this.timer);
    this.forget();
    this.handlers.refused();
  }

  /**
   * Gives the connection up and tries again soon. It does not wait until the socket is closed: over a network that
   * answers nothing, a browser takes a minute for that.
   */
  lose(): void {
    if (!this.socket) return;
    this.forget();
    const delay = backOff(this.attempt++);
    this.handlers.closed(Date.now() + delay);
    this.timer = setTimeout(() => this.open(), delay);
  }

  private forget(): void {
    const socket = this.socket;
    this.socket = null;
    clearTimeout(this.watchdog);
    socket?.close();
  }

  /** Tries at once: the user asked, or the browser says that the network is back. */
  retryNow(): void {
    if (!this.socket) this.open();
  }

  subscribe(): void {
    const after = this.handlers.sequence();
    if (after !== null && this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify({ type: "subscribe", after, topologies: null }));
    }
  }

  private listen(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.lose(), SILENCE);
  }

  private receive(data: string): void {
    this.listen();
    this.attempt = 0;
    const message = JSON.parse(data) as { type: string; at?: number };
    this.handlers.heard(message.at ?? null);
    if (message.type === "events") this.handlers.events(message as EventsMessage);
    else if (message.type === "resync") this.handlers.resync();
    else if (message.type === "error") console.error("resurge:", data);
  }
}
