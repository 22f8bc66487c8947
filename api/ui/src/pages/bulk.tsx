// Changes of several memories, with a preview of what each change reaches.
import { useState } from "preact/hooks";
import { Dialog, ErrorBox } from "../components";
import { beginning } from "../format";
import { useAction } from "../hooks";
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

export function BulkActions({ memories, done }: { memories: Memory[]; done: () => void }) {
  const [action, setAction] = useState<Bulk | null>(null);
  return (
    <div class="bulk" role="status">
      {memories.length} selected
      {ACTIONS.map((bulk) => (
        <button type="button" class={bulk.name === "Delete" ? "danger" : ""} onClick={() => setAction(bulk)}>
          {bulk.name} …
        </button>
      ))}
      {action && <Preview action={action} memories={memories} close={() => setAction(null)} done={done} />}
    </div>
  );
}

type Result = Partial<Updated & Restored & BulkDeleted>;

function Preview(props: { action: Bulk; memories: Memory[]; close: () => void; done: () => void }) {
  const { action, memories, close, done } = props;
  const client = useClient();
  const reached = memories.filter(action.reaches);
  const others = memories.length - reached.length;
  const run = useAction(async () => {
    const ids = reached.map((memory) => memory.id);
    const result = await client.post<Result>(action.path, { ...action.body, ids });
    const errors = result.errors ?? [];
    if (errors.length > 0) throw new Error(`${errors.length} were rejected: ${errors.slice(0, 3).join("; ")}`);
    if (result.remaining) throw new Error(`${result.remaining} remain: repeat it`);
    close();
    done();
  });
  return (
    <Dialog title={`${action.name} ${reached.length} memories?`} close={close}>
      {others > 0 && (
        <p>
          {others} of the selected ones stay as they are: {action.otherwise}.
        </p>
      )}
      <ul class="preview">
        {reached.map((memory) => (
          <li dir="auto">{beginning(memory.label, 100)}</li>
        ))}
      </ul>
      <ErrorBox error={run.error} />
      <div class="actions">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class={action.name === "Delete" ? "danger" : "primary"}
          disabled={run.isRunning || reached.length === 0}
          onClick={() => run.run()}
        >
          {action.name} {reached.length}
        </button>
      </div>
    </Dialog>
  );
}
