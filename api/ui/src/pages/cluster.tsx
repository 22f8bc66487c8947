// Cluster: members, clocks, verification, backups and the last hour of this node. For operators.
import { useMemo, useState } from "preact/hooks";
import { Chart, type Series } from "../chart";
import { Card, Confirm, Empty, ErrorBox, Fact, Form, Input, Page, Show, Table } from "../components";
import { bytes, count, duration } from "../format";
import { useAction, useLoad } from "../hooks";
import { at, OPERATION_TIMEOUT } from "../client";
import { useClient } from "../session";
import type { Backups, Clock, Cluster, Member, MetricsHistory, Verification } from "../types";

const REFRESH = 5_000;

export function ClusterPage() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<Cluster>("/cluster", {}, signal), null, { every: REFRESH });
  return (
    <Page title="Cluster">
      <Show loaded={loaded}>
        {(cluster) => (
          <Card title="Members" wide>
            <dl class="facts">
              <Fact name="leader">node {cluster.leader}</Fact>
              <Fact name="term">{count(cluster.term)}</Fact>
              <Fact name="last log index">{count(cluster.last_log_index)}</Fact>
              <Fact name="feature level">{cluster.feature_level}</Fact>
              {cluster.changing && <Fact name="membership">a change is in progress</Fact>}
            </dl>
            <Table label="Members" head={["Node", "Address", "Role", "Lag", "Last contact", "Disk", "Version", ""]}>
              {cluster.members.map((member) => (
                <MemberRow key={member.id} member={member} reload={loaded.reload} />
              ))}
            </Table>
            <AddMember reload={loaded.reload} />
          </Card>
        )}
      </Show>
      <div class="grid">
        <Verify />
        <Clocks />
        <BackupCard />
        <LastHour />
      </div>
    </Page>
  );
}

