// Numbers, times and heats as people read them.
import type { Memory } from "./types";

const number = new Intl.NumberFormat("en");

export const count = (value: number): string => number.format(value);

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at++;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

/** The time since a moment, as "5 min". */
export function age(time: string | null | undefined): string {
  if (!time) return "never";
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function moment(time: string): string {
  return new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

export const BANDS = ["blazing", "hot", "warm", "cool", "frozen"] as const;
export type Band = (typeof BANDS)[number];

/** The band of a heat, as the dashboard of the interface counts them. */
export function band(heat: number): Band {
  if (heat >= 0.8) return "blazing";
  if (heat >= 0.5) return "hot";
  if (heat >= 0.25) return "warm";
  if (heat >= 0.1) return "cool";
  return "frozen";
}

/** The first characters of a text, on one line. */
export function beginning(text: string, characters = 160): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > characters ? `${Array.from(line).slice(0, characters).join("")}…` : line;
}

const DETECTIONS: Record<Memory["detections"][number], string> = {
  secret: "a secret",
  number: "the number of a card or account",
  email: "an e-mail address",
  instructions: "instructions for a model",
  pattern: "a pattern of the tenant",
};

/** The words for what the guard has found in a memory. */
export const detectionWords = (detections: Memory["detections"]): string => detections.map((name) => DETECTIONS[name] ?? name).join(", ");

/** What happened, by the names that the stream and the list of activities have for it. */
const EVENTS: Record<string, string> = {
  created: "stored",
  "memory.add": "stored",
  updated: "changed",
  "memory.patch": "changed",
  "memory.pin": "pin changed",
  feedback: "rated",
  "memory.feedback": "rated",
  warmed: "became warm",
  "memory.warm": "became warm",
  cooled: "became cold",
  "memory.cool": "became cold",
  archived: "archived",
  "memory.archive": "archived",
  restored: "restored",
  "memory.restore": "restored",
  related: "edge created",
  "edge.add": "edge created",
  unrelated: "edge deleted",
  "edge.delete": "edge deleted",
  deleted: "deleted",
  "memory.delete": "deleted",
  fired: "trigger fired",
  "trigger.fire": "trigger fired",
  delivered: "webhook delivered",
  "webhook.deliver": "webhook delivered",
  delivery_failed: "webhook failed",
  "webhook.fail": "webhook failed",
  firings_skipped: "firings skipped",
  "trigger.skip": "firings skipped",
};

/** The words for an event; an activity of an agent has its own. */
export const eventWords = (name: string): string => EVENTS[name] ?? name;
