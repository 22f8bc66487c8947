// The types of requests and responses, from the OpenAPI documents of both listeners.
import type { components } from "./schema";
import type { components as OperatorComponents } from "./schema-operator";

type Schemas = components["schemas"];
type OperatorSchemas = OperatorComponents["schemas"];

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
export type Updated = Schemas["WithNotifications_Updated"];
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
  "memory.change",
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
  "guard.change",
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

export type Member = OperatorSchemas["MemberView"];
export type Cluster = OperatorSchemas["ClusterView"];
export type Verification = OperatorSchemas["Verification"];
export type Clock = OperatorSchemas["ClockView"];
export type Backups = OperatorSchemas["BackupsView"];
export type MetricsHistory = OperatorSchemas["HistoryView"];
export type Tenant = OperatorSchemas["TenantView"];
export type Tier = OperatorSchemas["TierView"];
