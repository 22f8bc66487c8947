// Triggers: the list, a dry run against a memory, the history, and deliveries with dead letters.
import { useState } from "preact/hooks";
import { Card, Confirm, Empty, ErrorBox, Input, MemoryLink, Page, Select, Show, Table } from "../components";
import { age, count } from "../format";
import { useAction, useLoad } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { Deliveries, Evaluation, History, MemoryPage, Trigger, TriggerList } from "../types";
import { TriggerForm } from "./trigger-form";

const LIMIT = 100;
const REFRESH = 5_000;

export function TriggersPage() {
  const session = useSession();
  const { client } = session;
  const [isAdding, setAdding] = useState(false);
  const [cursors, setCursors] = useState<(string | null)[]>([null]);
  const load = async () => {
    const pages = await Promise.all(cursors.map((cursor) => client.get<TriggerList>("/api/v1/triggers", { limit: LIMIT, cursor })));
    return { items: pages.flatMap((page) => page.items), next: pages.at(-1)?.next_cursor ?? null };
  };
  const loaded = useLoad(load, cursors, REFRESH);
  const canWrite = may(session, "agent");
  const add = canWrite && (
    <button type="button" class="primary" onClick={() => setAdding(true)}>
      New trigger
    </button>
  );
  return (
    <Page title="Triggers" actions={add}>
      {isAdding && <TriggerForm close={() => setAdding(false)} created={loaded.reload} />}
      <Card title="All triggers" wide>
        <Show loaded={loaded}>
          {({ items, next }) => (
            <>
              {items.length === 0 ? (
                <Empty>There are no triggers. A trigger reports, changes or sends something when a memory is stored, recalled or cools.</Empty>
              ) : (
                <Table label="Triggers" head={["Name", "When", "Then", "Filters", "Fired", "Last", "State"]}>
                  {items.map((trigger) => (
                    <Row key={trigger.id} trigger={trigger} canWrite={canWrite} reload={loaded.reload} />
                  ))}
                </Table>
              )}
              {next && (
                <button type="button" onClick={() => setCursors([...cursors, next])}>
                  More
                </button>
              )}
            </>
          )}
        </Show>
      </Card>
      <div class="grid">
        <DryRun />
        <Firings />
        <DeliveryList />
      </div>
    </Page>
  );
}

function Row({ trigger, canWrite, reload }: { trigger: Trigger; canWrite: boolean; reload: () => void }) {
  const client = useClient();
  const path = `/api/v1/triggers/${trigger.id}`;
  const toggle = useAction(async () => {
    await client.patch(path, { enabled: !trigger.enabled });
    reload();
  });
  const remove = async () => {
    await client.delete(path);
    reload();
  };
  return (
    <tr>
      <td class="text" dir="auto">
        {trigger.name}
      </td>
      <td>{trigger.event}</td>
      <td>{trigger.action}</td>
      <td dir="auto">{filtersOf(trigger)}</td>
      <td>
        {count(trigger.fire_count)}
        {trigger.max_fires !== null && ` of ${count(trigger.max_fires ?? 0)}`}
      </td>
      <td>{age(trigger.last_fired_at)}</td>
      <td>
        <div class="actions">
          {canWrite ? (
            <>
              <button type="button" disabled={toggle.isRunning} onClick={() => toggle.run()}>
                {trigger.enabled ? "Disable" : "Enable"}
              </button>
              <Confirm label="Delete" question={`This deletes the trigger ${trigger.name}.`} run={remove} />
            </>
          ) : trigger.enabled ? (
            "enabled"
          ) : (
            "disabled"
          )}
        </div>
        <ErrorBox error={toggle.error} />
      </td>
    </tr>
  );
}

function filtersOf(trigger: Trigger): string {
  const filters = [
    trigger.filter_memory_type,
    trigger.filter_namespace && `in ${trigger.filter_namespace}`,
    trigger.namespace && trigger.namespace !== trigger.filter_namespace && `in ${trigger.namespace}`,
    trigger.filter_label_pattern && `contains “${trigger.filter_label_pattern}”`,
    trigger.filter_heat_above !== null && `above ${trigger.filter_heat_above}`,
    trigger.filter_heat_below !== null && `below ${trigger.filter_heat_below}`,
    trigger.cooldown_seconds > 0 && `once in ${trigger.cooldown_seconds} s`,
  ];
  return filters.filter(Boolean).join(", ") || "all memories";
}

