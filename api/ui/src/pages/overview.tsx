// Overview: how many memories, how hot, what happens at the moment, and what is used of the limits.
import { useEffect, useState } from "preact/hooks";
import { Bars, Card, Empty, Fact, MemoryLink, Page, Show } from "../components";
import { age, BANDS, bytes, count, eventWords } from "../format";
import { useChanges, useLoad, useNow } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { ActivityPage, Dashboard, MemoryStatus, Org, ServiceStatus, StorageUse, StreamItem } from "../types";

/** Milliseconds between two readings of the counts while memories change, and of the usage. */
const PAUSE = 10_000;
const USAGE_PAUSE = 30_000;
/** Milliseconds between two readings of the clock. */
const AGE_PAUSE = 10_000;
/** Events that are shown. */
const EVENTS = 15;

export function OverviewPage() {
  const session = useSession();
  return (
    <Page title="Overview" actions={<Health />}>
      <div class="grid">
        {may(session, "admin") ? <Counts /> : <OwnCounts />}
        <Usage />
        <Live />
      </div>
    </Page>
  );
}

/** The node and its leader, on one line. */
function Health() {
  const client = useClient();
  const load = async (signal: AbortSignal) => {
    const status = await client.get<ServiceStatus>("/api/v1/status", {}, signal);
    return { ...status, reasons: status.status === "ok" ? [] : await client.unready(signal) };
  };
  const loaded = useLoad(load, null, { every: PAUSE });
  if (loaded.error) return <span class="state bad">The node does not respond</span>;
  if (!loaded.data) return null;
  const { node, leader, status, hearth, reasons } = loaded.data;
  const text = leader === null ? "no leader" : leader === node ? "it leads" : `node ${leader} leads`;
  return (
    <span class={status === "ok" ? "state good" : "state bad"} role="status">
      Node {node}: {status}, {reasons.length > 0 ? reasons.join(", ") : text}, version {hearth}
    </span>
  );
}

function Counts() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<Dashboard>("/api/v1/admin/dashboard", {}, signal));
  useChanges(loaded.reload, PAUSE);
  return (
    <Show loaded={loaded}>
      {(data) => (
        <>
          <Card title="Memories">
            {data.total_memories === 0 && <FirstMemory />}
            <dl class="facts">
              <Fact name="all">{count(data.total_memories)}</Fact>
              <Fact name="hot tier">{count(data.hot_nodes)}</Fact>
              <Fact name="archived">{count(data.cold_nodes)}</Fact>
              <Fact name="pinned">{count(data.pinned_count)}</Fact>
              <Fact name="flagged for review">
                <a href="#/memories?marks=flagged">{count(data.flagged_count)}</a>
              </Fact>
              <Fact name="edges">{count(data.edge_count)}</Fact>
              <Fact name="average heat">{data.average_heat.toFixed(2)}</Fact>
            </dl>
          </Card>
          <Card title="Heat">
            <Bars values={data.heat_distribution.map(({ band, count: value }) => [band, value, `heat ${band}`])} />
            <p class="dim">Memories of the hot tier, from {BANDS[0]} (0.8 and more) to {BANDS[4]} (below 0.1).</p>
          </Card>
          <Card title="Types">
            <Bars values={Object.entries(data.memory_types)} />
          </Card>
          <Card title="Namespaces">
            <Namespaces counts={data.namespace_counts} total={data.namespace_count} />
          </Card>
        </>
      )}
    </Show>
  );
}

/** The counts that every key may read: of what is open to it. */
function OwnCounts() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<MemoryStatus>("/api/v1/agent/memory/status", {}, signal));
  useChanges(loaded.reload, PAUSE);
  return (
    <Show loaded={loaded}>
      {({ stats }) => (
        <>
          <Card title="Memories">
            {stats.total_memories === 0 && <FirstMemory />}
            <dl class="facts">
              <Fact name="open to this key">{count(stats.total_memories)}</Fact>
              <Fact name="hot tier">{count(stats.hot_nodes)}</Fact>
              <Fact name="archived">{count(stats.cold_nodes)}</Fact>
              <Fact name="average heat">{stats.average_heat.toFixed(2)}</Fact>
            </dl>
          </Card>
          <Card title="Types">
            <Bars values={stats.memory_types.map(({ type, count: value }) => [type, value])} />
          </Card>
        </>
      )}
    </Show>
  );
}

