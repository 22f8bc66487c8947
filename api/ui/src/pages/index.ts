// All pages, and which of them a key has.
import type { ComponentType } from "preact";
import { may, type Session } from "../session";
import { AuditPage } from "./audit";
import { ClusterPage } from "./cluster";
import { GraphPage } from "./graph";
import { HeatPage } from "./heat";
import { KeysPage } from "./keys";
import { MemoriesPage } from "./memories";
import { OverviewPage } from "./overview";
import { ReviewPage } from "./review";
import { TenantsPage } from "./tenants";
import { TriggersPage } from "./triggers";

export interface PageEntry {
  path: string;
  title: string;
  Component: ComponentType<{ path: string[] }>;
}

export function pagesOf(session: Session): PageEntry[] {
  if (session.role === "operator") {
    return [
      { path: "cluster", title: "Cluster", Component: ClusterPage },
      { path: "tenants", title: "Tenants", Component: TenantsPage },
      { path: "audit", title: "Audit", Component: AuditPage },
    ];
  }
  const pages: PageEntry[] = [
    { path: "overview", title: "Overview", Component: OverviewPage },
    { path: "memories", title: "Memories", Component: MemoriesPage },
    { path: "graph", title: "Graph", Component: GraphPage },
    { path: "heat", title: "Heat", Component: HeatPage },
    { path: "triggers", title: "Triggers", Component: TriggersPage },
  ];
  if (may(session, "admin")) {
    pages.push(
      { path: "review", title: "Review", Component: ReviewPage },
      { path: "keys", title: "Keys and access", Component: KeysPage },
      { path: "audit", title: "Audit", Component: AuditPage },
    );
  }
  return pages;
}
