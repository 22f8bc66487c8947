// One memory: its text, heat, edges, history and origin, and what can be done with it.
import { useMemo, useState } from "preact/hooks";
import { Chart, type Series } from "../chart";
import { Card, Confirm, Empty, ErrorBox, Fact, Field, Heat, Input, Marks, MemoryLink, Page, Select, Show, Table } from "../components";
import { age, duration, moment } from "../format";
import { floorOf, halfLife, heatAfter, heatBefore } from "../heat-curve";
import { useAction, useLoad } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { ActivityPage, Memory, MemoryChanges, Neighbours, Settings, SettingsView } from "../types";
import { DECAY_CLASSES, MEMORY_TYPES } from "../types";

const NEIGHBOURS = 50;
const EVENTS = 50;

export function MemoryRecord({ id }: { id: string }) {
  const client = useClient();
  const loaded = useLoad(() => client.get<Memory>(`/api/v1/agent/nodes/${encodeURIComponent(id)}`), id);
  return (
    <Page title="Memory" actions={<a href="#/memories">All memories</a>}>
      <Show loaded={loaded}>
        {(memory) => (
          <div class="grid">
            <Text memory={memory} reload={loaded.reload} />
            <HeatCard memory={memory} />
            <Facts memory={memory} />
            <Edges id={memory.id} />
            <Past id={memory.id} />
          </div>
        )}
      </Show>
    </Page>
  );
}

function Text({ memory, reload }: { memory: Memory; reload: () => void }) {
  const session = useSession();
  const [isEditing, setEditing] = useState(false);
  if (isEditing) {
    const close = () => {
      setEditing(false);
      reload();
    };
    return <Edit memory={memory} close={close} />;
  }
  return (
    <Card title="Text" wide actions={<Marks memory={memory} />}>
      <p class="memory-text" dir="auto">
        {memory.label}
      </p>
      {memory.superseded_by && (
        <p>
          Replaced by <MemoryLink id={memory.superseded_by} label={null} />.
        </p>
      )}
      {may(session, "agent") && <Actions memory={memory} reload={reload} edit={() => setEditing(true)} />}
    </Card>
  );
}

function Actions({ memory, reload, edit }: { memory: Memory; reload: () => void; edit: () => void }) {
  const client = useClient();
  const path = `/api/v1/agent/nodes/${memory.id}`;
  const change = useAction(async (changes: MemoryChanges) => {
    await client.patch(path, changes);
    reload();
  });
  const restore = useAction(async () => {
    await client.post("/api/v1/agent/restore", { ids: [memory.id] });
    reload();
  });
  const remove = async () => {
    await client.delete(path);
    location.hash = "#/memories";
  };
  const toggles: [string, MemoryChanges][] = [
    [memory.is_pinned ? "Unpin" : "Pin", { is_pinned: !memory.is_pinned }],
    [memory.is_locked ? "Unlock" : "Lock", { is_locked: !memory.is_locked }],
  ];
  if (memory.flagged_for_review) toggles.push(["Remove the flag", { flagged_for_review: false }]);
  const locked = memory.is_locked ? "It is locked: unlock it first." : "";
  return (
    <>
      <div class="actions">
        <button type="button" onClick={edit} disabled={memory.is_locked} title={locked}>
          Edit
        </button>
        {toggles.map(([name, changes]) => (
          <button type="button" disabled={change.isRunning} onClick={() => change.run(changes)}>
            {name}
          </button>
        ))}
        {memory.tier === "cold" && (
          <button type="button" onClick={() => restore.run()}>
            Restore
          </button>
        )}
        <Confirm
          label="Delete"
          question="This deletes the memory and its edges for good."
          run={remove}
          disabled={memory.is_locked}
          title={locked}
        />
      </div>
      {locked && <p class="dim">A locked memory is not changed and not deleted. Unlock it first.</p>}
      <ErrorBox error={change.error ?? restore.error} />
    </>
  );
}

function Edit({ memory, close }: { memory: Memory; close: () => void }) {
  const client = useClient();
  const [label, setLabel] = useState(memory.label);
  const [type, setType] = useState(memory.memory_type);
  const [decay, setDecay] = useState(memory.decay_class);
  const [tags, setTags] = useState(memory.tags.join(", "));
  const save = useAction(async () => {
    const changes: MemoryChanges = {
      ...(label !== memory.label && { label }),
      ...(type !== memory.memory_type && { memory_type: type }),
      ...(decay !== memory.decay_class && { decay_class: decay }),
      tags: tags.split(",").flatMap((tag) => tag.trim() || []),
    };
    await client.patch(`/api/v1/agent/nodes/${memory.id}`, changes);
    close();
  });
  const submit = (event: Event) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <Card title="Edit" wide>
      <form onSubmit={submit}>
        <Field label="Text">
          {(id) => <textarea id={id} rows={8} dir="auto" value={label} onInput={(event) => setLabel(event.currentTarget.value)} />}
        </Field>
        <div class="filters">
          <Select label="Type" value={type} options={MEMORY_TYPES.map((name) => [name, name])} set={setType} />
          <Select label="Decay class" value={decay} options={DECAY_CLASSES.map((name) => [name, name])} set={setDecay} />
          <Input label="Tags" value={tags} set={setTags} />
        </div>
        <ErrorBox error={save.error} />
        <div class="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={save.isRunning}>
            Save
          </button>
        </div>
      </form>
    </Card>
  );
}

