// A dry run: which triggers would fire for a memory, without firing.
import { useState } from "preact/hooks";
import { Card, Empty, Select, Show } from "../components";
import { useLoad } from "../hooks";
import { useClient } from "../session";
import type { Evaluation as Result, Memory, TriggerEvent } from "../types";
import { TRIGGER_EVENTS } from "../types";

export function Evaluation({ memory }: { memory: Memory }) {
  const client = useClient();
  const [event, setEvent] = useState<TriggerEvent>("on_store");
  const body = { event, node_id: memory.id };
  const loaded = useLoad((signal) => client.ask<Result>("/api/v1/triggers/evaluate", body, signal), [body, memory.updated_at]);
  return (
    <Card title="Triggers, as a dry run">
      <Select label="If this happened to the memory" value={event} options={TRIGGER_EVENTS} set={setEvent} />
      <Show loaded={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty>No trigger is for this event.</Empty>
          ) : (
            <ul>
              {items.map((item) => (
                <li>
                  <span dir="auto">{item.trigger_name}</span>:{" "}
                  {item.would_fire ? `would fire, with the action ${item.action}` : `would not fire (${item.reason})`}
                </li>
              ))}
            </ul>
          )
        }
      </Show>
    </Card>
  );
}