function MemberRow({ member, reload }: { member: Member; reload: () => void }) {
  const client = useClient();
  const transfer = async () => {
    await client.act("POST", "/cluster/transfer", { to: member.id }, OPERATION_TIMEOUT);
    reload();
  };
  const remove = async () => {
    await client.act("DELETE", at`/cluster/members/${member.id}`, undefined, OPERATION_TIMEOUT);
    reload();
  };
  return (
    <tr>
      <td>{member.id}</td>
      <td>{member.address}</td>
      <td>{member.role}</td>
      <td>{member.lag === null ? "unknown" : `${count(member.lag)} entries`}</td>
      <td>{member.last_contact_ms === null ? "–" : duration(member.last_contact_ms / 1000)}</td>
      <td class={member.disk_full ? "bad" : "good"}>{member.disk_full ? "full" : "has space"}</td>
      <td>{member.version ?? "unknown"}</td>
      <td>
        <div class="actions">
          {member.role === "voter" && (
            <Confirm
              label="Make it leader"
              subject={`node ${member.id}`}
              isMild
              question={`Node ${member.id} leads from then on. Writes wait for less than a second.`}
              run={transfer}
            />
          )}
          {member.role !== "leader" && (
            <Confirm
              label="Remove"
              subject={`node ${member.id}`}
              question={`Node ${member.id} leaves the cluster for good: its data folder cannot join again.`}
              confirmation={String(member.id)}
              run={remove}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

/** The form that adds a node, which must be running. */
function AddMember({ reload }: { reload: () => void }) {
  const client = useClient();
  const [id, setId] = useState("");
  const [address, setAddress] = useState("");
  const add = useAction(async () => {
    await client.act("POST", "/cluster/members", { id: Number(id), address }, OPERATION_TIMEOUT);
    setId("");
    setAddress("");
    reload();
  });
  return (
    <details>
      <summary>Add a node</summary>
      <p class="dim">Start the new node first. It gets all data, and then votes.</p>
      <Form action={add} submit="Add" isRow>
        <Input label="Id" required pattern="[1-9][0-9]*" title="A number that no node ever had" value={id} set={setId} />
        <Input label="Address of its peer listener" required placeholder="node-4.example:4282" value={address} set={setAddress} />
      </Form>
    </details>
  );
}

function Verify() {
  const client = useClient();
  const [result, setResult] = useState<Verification | null>(null);
  const verify = useAction(async () => setResult(await client.act<Verification>("POST", "/cluster/verify", {}, OPERATION_TIMEOUT)));
  return (
    <Card title="Verification">
      <p class="dim">Compares the hashes of the states of all nodes at one index.</p>
      <button type="button" disabled={verify.isRunning} onClick={() => verify.run()}>
        {verify.isRunning ? "Comparing …" : "Verify now"}
      </button>
      <ErrorBox error={verify.error} />
      {result && (
        <>
          <p class={result.equal ? "good" : "bad"} role="status">
            {result.equal ? "All states are equal" : result.differ ? "States differ" : "Some nodes returned no hash"} at index {count(result.index)}.
          </p>
          <Table label="Hashes" head={["Node", "SHA-256"]}>
            {result.nodes.map((node) => (
              <tr key={node.id}>
                <td>
                  {node.id}
                  {result.quarantined.includes(node.id) && <span class="mark bad">quarantined</span>}
                </td>
                <td>
                  <code>{node.sha256?.slice(0, 16) ?? "none"}</code>
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </Card>
  );
}

function Clocks() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<Clock>("/cluster/clock", {}, signal), null, { every: 2 * REFRESH });
  return (
    <Card title="Clocks">
      <Show loaded={loaded}>
        {(clock) => (
          <>
            <p>Cluster time {new Date(clock.cluster_time).toLocaleString("en-GB")}. A wall clock far from it needs NTP.</p>
            <Table label="Clocks" head={["Node", "Wall clock minus cluster time"]}>
              {clock.nodes.map((node) => (
                <tr key={node.id}>
                  <td>{node.id}</td>
                  <td>{node.offset_ms === null ? "unknown" : `${node.offset_ms} ms`}</td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Show>
    </Card>
  );
}

function BackupCard() {
  const client = useClient();
  const [url, setUrl] = useState("");
  const loaded = useLoad((signal) => client.get<Backups>("/cluster/backups", {}, signal), null, { every: REFRESH });
  const create = useAction(async () => {
    await client.act("POST", "/cluster/backups", { url });
    loaded.reload();
  });
  return (
    <Card title="Backups of this node">
      <Show loaded={loaded}>
        {({ running, last, error }) => (
          <>
            {running && (
              <p role="status">
                Under way to {running.url}: {bytes(running.done_bytes)} of {bytes(running.total_bytes)}.
              </p>
            )}
            {last ? (
              <p>
                The last one is {last.id}: {bytes(last.bytes)}, index {count(last.index)}.
              </p>
            ) : (
              <Empty>This process has created no backup.</Empty>
            )}
            {error && <p class="error">The last one failed: {error}</p>}
          </>
        )}
      </Show>
      <Form action={create} submit="Create a backup" isRow>
        <Input label="Folder or bucket" required placeholder="s3://backups/hearth" value={url} set={setUrl} />
      </Form>
    </Card>
  );
}

/** Differences of a counter per second. */
function rate(history: MetricsHistory, name: string): (number | null)[] {
  const values = history.series[name] ?? [];
  return history.at.map((at, index) => {
    const [before, now, seconds] = [values[index - 1], values[index], at - (history.at[index - 1] ?? at)];
    // A process that started again counts from 0.
    if (before === null || before === undefined || now === null || now === undefined || seconds <= 0 || now < before) return null;
    return (now - before) / seconds;
  });
}

function quotient(above: (number | null)[], below: (number | null)[]): (number | null)[] {
  return above.map((value, index) => (value !== null && below[index] ? value / (below[index] ?? 1) : null));
}

function LastHour() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<MetricsHistory>("/cluster/metrics", {}, signal), null, { every: 3 * REFRESH });
  return (
    <Card title="The last hour of this node" wide>
      <Show loaded={loaded}>
        {(history) =>
          history.at.length < 2 ? (
            <Empty>This process has started just now: the first values come after {history.interval_seconds} s.</Empty>
          ) : (
            <Charts history={history} />
          )
        }
      </Show>
    </Card>
  );
}

interface Plot {
  title: string;
  series: Series[];
  format: (value: number) => string;
}

function plotsOf(history: MetricsHistory): Plot[] {
  const requests = rate(history, "hearth_http_requests_total");
  const seconds = quotient(rate(history, "hearth_http_request_seconds_sum"), rate(history, "hearth_http_request_seconds_count"));
  const gauge = (name: string) => history.series[name] ?? history.at.map(() => null);
  const short = (value: number) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
  return [
    { title: "Requests per second", series: [{ label: "requests", values: requests }], format: short },
    {
      title: "Mean response time",
      series: [{ label: "time", values: seconds }],
      format: (value) => `${(1000 * value).toFixed(1)} ms`,
    },
    {
      title: "Memories",
      series: [
        { label: "all", values: gauge("hearth_memories") },
        { label: "archived", values: gauge("hearth_cold_memories") },
      ],
      format: short,
    },
    {
      title: "Processors in use",
      series: [{ label: "processors", values: rate(history, "process_cpu_seconds_total") }],
      format: (value) => value.toFixed(2),
    },
    { title: "Resident memory", series: [{ label: "bytes", values: gauge("hearth_memory_resident_bytes") }], format: bytes },
    { title: "Free disk space", series: [{ label: "bytes", values: gauge("hearth_disk_free_bytes") }], format: bytes },
    { title: "Lag of the other nodes, if it leads", series: [{ label: "entries", values: gauge("hearth_peer_lag_entries") }], format: short },
    { title: "Raft term", series: [{ label: "term", values: gauge("hearth_raft_term") }], format: short },
  ];
}

function Charts({ history }: { history: MetricsHistory }) {
  // Charts are drawn again only for other values.
  const plots = useMemo(() => plotsOf(history), [history]);
  return (
    <div class="charts">
      {plots.map(({ title, series, format }) => {
        const last = series[0]?.values.at(-1);
        const text = last === null || last === undefined ? "no value" : format(last);
        return (
          <figure>
            <figcaption>
              {title}: <strong>{text}</strong>
            </figcaption>
            <Chart at={history.at} series={series} format={format} summary={`${title}, ${text} at the end.`} />
          </figure>
        );
      })}
    </div>
  );
}
