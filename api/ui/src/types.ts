// The types of requests and responses. Those of agents and administrators come from the OpenAPI
// document; those of operators are those of api/src/routes/cluster.rs and tenants.rs.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Memory = Schemas["Memory"];
/** Of a request with `anchor`. */
export type AnchoredMemory = Memory & { anchor: Schemas["AnchorView"] };
export type MemoryType = Memory["memory_type"];
export type MemoryPage = Schemas["MemoryPage"];
export type SearchResult = Schemas["SearchResult"];
/** A neighbour of another result has only `graph` and `fused_score`. */
export type Explanation = Required<NonNullable<Schemas["SearchResult"]["explain"]>>;
export type MemoryChanges = Schemas["MemoryChanges"];
export type Identity = Schemas["Identity"];
export type Role = "reader" | "agent" | "admin" | "operator";
export type Org = Schemas["Org"];
export type Dashboard = Schemas["Dashboard"];
export type MemoryStatus = Schemas["MemoryStatus"];
export type StorageUse = Schemas["StorageUse"];
export type Activity = Schemas["ActivityItem"];
export type ActivityPage = Schemas["ActivityPage"];
export type StreamItem = Schemas["StreamItem"];
export type ServiceStatus = Schemas["ServiceStatus"];
export type Graph = Schemas["Graph"];
export type Neighbours = Schemas["Neighbours"];
export type Settings = Schemas["Settings"];
export type SettingsView = Schemas["SettingsView"];
export type Forecast = Schemas["ForecastView"];
export type RecallAnalytics = Schemas["RecallAnalytics"];
export type Trigger = Schemas["TriggerView"];
export type NewTrigger = Schemas["NewTrigger"];
export type Evaluation = Schemas["Evaluation"];
export type History = Schemas["History"];
export type Deliveries = Schemas["DeliveryPage"];
export type Replayed = Schemas["Replayed"];
export type Key = Schemas["ListedKeyView"];
export type KeyList = Schemas["KeyList"];
export type NewKey = Schemas["NewKey"];
export type CreatedKey = Schemas["CreatedKeyView"];
export type Rule = Schemas["RuleView"];
export type RuleList = Schemas["RuleList"];
export type AuditLog = Schemas["AuditLogPage"];
export type AuditAction = AuditLog["items"][number]["action"];
export type Updated = Schemas["Updated"];
export type BulkDeleted = Schemas["BulkDeleted"];
export type Restored = Schemas["Restored"];

export const MEMORY_TYPES = ["episodic", "semantic", "preference", "procedural", "fact", "moment"] as const satisfies readonly MemoryType[];
export const AUDIT_ACTIONS = [
  "key.create",
  "key.rotate",
  "key.delete",
  "key.namespace",
  "key.use",
  "access_rule.change",
  "settings.change",
  "retention.change",
  "retention.delete",
  "memory.delete",
  "memory.delete_bulk",
  "memory.change_bulk",
  "memory.restore_bulk",
  "memory.purge",
  "trigger.create",
  "trigger.change",
  "trigger.delete",
  "tenant.create",
  "tenant.change",
  "tenant.delete",
  "tier.change",
  "member.add",
  "member.remove",
  "leader.transfer",
  "cluster.verify",
  "clock.set",
  "edge.delete",
  "backup.create",
  "webhooks.release",
  "model.change",
  "memory.import",
] as const satisfies readonly AuditAction[];
export type TriggerEvent = NewTrigger["event"];
export const TRIGGER_EVENTS = [
  ["on_store", "a memory is stored"],
  ["on_recall", "a search returns a memory"],
  ["on_decay", "a memory cools below a heat"],
  ["on_threshold", "a memory crosses a heat"],
  ["on_boost", "a request warms a memory"],
  ["on_relate", "an edge is created"],
] as const satisfies readonly (readonly [TriggerEvent, string])[];
export const DECAY_CLASSES = ["volatile", "normal", "persistent", "permanent"] as const;

export interface Member {
  id: number;
  address: string;
  role: string;
  lag: number | null;
  last_contact_ms: number | null;
  disk_full: boolean;
  version: string | null;
}

export interface Cluster {
  leader: number;
  term: number;
  last_log_index: number;
  feature_level: number;
  changing: boolean;
  members: Member[];
}

export interface Verification {
  index: number;
  equal: boolean;
  differ: boolean;
  nodes: { id: number; sha256: string | null }[];
  quarantined: number[];
}

export interface Clock {
  cluster_time: string;
  median_offset_ms: number | null;
  nodes: { id: number; offset_ms: number | null }[];
}

export interface Backups {
  running: { url: string; total_bytes: number; done_bytes: number; uploaded_bytes: number } | null;
  last: { id: string; index: number; bytes: number; uploaded_bytes: number; state_sha256: string } | null;
  error: string | null;
}

export interface MetricsHistory {
  interval_seconds: number;
  at: number[];
  series: Record<string, (number | null)[]>;
}

export interface Tenant {
  id: number;
  name: string;
  tier: string;
  state: string;
  created_at: string;
  limits: Record<string, { max: number | null; used: number | null; own: boolean }>;
}

export interface Tier {
  name: string;
  limits: Record<string, number>;
}
