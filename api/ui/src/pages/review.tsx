// Review: the memories in quarantine and those that are flagged, for the decision of an admin.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { at } from "../client";
import { Card, Confirm, Empty, ErrorBox, Fact, More, Page, Show } from "../components";
import { age, beginning, count, detectionWords, moment } from "../format";
import { useAction, usePages } from "../hooks";
import { useClient } from "../session";
import type { Memory, MemoryChanges } from "../types";

const PAGE_SIZE = 25;
/** Longer texts are shown by their beginning, and whole on request. */
const CHARACTERS = 500;
const LINES = 10;

export function ReviewPage() {
  const [message, setMessage] = useState("");
  return (
    <Page title="Review">
      <p class="dim" role="status">
        {message}
      </p>
      <List
        title="In quarantine"
        filter={{ quarantined: true }}
        empty="Nothing is in quarantine. Memories are listed here if a rule of the guard has the action quarantine and finds something in them. Agents do not find them until you release them."
        accept="Release"
        report={setMessage}
      />
      <List
        title="Flagged for review"
        filter={{ flagged: true }}
        empty="Nothing is flagged. Memories are listed here if a rule of the guard has the action flag and finds something in them, or if an agent reports that they are wrong. Agents find them meanwhile."
        accept="It is right"
        report={setMessage}
      />
    </Page>
  );
}

interface ListProps {
  title: string;
  filter: { quarantined: true } | { flagged: true };
  empty: string;
  /** The name of the button that keeps a memory. */
  accept: string;
  report: (message: string) => void;
}

function List({ title, filter, empty, accept, report }: ListProps) {
  const pages = usePages<Memory>("/api/v1/agent/nodes", { ...filter, sort: "created_at", order: "desc", page_size: PAGE_SIZE });
  /** Memories with a decision, which are no longer listed. */
  const [decided, setDecided] = useState<ReadonlySet<string>>(new Set());
  const open = (pages.data ?? []).filter(({ id }) => !decided.has(id));
  /** Where the focus goes when an item disappears; null if it is elsewhere. */
  const next = useRef<HTMLElement | null>(null);
  useLayoutEffect(() => {
    next.current?.focus();
    next.current = null;
    // All memories of the loaded pages have a decision.
    if (decided.size > 0 && open.length === 0) pages.more?.();
  }, [decided]);
  const decide = (memory: Memory, item: HTMLElement | null, message: string) => {
    const focused = document.activeElement;
    if (focused === document.body || item?.contains(focused)) {
      const other = item?.nextElementSibling ?? item?.previousElementSibling ?? document.querySelector("main h1");
      next.current = other as HTMLElement | null;
    }
    setDecided((before) => new Set(before).add(memory.id));
    report(`${message}: ${beginning(memory.label, 60)}`);
  };
  return (
    <Card title={title} wide>
      <Show loaded={pages}>
        {() => (
          <>
            {open.length === 0 && !pages.more && <Empty>{empty}</Empty>}
            {open.length > 0 && (
              <ol class="results">
                {open.map((memory) => (
                  <Item key={memory.id} memory={memory} accept={accept} decide={decide} />
                ))}
              </ol>
            )}
            <More pages={pages} />
          </>
        )}
      </Show>
    </Card>
  );
}

interface ItemProps {
  memory: Memory;
  accept: string;
  decide: (memory: Memory, item: HTMLElement | null, message: string) => void;
}

function Item({ memory, accept, decide }: ItemProps) {
  const client = useClient();
  const item = useRef<HTMLLIElement>(null);
  const path = at`/api/v1/agent/nodes/${memory.id}`;
  const keep = useAction(async () => {
    const changes: MemoryChanges = { reviewed: true };
    await client.write("PATCH", path, changes);
    decide(memory, item.current, memory.quarantined ? "Released" : "Marked as right");
  });
  const reject = async () => {
    await client.write("DELETE", `${path}?reject=true`);
    decide(memory, item.current, "Deleted, and the text is rejected");
  };
  const { agent, tool, client: program } = memory.origin;
  const subject = `“${beginning(memory.label, 40)}”`;
  return (
    // An item takes the focus, and not one of its buttons: a second Enter decides nothing.
    <li ref={item} tabIndex={-1} class={keep.isRunning ? "stale" : ""}>
      <Text text={memory.label} />
      <dl class="facts">
        <Fact name="found">{memory.detections.length > 0 ? detectionWords(memory.detections) : "nothing: a client flagged it"}</Fact>
        <Fact name="namespace">
          <span dir="auto">{memory.namespace}</span>
        </Fact>
        <Fact name="stored by">
          <span dir="auto">{[agent, tool, program].filter(Boolean).join(", ") || "unknown"}</span>
        </Fact>
        <Fact name="stored">
          <time dateTime={memory.created_at} title={moment(memory.created_at)}>
            {age(memory.created_at)}
          </time>
        </Fact>
      </dl>
      <div class="actions">
        <button type="button" aria-label={`${accept} ${subject}`} onClick={() => keep.run()}>
          {accept}
        </button>
        <Confirm
          label="Delete, and reject the text"
          subject={subject}
          question="This deletes the memory and its edges for good. Captures and imports do not bring the text back."
          run={reject}
          disabled={memory.is_locked}
          title={memory.is_locked ? "A locked memory is not deleted. Unlock it first." : ""}
        />
        {(!memory.quarantined || memory.is_locked) && (
          <a href={`#/memories/${memory.id}`} aria-label={`Open ${subject}`}>
            Open
          </a>
        )}
      </div>
      <ErrorBox error={keep.error} />
    </li>
  );
}

/** A text as it is stored, and no part of it as a link. */
function Text({ text }: { text: string }) {
  const isLong = text.length > CHARACTERS || text.split("\n", LINES + 1).length > LINES;
  if (!isLong) {
    return (
      <div class="memory-text" dir="auto">
        {text}
      </div>
    );
  }
  return (
    <>
      <div dir="auto">{beginning(text, CHARACTERS)}</div>
      <details>
        <summary>The whole text: {count(text.length)} characters</summary>
        <div class="memory-text" dir="auto">
          {text}
        </div>
      </details>
    </>
  );
}
