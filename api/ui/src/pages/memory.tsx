// One memory: its text, heat, edges, history and origin, and what can be done with it.
import { useMemo, useState } from "preact/hooks";
import { Chart, type Series } from "../chart";
import { at } from "../client";
import { Card, Confirm, Empty, ErrorBox, Fact, Form, Heat, Input, Marks, MemoryLink, More, NumberInput, Page, Select, Show, Table, TextArea } from "../components";
import { age, detectionWords, duration, eventWords, moment } from "../format";
import { floorOf, halfLife, heatAt } from "../heat-curve";
import { useAction, useLoad, usePages } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { Activity, AnchoredMemory, Memory, MemoryChanges, Neighbours, Settings, SettingsView } from "../types";
import { DECAY_CLASSES, MEMORY_TYPES } from "../types";
import { Evaluation } from "./evaluation";

const NEIGHBOURS = 50;
const EVENTS = 50;

export function MemoryRecord({ id }: { id: string }) {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<AnchoredMemory>(at`/api/v1/agent/nodes/${id}`, { anchor: true }, signal), id);
  return (
    <Page title="Memory" actions={<a href="#/memories">All memories</a>}>
      <Show loaded={loaded}>
        {(memory) => (
          <div class="grid">
            <Text memory={memory} reload={loaded.reload} />
            <HeatCard memory={memory} />
            <Facts memory={memory} />
            <Edges id={memory.id} />
            <Evaluation memory={memory} />
            <Past memory={memory} />
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
  const session = useSession();
  const { client } = session;
  const path = at`/api/v1/agent/nodes/${memory.id}`;
  const change = useAction(async (changes: MemoryChanges) => {
    await client.write("PATCH", path, changes);
    reload();
  });
  const restore = useAction(async () => {
    await client.act("POST", "/api/v1/agent/restore", { ids: [memory.id] });
    reload();
  });
  const remove = async () => {
    await client.write("DELETE", path);
    location.hash = "#/memories";
  };
  const toggles: [string, MemoryChanges][] = [
    [memory.is_pinned ? "Unpin" : "Pin", { is_pinned: !memory.is_pinned }],
    [memory.is_locked ? "Unlock" : "Lock", { is_locked: !memory.is_locked }],
  ];
  // A review clears every flag. `flagged_for_review: false` does not clear a flag of the guard.
  if (may(session, "admin")) {
    if (memory.quarantined) toggles.push(["Release", { reviewed: true }]);
    else if (memory.flagged_for_review) toggles.push(["Remove the flag", { reviewed: true }]);
  } else if (memory.flagged_for_review && memory.detections.length === 0) {
    toggles.push(["Remove the flag", { flagged_for_review: false }]);
  }
  const locked = memory.is_locked ? "A locked memory is not deleted. Unlock it first." : "";
  return (
    <>
      <div class="actions">
        <button type="button" onClick={edit}>
          Edit
        </button>
        {toggles.map(([name, changes]) => (
          <button type="button" disabled={change.isRunning} onClick={() => change.run(changes)}>
            {name}
          </button>
        ))}
        {memory.tier === "cold" && !memory.quarantined && (
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
      {locked && <p class="dim">{locked}</p>}
      <ErrorBox error={change.error ?? restore.error} />
    </>
  );
}

/** The texts of the form of a memory. */
function textsOf(memory: Memory) {
  return {
    label: memory.label,
    memory_type: memory.memory_type as string,
    namespace: memory.namespace,
    decay_class: memory.decay_class,
    current_heat: String(memory.heat),
    min_heat: String(memory.min_heat),
    tags: memory.tags.join("\n"),
    metadata: Object.keys(memory.metadata).length === 0 ? "" : JSON.stringify(memory.metadata, null, 1),
  };
}

/** The value of a field of the form. */
const VALUES: Partial<Record<keyof ReturnType<typeof textsOf>, (text: string) => unknown>> = {
  current_heat: Number,
  min_heat: Number,
  tags: (text) => text.split("\n").flatMap((tag) => tag.trim() || []),
  metadata: (text) => (text.trim() === "" ? {} : JSON.parse(text)),
};

function Edit({ memory, close }: { memory: Memory; close: () => void }) {
  const client = useClient();
  const [initial] = useState(textsOf(memory));
  const [texts, setTexts] = useState(initial);
  const set = (change: Partial<typeof texts>) => setTexts({ ...texts, ...change });
  const save = useAction(async () => {
    // Only what the person changed: agents may have changed the rest meanwhile.
    const names = Object.keys(texts) as (keyof typeof texts)[];
    const changed = names.filter((name) => texts[name] !== initial[name]);
    const changes = changed.map((name) => [name, (VALUES[name] ?? String)(texts[name])]);
    if (changes.length > 0) await client.write("PATCH", at`/api/v1/agent/nodes/${memory.id}`, Object.fromEntries(changes));
    close();
  });
  return (
    <Card title="Edit" wide>
      <Form action={save} submit="Save" cancel={close}>
        <TextArea label="Text" rows={8} value={texts.label} set={(label) => set({ label })} />
        <div class="filters">
          <Select label="Type" value={texts.memory_type} options={MEMORY_TYPES.map((name) => [name, name])} set={(memory_type) => set({ memory_type })} />
          <Input label="Namespace" required value={texts.namespace} set={(namespace) => set({ namespace })} />
          <Select label="Decay class" value={texts.decay_class} options={DECAY_CLASSES.map((name) => [name, name])} set={(decay_class) => set({ decay_class })} />
          <NumberInput label="Heat" required min={0} max={1} value={texts.current_heat} set={(current_heat) => set({ current_heat })} />
          <NumberInput label="Cools to this heat at most" required min={0} max={1} value={texts.min_heat} set={(min_heat) => set({ min_heat })} />
        </div>
        <TextArea label="Tags, one per line" rows={2} value={texts.tags} set={(tags) => set({ tags })} />
        <TextArea label="Metadata, as JSON" rows={3} value={texts.metadata} set={(metadata) => set({ metadata })} />
      </Form>
    </Card>
  );
}

/** The heat since the anchor, and its projection. */
function HeatCard({ memory }: { memory: AnchoredMemory }) {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<SettingsView>("/api/v1/settings/thermo", {}, signal));
  return (
    <Card title="Heat">
      <Show loaded={loaded}>{({ config }) => <Curve memory={memory} settings={config} />}</Show>
    </Card>
  );
}

const POINTS = 60;
const DAY = 86_400_000;

function Curve({ memory, settings }: { memory: AnchoredMemory; settings: Settings }) {
  const half = halfLife(memory, settings);
  const { at, series } = useMemo(() => {
    const now = Date.now();
    const anchor = Math.min(now - 60_000, Date.parse(memory.anchor.at));
    const until = now + Math.max(now - anchor, 4000 * (half ?? DAY / 1000));
    const points = (from: number, to: number) => Array.from({ length: POINTS }, (_, point) => from + ((to - from) * point) / POINTS);
    const [before, after] = [points(anchor, now), [...points(now, until), until]];
    const heat = (time: number) => heatAt(memory, settings, Math.max(time, Date.parse(memory.anchor.at)));
    const lines: Series[] = [
      { label: "since the last recall or change of heat", values: [...before.map(heat), memory.heat, ...after.slice(1).map(() => null)] },
      { label: "if nothing warms it", values: [...before.map(() => null), ...after.map(heat)], isDashed: true },
    ];
    return { at: [...before, ...after].map((time) => time / 1000), series: lines };
  }, [memory, half]);
  const text = half === null ? "It does not cool." : `It halves in ${duration(half)}, down to ${floorOf(memory, settings).toFixed(2)}.`;
  return (
    <>
      <p>
        <Heat heat={memory.heat} /> It was {memory.anchor.heat.toFixed(2)} {age(memory.anchor.at)}. {text}
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
        {memory.trust !== "normal" && <Fact name="trust">{memory.trust}</Fact>}
        {memory.detections.length > 0 && <Fact name="found by the guard">{detectionWords(memory.detections)}</Fact>}
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
        {memory.key_points.length > 0 && (
          <Fact name="key points">
            <span dir="auto">{memory.key_points.join("; ")}</span>
          </Fact>
        )}
        {memory.echo_of && (
          <Fact name="repeats">
            <MemoryLink id={memory.echo_of} label={null} />
          </Fact>
        )}
        {memory.folded_from.length > 0 && (
          <Fact name="folded from">
            {memory.folded_from.map((id) => (
              <div>
                <MemoryLink id={id} label={null} />
              </div>
            ))}
          </Fact>
        )}
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
  const loaded = useLoad((signal) => client.get<Neighbours>(at`/api/v1/agent/graph/neighbors/${id}`, query, signal), id);
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
function Past({ memory }: { memory: Memory }) {
  const pages = usePages<Activity>("/api/v1/activity", { node_id: memory.id, limit: EVENTS }, memory.updated_at);
  return (
    <Card title="History" wide>
      <Show loaded={pages}>
        {(items) => (
          <>
            {items.length === 0 && <Empty>There are no events of it among the latest ones.</Empty>}
            <ol class="activity">
              {items.map((item) => (
                <li key={item.id}>
                  <span class="kind">{eventWords(item.action)}</span>
                  <small>
                    {item.actor}, <time dateTime={item.created_at}>{moment(item.created_at)}</time>
                  </small>
                </li>
              ))}
            </ol>
            <More pages={pages} />
          </>
        )}
      </Show>
    </Card>
  );
}
