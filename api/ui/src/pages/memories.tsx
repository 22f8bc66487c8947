// Memories: the list, the search, and one memory. The address has the filters, so that the way back has
// them too; a search is put again by Enter.
import { useEffect, useState } from "preact/hooks";
import { Card, Empty, Heat, Input, Marks, MemoryLink, Page, Select, Show, Table } from "../components";
import { Explain, ExplainLegend } from "../explain";
import { age, beginning, count } from "../format";
import { useLoad, useSettled } from "../hooks";
import { may, useClient, useSession } from "../session";
import { type Explanation, type Memory, MEMORY_TYPES, type MemoryPage, type SearchResult } from "../types";
import { BulkActions } from "./bulk";
import { MemoryRecord } from "./memory";
import { NewMemoryForm } from "./new-memory";

const PAGE_SIZE = 25;
const RESULTS = 25;

const DEFAULTS = {
  words: "",
  by: "words",
  memory_type: "",
  namespace: "",
  tier: "all",
  marks: "",
  sort: "heat desc",
  tags: "",
  metadata: "",
  agent: "",
  min_heat: "",
  time_from: "",
  time_to: "",
  page: "1",
};
type Filters = typeof DEFAULTS;
/** The filters of a search, and its number: the same question may be put again. */
type Question = Filters & { number: number };
const FURTHER = ["tags", "metadata", "agent", "min_heat", "time_from", "time_to"] as const;

export function MemoriesPage({ path }: { path: string[] }) {
  const [id] = path;
  return id ? <MemoryRecord id={id} /> : <MemoryLists />;
}

const filtersOfAddress = (): Filters => ({ ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])) });

