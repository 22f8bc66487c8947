// What a page loads, and where it is.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "./client";
import { useClient } from "./session";
import { THEME_CHANGE } from "./theme";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  isLoading: boolean;
  reload: () => void;
}

/** Loads once, again when `key` changes, and each `every` milliseconds while the page is visible. */
export function useLoad<T>(load: () => Promise<T>, key: unknown = null, every = 0): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null; isLoading: boolean }>({
    data: null,
    error: null,
    isLoading: true,
  });
  const current = useRef(0);
  const run = useCallback(() => {
    const number = ++current.current;
    setState((before) => ({ ...before, isLoading: true }));
    load().then(
      (data) => number === current.current && setState({ data, error: null, isLoading: false }),
      (error: Error) => number === current.current && setState((before) => ({ ...before, error, isLoading: false })),
    );
  }, [JSON.stringify(key)]);
  useEffect(() => {
    run();
    if (every === 0) return () => void current.current++;
    const timer = setInterval(() => !document.hidden && run(), every);
    return () => {
      clearInterval(timer);
      current.current++;
    };
  }, [run]);
  return { ...state, reload: run };
}

/** A value, once it has not changed for a moment: a person is typing. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 250);
    return () => clearTimeout(timer);
  }, [JSON.stringify(value)]);
  return settled;
}

/** An action with its progress and its error. */
export function useAction<A extends unknown[]>(action: (...given: A) => Promise<void>) {
  const [error, setError] = useState<Error | null>(null);
  const [isRunning, setRunning] = useState(false);
  const run = async (...given: A) => {
    setError(null);
    setRunning(true);
    try {
      await action(...given);
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setRunning(false);
    }
  };
  return { run, error, isRunning, clear: () => setError(null) };
}

/** The path after `#/`, and its query. */
export function useRoute(): { path: string[]; query: URLSearchParams } {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
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
