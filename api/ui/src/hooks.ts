// What a page loads and when, and where it is.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Client, Connection } from "./client";
import { useClient } from "./session";
import { THEME_CHANGE } from "./theme";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  /** Whether `data` is of an earlier key, while the present one loads. */
  isStale: boolean;
  reload: () => void;
}

interface Options {
  /** Milliseconds between two loads while the page is visible. */
  every?: number;
  /** Shows the data of the last key until that of the next one is there. */
  keep?: boolean;
}

/** Loads once, and again when `key` changes. What is no longer wanted is aborted. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, key: unknown = null, options: Options = {}): Loaded<T> {
  const { every, keep } = options;
  const name = JSON.stringify(key);
  const [state, setState] = useState<{ data: T | null; error: Error | null; name: string }>({ data: null, error: null, name });
  const latest = useRef(load);
  latest.current = load;
  const pending = useRef<AbortController | null>(null);
  const run = useCallback(() => {
    pending.current?.abort();
    const mine = (pending.current = new AbortController());
    const isWanted = () => pending.current === mine && !mine.signal.aborted;
    // An address without such a path is an error of the load, and not of the page.
    new Promise<T>((resolve) => resolve(latest.current(mine.signal))).then(
      (data) => isWanted() && setState({ data, error: null, name }),
      // After an error, what was loaded for the same key stays.
      (error: Error) => isWanted() && setState((before) => ({ data: before.name === name || keep ? before.data : null, error, name })),
    ).finally(() => {
      if (pending.current === mine) pending.current = null;
    });
  }, [name]);
  useEffect(() => {
    run();
    // A load that takes longer than the interval is not started twice.
    const timer = every && setInterval(() => !document.hidden && !pending.current && run(), every);
    return () => {
      if (timer) clearInterval(timer);
      pending.current?.abort();
    };
  }, [run, every]);
  const connection = useConnection();
  useEffect(() => {
    // The node responds again.
    if (connection === "ok" && state.error) run();
  }, [connection]);
  const isStale = state.name !== name;
  const data = isStale && !keep ? null : state.data;
  return { data, error: isStale ? null : state.error, isStale, reload: run };
}

export interface Pages<T> extends Loaded<T[]> {
  /** Loads the next page; null after the last. */
  more: (() => void) | null;
  /** Whether only the first page is loaded. */
  isFirst: boolean;
}

interface CursorPage<T> {
  items: T[];
  next_cursor: string | null;
}

type Query = Parameters<Client["get"]>[1];

/** The pages of a list, one after the other. A reload, or another key, begins with the first one. */
export function usePages<T>(path: string, query: Query, key: unknown = null): Pages<T> {
  const client = useClient();
  const load = (cursor: string | null, signal: AbortSignal) => client.get<CursorPage<T>>(path, { ...query, cursor }, signal);
  const first = useLoad((signal) => load(null, signal), [path, query, key]);
  const [further, setFurther] = useState<{ of: CursorPage<T> | null; pages: CursorPage<T>[]; error: Error | null }>({ of: null, pages: [], error: null });
  // Pages after another first page are not of this list.
  const { pages, error } = further.of === first.data ? further : { pages: [], error: null };
  const next = (pages.at(-1) ?? first.data)?.next_cursor ?? null;
  const pending = useRef<AbortController | null>(null);
  useEffect(() => () => pending.current?.abort(), [first.data]);
  const more = async () => {
    const { signal } = (pending.current = new AbortController());
    const of = first.data;
    const result = await load(next, signal).then(
      (page) => ({ of, pages: [...pages, page], error: null }),
      (failure: Error) => ({ of, pages, error: failure }),
    );
    if (!signal.aborted) setFurther(result);
  };
  return {
    data: first.data && [...first.data.items, ...pages.flatMap((page) => page.items)],
    error: first.error ?? error,
    isStale: first.isStale,
    reload: first.reload,
    more: next === null ? null : () => void more(),
    isFirst: pages.length === 0,
  };
}

/** An action with its progress and its error. It does not run twice at a time. */
export function useAction<A extends unknown[]>(action: (...given: A) => Promise<void>) {
  const [error, setError] = useState<Error | null>(null);
  const [isRunning, setRunning] = useState(false);
  const running = useRef(false);
  const run = async (...given: A) => {
    if (running.current) return;
    running.current = true;
    setError(null);
    setRunning(true);
    try {
      await action(...given);
    } catch (failure) {
      setError(failure as Error);
    } finally {
      running.current = false;
      setRunning(false);
    }
  };
  return { run, error, isRunning };
}

/** Calls `changed` soon after an event, at most once in `pause` milliseconds, and each minute: memories cool. */
export function useChanges(changed: () => void, pause: number): void {
  const { events } = useClient();
  const latest = useRef(changed);
  latest.current = changed;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    let last = 0;
    const run = () => {
      timer = null;
      last = Date.now();
      if (!document.hidden) latest.current();
    };
    const receive = () => {
      timer ??= setTimeout(run, Math.max(SOON, last + pause - Date.now()));
    };
    const end = events.read({ receive });
    const minute = setInterval(run, 60_000);
    return () => {
      end();
      clearInterval(minute);
      if (timer) clearTimeout(timer);
    };
  }, [events, pause]);
}

/** Milliseconds after the first event: further ones of the same request follow. */
const SOON = 300;

/** A value, once it has not changed for a moment: a person is typing. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 250);
    return () => clearTimeout(timer);
  }, [JSON.stringify(value)]);
  return settled;
}

export interface Route {
  path: string[];
  query: URLSearchParams;
}

/** The path after `#/`, and its query. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decoded), query: new URLSearchParams(query) };
}

/** Anyone may write the address: a part that is no encoding stands for itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useConnection(): Connection {
  const client = useClient();
  const [connection, setConnection] = useState(client.connection);
  useEffect(() => client.watch(setConnection), [client]);
  return connection;
}

/** The theme of the page: canvases draw themselves again when it changes. */
export function useTheme(): string {
  const [theme, setTheme] = useState(document.documentElement.dataset["theme"] ?? "");
  useEffect(() => {
    const changed = () => setTheme(document.documentElement.dataset["theme"] ?? "");
    addEventListener(THEME_CHANGE, changed);
    return () => removeEventListener(THEME_CHANGE, changed);
  }, []);
  return theme;
}

/** The present time, every so many milliseconds: ages of events advance. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
