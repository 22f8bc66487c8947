// Graph: the hottest memories and the edges between them. A force layout on a canvas; the same
// memories are a list beside it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { at } from "../client";
import { Card, Empty, ErrorBox, Heat, HeatLegend, MemoryLink, Page, Select } from "../components";
import { band, beginning } from "../format";
import { colourOf, draw, Layout, nameOf, type Point } from "../graph-layout";
import { useAction, useLoad, useTheme } from "../hooks";
import { may, useSession } from "../session";
import type { Graph, Memory, Neighbours } from "../types";

/** Memories of the view; that of all edges is for admins. */
const SIZES = ["200", "500", "1000"];
const SIZES_WITHOUT_EDGES = ["50", "100"];
const NEIGHBOURS = 50;

interface Link {
  source: string;
  target: string;
  relation: string;
  weight: number;
}

interface Content {
  memories: Map<string, Memory>;
  links: Map<string, Link>;
}

const linkName = (link: Link) => [link.source, link.target].sort().join(" ") + link.relation;

export function GraphPage({ path }: { path: string[] }) {
  const [start] = path;
  const session = useSession();
  const { client } = session;
  const sizes = may(session, "admin") ? SIZES : SIZES_WITHOUT_EDGES;
  const [size, setSize] = useState(sizes[0] ?? "50");
  const [colours, setColours] = useState<"heat" | "type" | "namespace">("heat");
  const [hasCold, setCold] = useState(false);
  const [added, setAdded] = useState<Content>({ memories: new Map(), links: new Map() });
  const [chosen, setChosen] = useState<string | null>(start ?? null);
  const load = async (signal: AbortSignal): Promise<Content> => {
    if (start) {
      const memory = await client.get<Memory>(at`/api/v1/agent/nodes/${start}`, {}, signal);
      return merged({ memories: new Map([[start, memory]]), links: new Map() }, await neighboursOf(start, signal));
    }
    if (may(session, "admin")) {
      const graph = await client.get<Graph>("/api/v1/admin/visualize/graph", { limit: size }, signal);
      return content(graph.nodes, graph.links);
    }
    return content(await client.get<Memory[]>("/api/v1/agent/hot_nodes", { limit: size }, signal), []);
  };
  const neighboursOf = async (id: string, signal?: AbortSignal): Promise<Content> => {
    const { neighbors } = await client.get<Neighbours>(at`/api/v1/agent/graph/neighbors/${id}`, { limit: NEIGHBOURS }, signal);
    const links = neighbors.map((other) => ({ source: id, target: other.id, relation: other.relation, weight: other.weight }));
    return content(neighbors, links);
  };
  const loaded = useLoad(load, [size, start]);
  const expand = useAction(async (id: string) => setAdded(merged(added, await neighboursOf(id))));
  const shown = useMemo(() => {
    const all = merged(loaded.data ?? content([], []), added);
    for (const [id, memory] of all.memories) {
      if (memory.tier === "cold" && !hasCold && id !== start) all.memories.delete(id);
    }
    for (const [name, link] of all.links) {
      if (!all.memories.has(link.source) || !all.memories.has(link.target)) all.links.delete(name);
    }
    return all;
  }, [loaded.data, added, hasCold]);
  const memory = chosen ? shown.memories.get(chosen) : undefined;
  return (
    <Page title="Graph">
      <div class="filters">
        {!start && (
          <Select label="Memories" value={size} options={sizes.map((name) => [name, `the hottest ${name}`])} set={setSize} />
        )}
        <Select
          label="Colour"
          value={colours}
          options={[
            ["heat", "by heat"],
            ["type", "by type"],
            ["namespace", "by namespace"],
          ]}
          set={setColours}
        />
        <label class="check">
          <input type="checkbox" checked={hasCold} onChange={(event) => setCold(event.currentTarget.checked)} />
          Archived neighbours too
        </label>
      </div>
      <ErrorBox error={loaded.error ?? expand.error} />
      {!loaded.data && !loaded.error && (
        <p class="dim" role="status">
          Loading …
        </p>
      )}
      {loaded.data && shown.memories.size === 0 && <Empty>There are no memories to show.</Empty>}
      <div class="graph">
        <Canvas content={shown} colour={(it) => colourOf(it, colours)} chosen={chosen} choose={setChosen} />
        <aside>
          {memory ? (
            <Card title="Chosen memory">
              <p>
                <Heat heat={memory.heat} /> {memory.memory_type}
              </p>
              <p>
                <MemoryLink id={memory.id} label={memory.label} />
              </p>
              <button type="button" disabled={expand.isRunning} onClick={() => expand.run(memory.id)}>
                Show its neighbours
              </button>
            </Card>
          ) : (
            <p class="dim">Choose a point, or a memory of the list. A point that was dragged stays in its place; a double click frees it.</p>
          )}
          {colours === "heat" ? <HeatLegend /> : <ColourLegend content={shown} colours={colours} />}
          <Listing content={shown} chosen={chosen} choose={setChosen} />
        </aside>
      </div>
    </Page>
  );
}

