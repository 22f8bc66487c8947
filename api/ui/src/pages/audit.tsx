// Audit: who changed what. Of a tenant for its administrators, of the cluster for its operator.
import { useState } from "preact/hooks";
import { Card, Empty, Input, More, Page, Select, Show, Table } from "../components";
import { moment } from "../format";
import { usePages, useSettled } from "../hooks";
import { useSession } from "../session";
import { AUDIT_ACTIONS, type AuditAction, type AuditLog } from "../types";

const LIMIT = 50;

export function AuditPage() {
  const { client } = useSession();
  const [chain, setChain] = useState<"administration" | "data">("administration");
  const [action, setAction] = useState<AuditAction | "">("");
  const [keyId, setKeyId] = useState("");
  const path = client.isOperator ? "/cluster/audit" : "/api/v1/admin/audit";
  const filters = useSettled({ action, key_id: keyId.trim(), ...(!client.isOperator && { chain }) });
  const pages = usePages<AuditLog["items"][number]>(path, { limit: LIMIT, order: "desc", ...filters });
  return (
    <Page title="Audit">
      <div class="filters">
        {!client.isOperator && (
          <>
            <Select
              label="Log"
              value={chain}
              options={[
                ["administration", "keys, access and settings"],
                ["data", "deleted and changed memories"],
              ]}
              set={setChain}
            />
            <Input label="Id of a key" value={keyId} placeholder="all" set={setKeyId} />
          </>
        )}
        <Select label="Action" value={action} options={[["", "all"], ...AUDIT_ACTIONS.map((name) => [name, name] as const)]} set={setAction} />
      </div>
      <Card title="Entries" wide>
        <Show loaded={pages}>
          {(items) => (
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
              <More pages={pages} />
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
