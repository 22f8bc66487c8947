// Memories: the list, the search, and one memory.
import { useState } from "preact/hooks";
import { Card, Empty, Heat, Input, Marks, MemoryLink, Page, Select, Show, Table } from "../components";
import { Explain, ExplainLegend } from "../explain";
import { age, count } from "../format";
import { useLoad, useRoute, useSettled } from "../hooks";
import { may, useClient, useSession } from "../session";
import { type Explanation, type Memory, MEMORY_TYPES, type MemoryPage, type SearchResult } from "../types";
import { BulkActions } from "./bulk";
import { MemoryRecord } from "./memory";
import { NewMemoryForm } from "./new-memory";

const PAGE_SIZE = 25;
const RESULTS = 25;

interface Filters {
  query: string;
  memory_type: string;
  namespace: string;
  tier: string;
  marks: string;
  sort: string;
  page: number;
}

export function MemoriesPage({ path }: { path: string[] }) {
  const [id] = path;
  return id ? <MemoryRecord id={id} /> : <MemoryLists />;
}

function MemoryLists() {
  const session = useSession();
  const { query } = useRoute();
  const [isSearch, setSearch] = useState(false);
  const [question, setQuestion] = useState("");
  const [isAdding, setAdding] = useState(false);
  const [changes, setChanges] = useState(0);
  const [filters, setFilters] = useState<Filters>({
    query: query.get("q") ?? "",
    memory_type: "",
    namespace: query.get("namespace") ?? "",
    tier: "all",
    marks: query.get("flagged") ? "flagged" : "",
    sort: "heat desc",
    page: 1,
  });
  const set = (change: Partial<Filters>) => setFilters((before) => ({ ...before, page: 1, ...change }));
  const add = may(session, "agent") && (
    <button type="button" class="primary" onClick={() => setAdding(true)}>
      New memory
    </button>
  );
  return (
    <Page title="Memories" actions={add}>
      {isAdding && <NewMemoryForm close={() => setAdding(false)} stored={() => setChanges(changes + 1)} />}
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          setQuestion(filters.query.trim());
        }}
      >
        <Input
          label={isSearch ? "Question" : "Words"}
          type="search"
          value={filters.query}
          placeholder={isSearch ? "Which units should I answer in?" : "Words that all occur"}
          set={(text) => set({ query: text })}
        />
        <Select
          label="Find by"
          value={isSearch ? "meaning" : "words"}
          options={[
            ["words", "words"],
            ["meaning", "meaning"],
          ]}
          set={(value) => setSearch(value === "meaning")}
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
        )}
      </form>
      {isSearch ? <Results filters={filters} question={question} /> : <List filters={filters} set={set} changes={changes} />}
    </Page>
  );
}

function List(props: { filters: Filters; set: (change: Partial<Filters>) => void; changes: number }) {
  const { filters, set, changes } = props;
  const session = useSession();
  const { client } = session;
  const [selected, setSelected] = useState<Map<string, Memory>>(new Map());
  const [sort, order] = filters.sort.split(" ");
  const query = useSettled({
    search: filters.query,
    memory_type: filters.memory_type,
    namespace: filters.namespace,
    tier: filters.tier,
    pinned: filters.marks === "pinned" ? true : null,
    flagged: filters.marks === "flagged" ? true : null,
    sort,
    order,
    page: filters.page,
    page_size: PAGE_SIZE,
  });
  const loaded = useLoad(() => client.get<MemoryPage>("/api/v1/agent/nodes", query), [query, changes]);
  const toggle = (memory: Memory) => {
    const next = new Map(selected);
    if (!next.delete(memory.id)) next.set(memory.id, memory);
    setSelected(next);
  };
  const done = () => {
    setSelected(new Map());
    loaded.reload();
  };
  const canWrite = may(session, "agent");
  return (
    <Show loaded={loaded}>
      {(data) => {
        const pages = Math.max(1, Math.ceil(data.total / PAGE_SIZE));
        if (data.total === 0) return <Empty>No memory matches.</Empty>;
        return (
          <>
            {canWrite && selected.size > 0 && <BulkActions memories={[...selected.values()]} done={done} />}
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
                        aria-label="Select this memory"
                        checked={selected.has(memory.id)}
                        onChange={() => toggle(memory)}
                      />
                    </td>
                  )}
                  <MemoryCells memory={memory} />
                </tr>
              ))}
            </Table>
            <div class="pager">
              <button type="button" disabled={filters.page <= 1} onClick={() => set({ page: filters.page - 1 })}>
                Previous
              </button>
              <span role="status">
                Page {filters.page} of {count(pages)}, {count(data.total)} memories
              </span>
              <button type="button" disabled={filters.page >= pages} onClick={() => set({ page: filters.page + 1 })}>
                Next
              </button>
            </div>
          </>
        );
      }}
    </Show>
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

/** A search by meaning. It warms its first results, as that of an agent, so it waits for Enter. */
function Results({ filters, question }: { filters: Filters; question: string }) {
  const client = useClient();
  const body = {
    query: question,
    limit: RESULTS,
    explain: true,
    tier: filters.tier,
    ...(filters.memory_type && { memory_type: filters.memory_type }),
    ...(filters.namespace && { namespace: filters.namespace }),
  };
  const search = async () => (question === "" ? [] : client.post<SearchResult[]>("/api/v1/agent/search", body));
  const loaded = useLoad(search, body);
  if (question === "") {
    return <Empty>Ask a question, and press Enter. The search warms its first results, as that of an agent does.</Empty>;
  }
  const most = Math.max(0.001, ...(loaded.data ?? []).map((result) => result.score));
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
                  {result.explain && <Explain explain={result.explain as Explanation} most={most} />}
                </li>
              ))}
            </ol>
          )
        }
      </Show>
    </Card>
  );
}