function content(memories: Memory[], links: Link[]): Content {
  return {
    memories: new Map(memories.map((memory) => [memory.id, memory])),
    links: new Map(links.map((link) => [linkName(link), link])),
  };
}

const merged = (one: Content, other: Content): Content => ({
  memories: new Map([...one.memories, ...other.memories]),
  links: new Map([...one.links, ...other.links]),
});

/** The colours of the types or namespaces that are shown. */
function ColourLegend({ content: graph, colours }: { content: Content; colours: "type" | "namespace" }) {
  const names = new Map([...graph.memories.values()].map((memory) => [nameOf(memory, colours), colourOf(memory, colours)]));
  return (
    <ul class="legend">
      {[...names].slice(0, 12).map(([name, colour]) => (
        <li dir="auto">
          <span class="dot" style={{ background: colour.startsWith("--") ? `var(${colour})` : colour }} /> {name}
        </li>
      ))}
      {names.size > 12 && <li>and {names.size - 12} more</li>}
    </ul>
  );
}

/** The memories of the graph as a list: for the keyboard, and for screen readers. */
function Listing(props: { content: Content; chosen: string | null; choose: (id: string) => void }) {
  const { content: graph, chosen, choose } = props;
  const degrees = new Map<string, number>();
  for (const { source, target } of graph.links.values()) {
    degrees.set(source, (degrees.get(source) ?? 0) + 1);
    degrees.set(target, (degrees.get(target) ?? 0) + 1);
  }
  return (
    <details>
      <summary>
        {graph.memories.size} memories, {graph.links.size} edges
      </summary>
      <ul class="listing">
        {[...graph.memories.values()].map((memory) => (
          <li>
            <button type="button" class="quiet" aria-pressed={memory.id === chosen} onClick={() => choose(memory.id)} dir="auto">
              {beginning(memory.label, 60)}
            </button>{" "}
            <small>
              {band(memory.heat)}, {degrees.get(memory.id) ?? 0} edges
            </small>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Canvas(props: {
  content: Content;
  colour: (memory: Memory) => string;
  chosen: string | null;
  choose: (id: string) => void;
}) {
  const { content: graph, colour, chosen, choose } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const layout = useRef<Layout | null>(null);
  const latest = useRef({ colour, chosen });
  latest.current = { colour, chosen };
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const view = (layout.current = new Layout(element, () => draw(view, latest.current.colour, latest.current.chosen)));
    return () => view.stop();
  }, []);
  useEffect(() => layout.current?.set([...graph.memories.values()], [...graph.links.values()]), [graph]);
  const theme = useTheme();
  useEffect(() => layout.current?.redraw(), [chosen, colour, theme]);
  const [hovered, setHovered] = useState<Point | null>(null);
  const move = (event: PointerEvent) => {
    const view = layout.current;
    if (!view) return;
    if (view.isDragging) return view.drag(event);
    setHovered(view.at(event));
  };
  return (
    <div class="canvas">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`A graph of ${graph.memories.size} memories and ${graph.links.size} edges. The list beside it has the same.`}
        onPointerMove={move}
        onPointerDown={(event) => {
          const point = layout.current?.press(event);
          if (point) choose(point.memory.id);
        }}
        onPointerUp={(event) => layout.current?.release(event)}
        onPointerCancel={(event) => layout.current?.release(event)}
        onDblClick={(event) => layout.current?.free(event)}
        onWheel={(event) => layout.current?.zoom(event)}
      />
      <div class="zoom">
        <button type="button" aria-label="Zoom in" onClick={() => layout.current?.zoomBy(1.5)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => layout.current?.zoomBy(1 / 1.5)}>
          −
        </button>
      </div>
      <p class="hint" dir="auto" aria-hidden="true">
        {hovered ? `${hovered.memory.heat.toFixed(2)} ${beginning(hovered.memory.label, 100)}` : " "}
      </p>
    </div>
  );
}