/** The filters of the address, and what writes them there. */
function useFilters(): [Filters, (change: Partial<Filters>) => void] {
  const [filters, setFilters] = useState<Filters>(filtersOfAddress);
  useEffect(() => {
    const changed = () => setFilters(filtersOfAddress());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  const settled = useSettled(filters);
  useEffect(() => {
    const parts = Object.entries(settled).filter(([name, value]) => value !== DEFAULTS[name as keyof Filters]);
    const text = new URLSearchParams(parts).toString();
    // The address of an entry of the history changes; there is no new entry for each key.
    history.replaceState(null, "", `#/memories${text && `?${text}`}`);
  }, [settled]);
  return [filters, (change) => setFilters((before) => ({ ...before, page: "1", ...change }))];
}

function MemoryLists() {
  const session = useSession();
  const [filters, set] = useFilters();
  const [question, setQuestion] = useState<Question | null>(null);
  const [isAdding, setAdding] = useState(false);
  const [changes, setChanges] = useState(0);
  const isSearch = filters.by === "meaning";
  const add = may(session, "agent") && (
    <button type="button" class="primary" onClick={() => setAdding(true)}>
      New memory
    </button>
  );
  const submit = (event: Event) => {
    event.preventDefault();
    // All filters as they are at this moment.
    setQuestion(filters.words.trim() === "" ? null : { ...filters, number: (question?.number ?? 0) + 1 });
  };
  return (
    <Page title="Memories" actions={add}>
      {isAdding && <NewMemoryForm close={() => setAdding(false)} stored={() => setChanges(changes + 1)} />}
      <form role="search" onSubmit={submit}>
        <div class="filters">
          <Input
            label={isSearch ? "Question" : "Words"}
            type="search"
            value={filters.words}
            placeholder={isSearch ? "Which units should I answer in?" : "Words that all occur"}
            set={(words) => set({ words })}
          />
          <Select
            label="Find by"
            value={filters.by}
            options={[
              ["words", "words"],
              ["meaning", "meaning"],
            ]}
            set={(by) => set({ by })}
          />
          <Select
            label="Type"
            value={filters.memory_type}
            options={[["", "all"], ...MEMORY_TYPES.map((type) => [type, type] as const)]}
            set={(memory_type) => set({ memory_type })}
          />
          <Input label="Namespace" value={filters.namespace} placeholder="all" set={(namespace) => set({ namespace })} />
          <Select
            label="Tier"
            value={filters.tier}
            options={[
              ["all", "hot and archived"],
              ["hot", "hot"],
              ["cold", "archived"],
            ]}
            set={(tier) => set({ tier })}
          />
          {isSearch ? (
            <button type="submit" class="primary">
              Search
            </button>
          ) : (
            <ListFilters filters={filters} set={set} />
          )}
        </div>
        <FurtherFilters filters={filters} set={set} isSearch={isSearch} />
      </form>
      {isSearch ? <Results question={question} /> : <List filters={filters} set={set} changes={changes} />}
    </Page>
  );
}

interface FilterProps {
  filters: Filters;
  set: (change: Partial<Filters>) => void;
}

function ListFilters({ filters, set }: FilterProps) {
  return (
    <>
      <Select
        label="Marks"
        value={filters.marks}
        options={[
          ["", "all"],
          ["pinned", "pinned"],
          ["flagged", "flagged for review"],
        ]}
        set={(marks) => set({ marks })}
      />
      <Select
        label="Order"
        value={filters.sort}
        options={[
          ["heat desc", "hottest first"],
          ["heat asc", "coldest first"],
          ["created_at desc", "newest first"],
          ["created_at asc", "oldest first"],
          ["updated_at desc", "last changed first"],
        ]}
        set={(sort) => set({ sort })}
      />
    </>
  );
}

function FurtherFilters({ filters, set, isSearch }: FilterProps & { isSearch: boolean }) {
  const [isUsed] = useState(FURTHER.some((name) => filters[name] !== ""));
  return (
    <details open={isUsed}>
      <summary>More filters</summary>
      <div class="filters">
        <Input label="Tags" placeholder="one, two" value={filters.tags} set={(tags) => set({ tags })} />
        <Input label="Metadata" placeholder="source=wiki" value={filters.metadata} set={(metadata) => set({ metadata })} />
        <Input label="Stored by the key" value={filters.agent} set={(agent) => set({ agent })} />
        {!isSearch && <Input label="At least so hot" placeholder="0.5" value={filters.min_heat} set={(min_heat) => set({ min_heat })} />}
        <Input label="Created from" placeholder="2026-11-27" value={filters.time_from} set={(time_from) => set({ time_from })} />
        <Input label="Created until" placeholder="2026-11-27" value={filters.time_to} set={(time_to) => set({ time_to })} />
      </div>
    </details>
  );
}

/** The query of a list. */
function queryOf(filters: Filters) {
  const { words, by: _, marks, sort, ...same } = filters;
  const [field, order] = sort.split(" ");
  return {
    ...same,
    search: words,
    pinned: marks === "pinned" ? true : null,
    flagged: marks === "flagged" ? true : null,
    sort: field,
    order,
    page_size: PAGE_SIZE,
  };
}

function List({ filters, set, changes }: FilterProps & { changes: number }) {
  const session = useSession();
  const { client } = session;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const query = useSettled(queryOf(filters));
  const loaded = useLoad((signal) => client.get<MemoryPage>("/api/v1/agent/nodes", query, signal), [query, changes], { keep: true });
  const toggle = (id: string) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setSelected(next);
  };
  const canWrite = may(session, "agent");
  const page = Math.max(1, Number(filters.page) || 1);
  return (
    <>
      {canWrite && selected.size > 0 && (
        <BulkActions ids={[...selected]} changed={loaded.reload} clear={() => setSelected(new Set())} />
      )}
      <Show loaded={loaded}>
        {(data) => {
          if (data.total === 0) return <Empty>No memory matches.</Empty>;
          const pages = Math.max(1, Math.ceil(data.total / PAGE_SIZE));
          // Memories of the last page were deleted.
          if (page > pages) {
            return (
              <button type="button" onClick={() => set({ page: String(pages) })}>
                Show the last page
              </button>
            );
          }
          return (
            <>
              <Table
                label="Memories"
                head={[...(canWrite ? [<span class="hidden">Select</span>] : []), "Heat", "Text", "Type", "Namespace", "Changed"]}
              >
                {data.items.map((memory) => (
                  <tr key={memory.id}>
                    {canWrite && (
                      <td>
                        <input
                          type="checkbox"
                          aria-label={`Select: ${beginning(memory.label, 40)}`}
                          checked={selected.has(memory.id)}
                          onChange={() => toggle(memory.id)}
                        />
                      </td>
                    )}
                    <MemoryCells memory={memory} />
                  </tr>
                ))}
              </Table>
              <div class="pager">
                <button type="button" disabled={page <= 1} onClick={() => set({ page: String(page - 1) })}>
                  Previous
                </button>
                <span role="status">
                  Page {page} of {count(pages)}, {count(data.total)} memories
                </span>
                <button type="button" disabled={page >= pages} onClick={() => set({ page: String(page + 1) })}>
                  Next
                </button>
              </div>
            </>
          );
        }}
      </Show>
    </>
  );
}

function MemoryCells({ memory }: { memory: Memory }) {
  return (
    <>
      <td>
        <Heat heat={memory.heat} />
      </td>
      <td class="text">
        <MemoryLink id={memory.id} label={memory.label} /> <Marks memory={memory} />
      </td>
      <td>{memory.memory_type}</td>
      <td dir="auto">{memory.namespace}</td>
      <td title={memory.updated_at}>{age(memory.updated_at)}</td>
    </>
  );
}

/** The entries of a filter by metadata, as a list reads them: JSON where it is some, or a text. */
function entriesOf(text: string): [string, unknown][] {
  const parts = text.split(",").flatMap((part) => part.trim() || []);
  return parts.map((part) => {
    const at = part.indexOf("=");
    if (at <= 0) throw new Error(`Metadata: write name=value in place of ${part}.`);
    return [part.slice(0, at).trim(), jsonOr(part.slice(at + 1))];
  });
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The body of a search: what has no value is left out. */
function bodyOf(filters: Filters) {
  const { words, tier, memory_type, namespace, tags, metadata, agent, time_from, time_to } = filters;
  const list = tags.split(",").flatMap((tag) => tag.trim() || []);
  const entries = entriesOf(metadata);
  const fields = { memory_type, namespace, agent, time_from, time_to };
  return {
    query: words.trim(),
    limit: RESULTS,
    explain: true,
    tier,
    ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "")),
    ...(list.length > 0 && { tags: list }),
    ...(entries.length > 0 && { metadata: Object.fromEntries(entries) }),
  };
}

/** A search by meaning. It warms its first results, as that of an agent, so it waits for Enter. */
function Results({ question }: { question: Question | null }) {
  const client = useClient();
  const search = async (signal: AbortSignal) => (question ? client.search<SearchResult[]>(bodyOf(question), signal) : []);
  const loaded = useLoad(search, question);
  if (!question) {
    return <Empty>Write a question, and press Enter. The search warms its first results, as that of an agent does.</Empty>;
  }
  const longest = Math.max(0.001, ...(loaded.data ?? []).map((result) => result.score));
  return (
    <Card title="Results" wide>
      <ExplainLegend />
      <Show loaded={loaded}>
        {(results) =>
          results.length === 0 ? (
            <Empty>Nothing was found.</Empty>
          ) : (
            <ol class="results">
              {results.map((result) => (
                <li key={result.id}>
                  <div class="result">
                    <strong>{result.score.toFixed(3)}</strong>
                    <MemoryLink id={result.id} label={result.label} />
                    <Marks memory={result} />
                  </div>
                  {result.explain && <Explain explain={result.explain as Explanation} longest={longest} />}
                </li>
              ))}
            </ol>
          )
        }
      </Show>
    </Card>
  );
}
