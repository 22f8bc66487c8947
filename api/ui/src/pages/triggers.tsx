// Triggers: the list, the history, and deliveries with dead letters.
import { useState } from "preact/hooks";
import { at } from "../client";
import { Card, Confirm, Empty, ErrorBox, More, Page, Select, Show, Table } from "../components";
import { age, count } from "../format";
import { useAction, useChanges, useLoad, usePages } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { Deliveries, History, Replayed, Trigger } from "../types";
import { TriggerForm } from "./trigger-form";

const LIMIT = 100;
/** Milliseconds between two readings of a list while triggers fire. */
const PAUSE = 10_000;

export function TriggersPage() {
  const session = useSession();
  const [isAdding, setAdding] = useState(false);
  const triggers = usePages<Trigger>("/api/v1/triggers", { limit: LIMIT });
  // A list of several pages stays as it is until the person changes something.
  useChanges(() => triggers.isFirst && triggers.reload(), PAUSE);
  const canWrite = may(session, "agent");
  const add = canWrite && (
    <button type="button" class="primary" onClick={() => setAdding(true)}>
      New trigger
    </button>
  );
  return (
    <Page title="Triggers" actions={add}>
      {isAdding && <TriggerForm close={() => setAdding(false)} created={triggers.reload} />}
      <Card title="All triggers" wide>
        <Show loaded={triggers}>
          {(items) => (
            <>
              {items.length === 0 ? (
                <Empty>There are no triggers. A trigger reports, changes or sends something when a memory is stored, recalled or cools.</Empty>
              ) : (
                <Table label="Triggers" head={["Name", "When", "Then", "Filters", "Fired", "Last", "State"]}>
                  {items.map((trigger) => (
                    <Row key={trigger.id} trigger={trigger} canWrite={canWrite} reload={triggers.reload} />
                  ))}
                </Table>
              )}
              <More pages={triggers} />
              <p class="dim">The page of a memory shows which triggers would fire for it.</p>
            </>
          )}
        </Show>
      </Card>
      <div class="grid">
        <Firings />
        <DeliveryList />
      </div>
    </Page>
  );
}

function Row({ trigger, canWrite, reload }: { trigger: Trigger; canWrite: boolean; reload: () => void }) {
  const client = useClient();
  const path = at`/api/v1/triggers/${trigger.id}`;
  const toggle = useAction(async () => {
    await client.act("PATCH", path, { enabled: !trigger.enabled });
    reload();
  });
  const remove = async () => {
    await client.act("DELETE", path);
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
              <Confirm label="Delete" subject={trigger.name} question={`This deletes the trigger ${trigger.name}.`} run={remove} />
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

function Firings() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<History>("/api/v1/triggers/history", { limit: 25 }, signal));
  useChanges(loaded.reload, PAUSE);
  return (
    <Card title="History" wide>
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
  const [status, setStatus] = useState("dead_letter");
  const pages = usePages<Deliveries["items"][number]>("/api/v1/triggers/deliveries", { limit: 50, status });
  useChanges(() => pages.isFirst && pages.reload(), PAUSE);
  const replay = useAction(async (id: string | null) => {
    let result: Replayed;
    // All dead letters take several requests.
    do {
      result = await client.act<Replayed>("POST", "/api/v1/triggers/deliveries/replay", id ? { id } : {});
    } while (!id && result.has_more && result.replayed > 0);
    pages.reload();
  });
  const canReplay = may(session, "agent") && status === "dead_letter";
  return (
    <Card title="Webhook deliveries" wide>
      <Select
        label="State"
        value={status}
        options={[
          ["dead_letter", "dead letters"],
          ["pending", "pending"],
        ]}
        set={setStatus}
      />
      <ErrorBox error={replay.error} />
      <Show loaded={pages}>
        {(items) =>
          items.length === 0 ? (
            <Empty>{status === "pending" ? "No delivery is pending." : "There are no dead letters."}</Empty>
          ) : (
            <>
              {canReplay && (
                <button type="button" disabled={replay.isRunning} onClick={() => replay.run(null)}>
                  Replay all dead letters
                </button>
              )}
              <Table label="Deliveries" head={["Trigger", "Fired", "Attempts", "Reason", ""]}>
                {items.map((item) => (
                  <tr key={item.id}>
                    <td dir="auto">{item.trigger_name}</td>
                    <td>{age(item.fired_at)}</td>
                    <td>{item.attempts}</td>
                    <td>{item.reason ?? ""}</td>
                    <td>
                      {canReplay && (
                        <button type="button" disabled={replay.isRunning} onClick={() => replay.run(item.id)}>
                          Replay
                        </button>
                      )}
                    </td>
                  </tr>
                ))}
              </Table>
              <More pages={pages} />
            </>
          )
        }
      </Show>
    </Card>
  );
}