function FirstMemory() {
  return (
    <Empty>
      There are no memories yet. <a href="#/memories">Store the first one</a>.
    </Empty>
  );
}

function Namespaces({ counts, total }: { counts: Record<string, number>; total: number }) {
  const largest = Object.entries(counts).sort(([, one], [, other]) => other - one);
  if (largest.length === 0) return <Empty>No namespace has memories.</Empty>;
  return (
    <>
      <Bars values={largest.slice(0, 8)} />
      {total > 8 && <p class="dim">The largest 8 of {count(total)}.</p>}
    </>
  );
}

function Usage() {
  const client = useClient();
  const loaded = useLoad(async (signal) => ({
    org: await client.get<Org>("/api/v1/org", {}, signal),
    storage: await client.get<StorageUse>("/api/v1/agent/storage", {}, signal),
  }));
  useChanges(loaded.reload, USAGE_PAUSE);
  return (
    <Card title="Usage and limits">
      <Show loaded={loaded}>
        {({ org, storage }) => (
          <dl class="facts">
            <Fact name="tenant">
              <span dir="auto">{org.org_name}</span>, tier {org.plan_tier}
            </Fact>
            <Fact name="memories">
              <Share used={storage.total_nodes} max={org.nodes_limit} />
            </Fact>
            {org.seats_used !== null && (
              <Fact name="keys">
                <Share used={org.seats_used} max={org.max_seats} />
              </Fact>
            )}
            <Fact name="text">{bytes(storage.total_size_bytes)}</Fact>
            {Object.entries(org.limits)
              .filter(([name, max]) => max !== null && name !== "memories" && name !== "keys")
              .map(([name, max]) => (
                <Fact name={`limit of ${name.replace(/_/g, " ")}`}>{name === "bytes" ? bytes(max ?? 0) : count(max ?? 0)}</Fact>
              ))}
          </dl>
        )}
      </Show>
    </Card>
  );
}

function Share({ used, max }: { used: number; max: number | null | undefined }) {
  if (max === null || max === undefined) return <>{count(used)}, unlimited</>;
  return (
    <>
      {count(used)} of {count(max)} <meter min={0} max={max} high={0.9 * max} value={used} aria-label="used" />
    </>
  );
}

interface Line {
  id: string;
  kind: string;
  node_id: string | null | undefined;
  label: string | null | undefined;
  actor: string;
  at: string;
}

/** The last events, and new ones as they happen. */
function Live() {
  const client = useClient();
  const [lines, setLines] = useState<Line[]>([]);
  const [isConnected, setConnected] = useState(false);
  const past = useLoad((signal) => client.get<ActivityPage>("/api/v1/activity", { limit: EVENTS }, signal));
  useEffect(() => {
    const receive = (item: StreamItem) => setLines((before) => [lineOf(item), ...before].slice(0, EVENTS));
    return client.events.read({ receive, connected: setConnected });
  }, [client]);
  const old = (past.data?.items ?? []).map((item) => ({
    id: item.id,
    kind: item.action,
    node_id: item.target_id,
    label: item.target_label,
    actor: item.actor,
    at: item.created_at,
  }));
  // An event between the start of the stream and the list is in both.
  const named = new Map([...old.toReversed(), ...lines.toReversed()].map((line) => [`${line.at} ${eventWords(line.kind)} ${line.node_id}`, line]));
  const all = [...named.values()].reverse().slice(0, EVENTS);
  useNow(AGE_PAUSE);
  return (
    <Card title="Activity" wide actions={<span class={isConnected ? "state good" : "state"}>{isConnected ? "live" : "not live"}</span>}>
      <Show loaded={past}>
        {() =>
          all.length === 0 ? (
            <Empty>Nothing has happened yet.</Empty>
          ) : (
            <ol class="activity" aria-live="polite" aria-relevant="additions">
              {all.map((line) => (
                <li key={line.id}>
                  <span class="kind">{eventWords(line.kind)}</span>
                  <span>{line.node_id && <MemoryLink id={line.node_id} label={line.label} />}</span>
                  <small>
                    {line.actor}, {age(line.at)}
                  </small>
                </li>
              ))}
            </ol>
          )
        }
      </Show>
    </Card>
  );
}

function lineOf(item: StreamItem): Line {
  return {
    id: item.id,
    kind: item.kind,
    node_id: item.node_id,
    label: item.label,
    actor: item.actor,
    at: item.created_at,
  };
}