const EVENTS = ["on_store", "on_recall", "on_decay", "on_boost", "on_relate", "on_threshold"] as const;

/** What would fire for a memory, without firing. */
function DryRun() {
  const client = useClient();
  const [words, setWords] = useState("");
  const [event, setEvent] = useState<(typeof EVENTS)[number]>("on_store");
  const [found, setFound] = useState<{ label: string; evaluation: Evaluation } | null>(null);
  const run = useAction(async () => {
    setFound(null);
    const list = await client.get<MemoryPage>("/api/v1/agent/nodes", { search: words, page_size: 1 });
    const memory = list.items[0];
    if (!memory) throw new Error("No memory contains these words.");
    const evaluation = await client.post<Evaluation>("/api/v1/triggers/evaluate", { event, node_id: memory.id });
    setFound({ label: memory.label, evaluation });
  });
  return (
    <Card title="Dry run">
      <form
        onSubmit={(submitted) => {
          submitted.preventDefault();
          void run.run();
        }}
      >
        <Input label="Words of a memory" required value={words} set={setWords} />
        <Select label="Event" value={event} options={EVENTS.map((name) => [name, name])} set={setEvent} />
        <button type="submit" disabled={run.isRunning}>
          Evaluate
        </button>
      </form>
      <ErrorBox error={run.error} />
      {found && (
        <>
          <p>
            For <MemoryLink id={found.evaluation.node_id} label={found.label} />:
          </p>
          {found.evaluation.items.length === 0 && <Empty>No trigger waits for this event.</Empty>}
          <ul>
            {found.evaluation.items.map((item) => (
              <li>
                <span dir="auto">{item.trigger_name}</span>: {item.would_fire ? `would fire, and ${item.action}` : `would not fire (${item.reason})`}
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

function Firings() {
  const client = useClient();
  const loaded = useLoad(() => client.get<History>("/api/v1/triggers/history", { limit: 25 }), null, REFRESH);
  return (
    <Card title="History">
      <Show loaded={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty>No trigger has fired.</Empty>
          ) : (
            <ol class="activity" aria-live="polite">
              {items.map((item) => (
                <li key={item.id}>
                  <span class="kind">{item.trigger_name ?? item.kind}</span>
                  <span dir="auto">
                    {item.result} {item.node_id && <a href={`#/memories/${item.node_id}`}>memory</a>}
                  </span>
                  <small>{age(item.fired_at)}</small>
                </li>
              ))}
            </ol>
          )
        }
      </Show>
    </Card>
  );
}

function DeliveryList() {
  const session = useSession();
  const { client } = session;
  const loaded = useLoad(() => client.get<Deliveries>("/api/v1/triggers/deliveries", { limit: 50 }), null, REFRESH);
  const replay = useAction(async (id: string | null) => {
    await client.post("/api/v1/triggers/deliveries/replay", id ? { id } : {});
    loaded.reload();
  });
  const canReplay = may(session, "agent");
  return (
    <Card title="Webhook deliveries" wide>
      <ErrorBox error={replay.error} />
      <Show loaded={loaded}>
        {({ items }) => {
          if (items.length === 0) return <Empty>No delivery waits, and none is a dead letter.</Empty>;
          const dead = items.filter((item) => item.status === "dead_letter").length;
          return (
            <>
              {canReplay && dead > 0 && (
                <button type="button" disabled={replay.isRunning} onClick={() => replay.run(null)}>
                  Replay all dead letters
                </button>
              )}
              <Table label="Deliveries" head={["Trigger", "Fired", "Attempts", "State", ""]}>
                {items.map((item) => (
                  <tr key={item.id}>
                    <td dir="auto">{item.trigger_name}</td>
                    <td>{age(item.fired_at)}</td>
                    <td>{item.attempts}</td>
                    <td>
                      {item.status === "dead_letter" ? "dead letter" : "pending"}
                      {item.reason && `: ${item.reason}`}
                    </td>
                    <td>
                      {canReplay && item.status === "dead_letter" && (
                        <button type="button" disabled={replay.isRunning} onClick={() => replay.run(item.id)}>
                          Replay
                        </button>
                      )}
                    </td>
                  </tr>
                ))}
              </Table>
            </>
          );
        }}
      </Show>
    </Card>
  );
}
