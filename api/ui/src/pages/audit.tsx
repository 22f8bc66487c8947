// Audit: who changed what. Of a tenant for its administrators, of the cluster for its operator.
import { useState } from "preact/hooks";
import { Card, Empty, Page, Select, Show, Table } from "../components";
import { moment } from "../format";
import { useLoad } from "../hooks";
import { useSession } from "../session";
import type { AuditLog } from "../types";

const LIMIT = 50;

export function AuditPage() {
  const { client } = useSession();
  const [chain, setChain] = useState<"administration" | "data">("administration");
  const [cursors, setCursors] = useState<(string | null)[]>([null]);
  const path = client.isOperator ? "/cluster/audit" : "/api/v1/admin/audit";
  const load = async () => {
    const query = { limit: LIMIT, order: "desc", ...(!client.isOperator && { chain }) };
    const pages = await Promise.all(cursors.map((cursor) => client.get<AuditLog>(path, { ...query, cursor })));
    return { items: pages.flatMap((page) => page.items), next: pages.at(-1)?.next_cursor ?? null };
  };
  const loaded = useLoad(load, [chain, cursors]);
  const choose = (name: "administration" | "data") => {
    setCursors([null]);
    setChain(name);
  };
  return (
    <Page title="Audit">
      {!client.isOperator && (
        <div class="filters">
          <Select
            label="Log"
            value={chain}
            options={[
              ["administration", "keys, access and settings"],
              ["data", "deleted and changed memories"],
            ]}
            set={choose}
          />
        </div>
      )}
      <Card title="Entries" wide>
        <Show loaded={loaded}>
          {({ items, next }) => (
            <>
              {items.length === 0 ? (
                <Empty>There are no entries.</Empty>
              ) : (
                <Table label="Audit log" head={["Number", "Time", "Who", "Action", "Target", "Before", "After", "From"]}>
                  {items.map((item) => (
                    <tr key={item.number}>
                      <td>{item.number}</td>
                      <td>{moment(item.at)}</td>
                      <td dir="auto">{item.actor.name || item.actor.kind}</td>
                      <td>{item.action}</td>
                      <td dir="auto">{item.target}</td>
                      <td dir="auto">{fields(item.before)}</td>
                      <td dir="auto">{fields(item.after)}</td>
                      <td>{item.source ?? ""}</td>
                    </tr>
                  ))}
                </Table>
              )}
              {next && (
                <button type="button" onClick={() => setCursors([...cursors, next])}>
                  Earlier entries
                </button>
              )}
            </>
          )}
        </Show>
      </Card>
    </Page>
  );
}

const fields = (values: Record<string, string>) =>
  Object.entries(values)
    .map(([name, value]) => `${name}: ${value}`)
    .join(", ");
