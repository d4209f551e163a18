// Numbers and times as an operator reads them. A value that is not known is a dash, never a zero.

export const DASH = "–";

type Maybe<T> = T | null | undefined;

function known(value: Maybe<number>): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** `toLocaleString` would make one for each number. */
const WHOLE = new Intl.NumberFormat("en-US");

export function count(value: Maybe<number>): string {
  return known(value) ? WHOLE.format(Math.round(value)) : DASH;
}

/** Tuples per second: 980, 12.4k, 1.2M. */
export function rate(value: Maybe<number>): string {
  if (!known(value)) return DASH;
  if (value >= 999_500) return `${(value / 1e6).toFixed(value < 1e7 ? 2 : 1)}M`;
  if (value >= 9_995) return `${(value / 1e3).toFixed(1)}k`;
  return count(value);
}

/** The same in at most four signs, for the graph: 980, 1.0k, 12k, 1.2M. */
export function rateShort(value: Maybe<number>): string {
  if (!known(value)) return DASH;
  if (value < 999.5) return String(Math.round(value));
  if (value < 999_500) return `${(value / 1e3).toFixed(value < 9_950 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(value < 9.95e6 ? 1 : 0)}M`;
}

export function bytes(value: Maybe<number>): string {
  if (!known(value)) return DASH;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** A duration in seconds: 240 ms, 1.42 s, 42 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds: Maybe<number>): string {
  if (!known(seconds)) return DASH;
  const value = Math.max(0, seconds);
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.995) return `${value.toFixed(2)} s`;
  if (value < 59.5) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172_800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** A duration from a setting: 4 s, 0.5 s, 2 min, 1 min 30 s, with the digits of the setting. */
export function spell(seconds: Maybe<number>): string {
  if (!known(seconds)) return DASH;
  if (seconds < 60) return `${Number(seconds.toFixed(3))} s`;
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), Math.round(seconds % 60)];
  return [hours && `${hours} h`, minutes && `${minutes} min`, rest && `${rest} s`].filter(Boolean).join(" ");
}

/** A clock of an incident: 0:42, 12:05, 1:03:20. */
export function stopwatch(seconds: number): string {
  const total = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const [h, m, s] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60), total % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export function age(seconds: Maybe<number>): string {
  if (!known(seconds)) return DASH;
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  return `${duration(seconds)} ago`;
}

/** CPU percent in cores: 0.34, 1.8, 12. The same as domain/planning/cores.py. */
export function coresNumber(percentOfOne: Maybe<number>): string {
  if (!known(percentOfOne)) return DASH;
  const value = percentOfOne / 100;
  if (value > 0 && value < 0.005) return "<0.01";
  return String(Number(value.toFixed(value >= 9.95 ? 0 : value >= 0.995 ? 1 : 2)));
}

export function cores(percentOfOne: Maybe<number>): string {
  const number = coresNumber(percentOfOne);
  return number === DASH ? DASH : `${number} ${number === "1" ? "core" : "cores"}`;
}

export function relative(value: Maybe<number>): string {
  if (!known(value)) return DASH;
  if (value >= 1000) return ">999×";
  if (value >= 100) return `${Math.round(value)}×`;
  return `${value.toFixed(value >= 10 ? 1 : 2)}×`;
}

export function percent(share: Maybe<number>, digits = 0): string {
  return known(share) ? `${(share * 100).toFixed(digits)} %` : DASH;
}

export function seconds(time: Maybe<string | number>): number | null {
  if (time === null || time === undefined || time === "") return null;
  const value = typeof time === "number" ? time : Date.parse(time) / 1000;
  return Number.isFinite(value) ? value : null;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
const dayFormat = new Intl.DateTimeFormat("en-GB", DAY);
const yearFormat = new Intl.DateTimeFormat("en-GB", { ...DAY, year: "numeric" });

/** The time of day, with the date when it is not today, and with the year when it is not this one. */
export function clock(time: Maybe<string | number>, now = Date.now() / 1000): string {
  const at = seconds(time);
  if (at === null) return DASH;
  const [date, today] = [new Date(at * 1000), new Date(now * 1000)];
  if (today.toDateString() === date.toDateString()) return clockFormat.format(date);
  return (today.getFullYear() === date.getFullYear() ? dayFormat : yearFormat).format(date);
}

const dayHourFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** Day and time of seconds since 1970, where several days are shown. */
export const dayHour = (at: number): string => dayHourFormat.format(new Date(at * 1000));

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** O2[0] before O10[0]. */
const collator = new Intl.Collator("en", { numeric: true });
export const byName = (a: string, b: string): number => collator.compare(a, b);

/** With a capital: parts of sentences that stand alone. */
export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export function humanise(word: Maybe<string>): string {
  if (!word) return DASH;
  const text = word.replaceAll("_", " ").replaceAll(".", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
