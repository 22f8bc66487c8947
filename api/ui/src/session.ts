// The key of the page: in memory, and in the storage of the tab if the person wants it.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Client } from "./client";
import type { Identity, Role } from "./types";

const STORED = "hearth-key";

export interface Session {
  client: Client;
  role: Role;
  /** Of a tenant's key. */
  identity: Identity | null;
  logOut: () => void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("there is no session");
  return session;
}

export function useClient(): Client {
  return useSession().client;
}

/** Whether the key may do what `role` may. */
export function may(session: Session, role: "reader" | "agent" | "admin"): boolean {
  const roles = ["reader", "agent", "admin"];
  return roles.indexOf(session.role) >= roles.indexOf(role);
}

/** The key in the fragment of the address, which is removed from there and from the history. */
export function keyOfAddress(): string | null {
  const found = /^#key=([\w-]+)/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", `${location.pathname}#/`);
  return found[1] ?? null;
}

export function storedKey(): string | null {
  return sessionStorage.getItem(STORED);
}

export function store(key: string | null): void {
  if (key) sessionStorage.setItem(STORED, key);
  else sessionStorage.removeItem(STORED);
}