/** The heat since the last anchor, and its projection. */
function HeatCard({ memory }: { memory: Memory }) {
  const client = useClient();
  const loaded = useLoad(() => client.get<SettingsView>("/api/v1/settings/thermo"));
  return (
    <Card title="Heat">
      <Show loaded={loaded}>{({ config }) => <Curve memory={memory} settings={config} />}</Show>
    </Card>
  );
}

const POINTS = 60;

function Curve({ memory, settings }: { memory: Memory; settings: Settings }) {
  const half = halfLife(memory, settings);
  const { at, series } = useMemo(() => {
    const now = Date.now() / 1000;
    const times = [memory.created_at, memory.last_recalled_at, memory.updated_at];
    const anchor = Math.max(...times.map((time) => (time ? Date.parse(time) / 1000 : 0)));
    const past = Math.max(60, now - anchor);
    const future = Math.max(past, 4 * (half ?? 86_400));
    const before = Array.from({ length: POINTS }, (_, point) => -past + (past * point) / POINTS);
    const after = Array.from({ length: POINTS + 1 }, (_, point) => (future * point) / POINTS);
    const until: (number | null)[] = [
      ...before.map((second) => heatBefore(memory, settings, -second)),
      memory.heat,
      ...after.slice(1).map(() => null),
    ];
    const projected = [...before.map(() => null), ...after.map((second) => heatAfter(memory, settings, second))];
    const lines: Series[] = [
      { label: "since the last change", values: until },
      { label: "if nothing warms it", values: projected, isDashed: true },
    ];
    return { at: [...before, ...after].map((second) => now + second), series: lines };
  }, [memory, half]);
  const text = half === null ? "It does not cool." : `Its heat is half after ${duration(half)}, down to ${floorOf(memory, settings).toFixed(2)}.`;
  return (
    <>
      <p>
        <Heat heat={memory.heat} /> {text}
      </p>
      <Chart at={at} series={series} range={[0, 1]} summary={`Heat ${memory.heat.toFixed(2)} now. ${text}`} />
    </>
  );
}

function Facts({ memory }: { memory: Memory }) {
  const { origin } = memory;
  const metadata = Object.entries(memory.metadata);
  return (
    <Card title="Facts and origin">
      <dl class="facts">
        <Fact name="id">
          <code>{memory.id}</code>
        </Fact>
        <Fact name="type">{memory.memory_type}</Fact>
        <Fact name="namespace">
          <span dir="auto">{memory.namespace}</span>
        </Fact>
        <Fact name="decay class">{memory.decay_class}</Fact>
        <Fact name="stability">{memory.stability.toFixed(2)}</Fact>
        <Fact name="recalls">{memory.recall_count}</Fact>
        <Fact name="last recall">{age(memory.last_recalled_at)}</Fact>
        <Fact name="created">{moment(memory.created_at)}</Fact>
        <Fact name="changed">{moment(memory.updated_at)}</Fact>
        {memory.tags.length > 0 && (
          <Fact name="tags">
            <span dir="auto">{memory.tags.join(", ")}</span>
          </Fact>
        )}
        {metadata.map(([name, value]) => (
          <Fact name={name}>
            <span dir="auto">{typeof value === "string" ? value : JSON.stringify(value)}</span>
          </Fact>
        ))}
        {origin?.agent && <Fact name="stored by key">{origin.agent}</Fact>}
        {origin?.client && <Fact name="client">{origin.client}</Fact>}
        {origin?.tool && <Fact name="tool">{origin.tool}</Fact>}
      </dl>
    </Card>
  );
}

function Edges({ id }: { id: string }) {
  const client = useClient();
  const query = { limit: NEIGHBOURS };
  const loaded = useLoad(() => client.get<Neighbours>(`/api/v1/agent/graph/neighbors/${id}`, query), id);
  return (
    <Card title="Edges" actions={<a href={`#/graph/${id}`}>Show in the graph</a>}>
      <Show loaded={loaded}>
        {({ neighbors }) =>
          neighbors.length === 0 ? (
            <Empty>No edge leads to another memory.</Empty>
          ) : (
            <Table label="Edges" head={["Relation", "Weight", "Memory"]}>
              {neighbors.map((other) => (
                <tr key={other.id}>
                  <td dir="auto">{other.relation}</td>
                  <td>{other.weight.toFixed(2)}</td>
                  <td class="text">
                    <MemoryLink id={other.id} label={other.label} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Show>
    </Card>
  );
}

/** The events of the memory, the latest first, as far as the journal goes back. */
function Past({ id }: { id: string }) {
  const client = useClient();
  const [cursors, setCursors] = useState<(string | null)[]>([null]);
  const load = async () => {
    const pages = cursors.map((cursor) => client.get<ActivityPage>("/api/v1/activity", { node_id: id, limit: EVENTS, cursor }));
    const all = await Promise.all(pages);
    return { items: all.flatMap((page) => page.items), next: all.at(-1)?.next_cursor ?? null };
  };
  const loaded = useLoad(load, [id, cursors]);
  return (
    <Card title="History" wide>
      <Show loaded={loaded}>
        {({ items, next }) => (
          <>
            {items.length === 0 && <Empty>There are no events of it among the latest ones.</Empty>}
            <ol class="activity">
              {items.map((item) => (
                <li key={item.id}>
                  <span class="kind">{item.action}</span>
                  <small>
                    {item.actor}, <time dateTime={item.created_at}>{moment(item.created_at)}</time>
                  </small>
                </li>
              ))}
            </ol>
            {next && (
              <button type="button" onClick={() => setCursors([...cursors, next])}>
                Look further back
              </button>
            )}
          </>
        )}
      </Show>
    </Card>
  );
}
