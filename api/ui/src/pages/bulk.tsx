// Changes of several memories, with a preview of what each change reaches.
import { useState } from "preact/hooks";
import { at } from "../client";
import { ConfirmDialog, Show } from "../components";
import { RequestError } from "../errors";
import { beginning } from "../format";
import { useLoad } from "../hooks";
import { useClient } from "../session";
import type { BulkDeleted, Memory, Restored, Updated } from "../types";

interface Bulk {
  name: string;
  /** Whether it changes a memory. */
  reaches: (memory: Memory) => boolean;
  /** Why it does not. */
  otherwise: string;
  path: string;
  body: Record<string, unknown>;
}

const ACTIONS: Bulk[] = [
  {
    name: "Pin",
    reaches: (memory) => !memory.is_pinned,
    otherwise: "pinned already",
    path: "/api/v1/agent/nodes/bulk-patch",
    body: { is_pinned: true },
  },
  {
    name: "Unpin",
    reaches: (memory) => memory.is_pinned,
    otherwise: "not pinned",
    path: "/api/v1/agent/nodes/bulk-patch",
    body: { is_pinned: false },
  },
  {
    name: "Restore",
    reaches: (memory) => memory.tier === "cold",
    otherwise: "in the hot tier",
    path: "/api/v1/agent/restore",
    body: {},
  },
  {
    name: "Delete",
    reaches: (memory) => !memory.is_locked,
    otherwise: "locked",
    path: "/api/v1/agent/nodes/bulk",
    body: {},
  },
];

interface Props {
  ids: string[];
  /** After a change, also of a part of them. */
  changed: () => void;
  clear: () => void;
}

export function BulkActions(props: Props) {
  const [action, setAction] = useState<Bulk | null>(null);
  return (
    <div class="bulk">
      <span role="status">{props.ids.length} selected</span>
      {ACTIONS.map((bulk) => (
        <button type="button" class={bulk.name === "Delete" ? "danger" : ""} onClick={() => setAction(bulk)}>
          {bulk.name} …
        </button>
      ))}
      <button type="button" class="quiet" onClick={props.clear}>
        Clear
      </button>
      {action && <Preview {...props} action={action} close={() => setAction(null)} />}
    </div>
  );
}

type Result = Partial<Updated & Restored & BulkDeleted>;

function Preview({ action, ids, changed, clear, close }: Props & { action: Bulk; close: () => void }) {
  const client = useClient();
  // As they are now: others may have changed them since the list was loaded.
  const load = async (signal: AbortSignal) => {
    const reads = ids.map((id) => client.get<Memory>(at`/api/v1/agent/nodes/${id}`, {}, signal).catch(absent));
    return (await Promise.all(reads)).filter((memory) => memory !== null);
  };
  const loaded = useLoad(load, ids);
  const reached = (loaded.data ?? []).filter(action.reaches);
  const run = async () => {
    const body = { ...action.body, ids: reached.map((memory) => memory.id) };
    const result = await client.act<Result>("POST", action.path, body).finally(changed);
    const errors = result.errors ?? [];
    if (errors.length > 0) throw new Error(`${errors.length} were rejected: ${errors.slice(0, 3).join("; ")}`);
    if (result.remaining) throw new Error(`${result.remaining} remain: repeat it`);
    clear();
  };
  const preview = (
    <Show loaded={loaded}>
      {(memories) => (
        <>
          {reached.length < ids.length && (
            <p>
              {ids.length - reached.length} of the selected ones stay as they are: {action.otherwise}
              {memories.length < ids.length && ", or deleted"}.
            </p>
          )}
          <ul class="preview">
            {reached.map((memory) => (
              <li dir="auto">{beginning(memory.label, 100)}</li>
            ))}
          </ul>
        </>
      )}
    </Show>
  );
  return (
    <ConfirmDialog
      label={`${action.name} ${reached.length}`}
      question={preview}
      run={run}
      isMild={action.name !== "Delete"}
      disabled={reached.length === 0}
      close={close}
    />
  );
}

function absent(error: unknown): null {
  if (error instanceof RequestError && error.status === 404) return null;
  throw error;
}
