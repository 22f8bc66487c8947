// Keys and access: the keys of the tenant, the access rules, and who could read a namespace.
import { useState } from "preact/hooks";
import { at } from "../client";
import { Card, Confirm, Dialog, Empty, Form, Input, Page, Select, Show, ShownKey, Table } from "../components";
import { age, moment } from "../format";
import { type Loaded, useAction, useLoad, useSettled } from "../hooks";
import { useClient } from "../session";
import type { Client } from "../client";
import type { CreatedKey, Key, KeyList, NewKey, Rule, RuleList } from "../types";

const LIMIT = 100;

/** All keys, a thousand at most; with a namespace, whether each of them may use it. */
async function allKeys(client: Client, access_to: string | null, signal: AbortSignal): Promise<Key[]> {
  const all: Key[] = [];
  let cursor: string | null | undefined = null;
  do {
    const page: KeyList = await client.get<KeyList>("/api/v1/keys", { limit: LIMIT, cursor, access_to }, signal);
    all.push(...page.keys);
    cursor = page.next_cursor;
  } while (cursor);
  return all;
}

export function KeysPage() {
  const client = useClient();
  const [isAdding, setAdding] = useState(false);
  const [shown, setShown] = useState<CreatedKey | null>(null);
  const keys = useLoad((signal) => allKeys(client, null, signal));
  const rules = useLoad((signal) => client.get<RuleList>("/api/v1/namespaces/acl", {}, signal));
  // Counts what may change who could read something.
  const [changes, setChanges] = useState(0);
  const changed = () => {
    keys.reload();
    rules.reload();
    setChanges((before) => before + 1);
  };
  const created = (key: CreatedKey) => {
    setAdding(false);
    setShown(key);
    changed();
  };
  return (
    <Page
      title="Keys and access"
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          New key
        </button>
      }
    >
      {isAdding && <KeyForm close={() => setAdding(false)} created={created} />}
      {shown && <ShownKey title={`Key ${shown.name}`} text={shown.key} close={() => setShown(null)} />}
      <Card title="Keys" wide>
        <Show loaded={keys}>
          {(all) => (
            <Table label="Keys" head={["Name", "Role", "Namespaces", "Created", "Last use", "Expires", ""]}>
              {all.map((key) => (
                <KeyRow key={key.id} of={key} reload={changed} show={setShown} />
              ))}
            </Table>
          )}
        </Show>
      </Card>
      <div class="grid">
        <Rules keys={keys.data ?? []} loaded={rules} changed={changed} />
        <WhoCouldRead changes={changes} />
      </div>
    </Page>
  );
}

function KeyRow({ of: key, reload, show }: { of: Key; reload: () => void; show: (key: CreatedKey) => void }) {
  const client = useClient();
  const rotate = async () => {
    const rotated = await client.act<CreatedKey>("POST", at`/api/v1/keys/${key.id}/rotate`, { overlap_seconds: 3600 });
    show(rotated);
    reload();
  };
  // The text of a key begins with its id.
  const isOwn = client.key.startsWith(`sk-hearth-${key.id}`);
  const revoke = async () => {
    await client.act("DELETE", at`/api/v1/keys/${key.id}`);
    reload();
  };
  return (
    <tr>
      <td dir="auto">
        {key.name} <small>{key.id}</small>
      </td>
      <td>{key.role}</td>
      <td dir="auto">
        {key.namespaces.length > 0 ? key.namespaces.join(", ") : "all"}
        {key.namespace && ` (own: ${key.namespace})`}
      </td>
      <td title={key.created_at}>{age(key.created_at)}</td>
      <td>{age(key.last_used_at)}</td>
      <td>
        {key.expires_at ? moment(key.expires_at) : "never"}
        {key.former_valid_until && <small> old text until {moment(key.former_valid_until)}</small>}
      </td>
      <td>
        <div class="actions">
          <Confirm
            isMild
            label="Rotate"
            subject={key.name}
            question={`The key gets a new text. The old one works for an hour.${isOwn ? " It is the key of this page." : ""}`}
            run={rotate}
          />
          <Confirm
            label="Revoke"
            subject={key.name}
            question={`The key ${key.name} stops working at once, and its triggers stop firing.${isOwn ? " It is the key of this page, which ends too." : ""}`}
            run={revoke}
          />
        </div>
      </td>
    </tr>
  );
}

const DAY = 86_400;
const EXPIRIES = [
  ["", "never"],
  [String(30 * DAY), "in 30 days"],
  [String(90 * DAY), "in 90 days"],
  [String(365 * DAY), "in a year"],
] as const;

function KeyForm({ close, created }: { close: () => void; created: (key: CreatedKey) => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<"reader" | "agent" | "admin">("agent");
  const [namespace, setNamespace] = useState("");
  const [namespaces, setNamespaces] = useState("");
  const [expiry, setExpiry] = useState<string>("");
  const save = useAction(async () => {
    // Admins use all.
    const some = role === "admin" ? [] : namespaces.split(",").flatMap((text) => text.trim() || []);
    const body: Partial<NewKey> = {
      name,
      role,
      ...(namespace && { namespace }),
      ...(some.length > 0 && { namespaces: some }),
      ...(expiry && { expires_in_seconds: Number(expiry) }),
    };
    created(await client.act<CreatedKey>("POST", "/api/v1/keys", body));
  });
  return (
    <Dialog title="New key" close={close}>
      <Form action={save} submit="Create">
        <Input label="Name" required value={name} placeholder="billing-agent" set={setName} />
        <Select
          label="Role"
          value={role}
          options={[
            ["reader", "reader: reads and searches"],
            ["agent", "agent: also writes"],
            ["admin", "admin: also keys, access and settings"],
          ]}
          set={setRole}
        />
        <Input
          label="Namespaces that it may use"
          hint="With commas between them; empty is all"
          value={namespaces}
          set={setNamespaces}
          disabled={role === "admin"}
        />
        <Input label="Own namespace" hint="Its searches prefer memories of it" value={namespace} set={setNamespace} />
        <Select label="Expires" value={expiry} options={EXPIRIES} set={setExpiry} />
      </Form>
    </Dialog>
  );
}

function Rules({ keys, loaded, changed }: { keys: Key[]; loaded: Loaded<RuleList>; changed: () => void }) {
  const client = useClient();
  const [agent, setAgent] = useState("*");
  const [namespace, setNamespace] = useState("");
  const [policy, setPolicy] = useState<"allow" | "deny">("allow");
  const save = useAction(async () => {
    await client.act("POST", "/api/v1/namespaces/acl", { agent_id: agent, namespace, policy });
    setNamespace("");
    changed();
  });
  const remove = async (rule: Rule) => {
    await client.act("DELETE", at`/api/v1/namespaces/acl/${rule.id}`);
    changed();
  };
  const name = (id: string) => (id === "*" ? "every key" : (keys.find((key) => key.id === id)?.name ?? id));
  return (
    <Card title="Access rules" wide>
      <p class="dim">The most specific rule applies. A namespace without a rule is open. Rules do not apply to admin keys.</p>
      <Show loaded={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty>There are no rules: every key may use every namespace that it names.</Empty>
          ) : (
            <Table label="Access rules" head={["Key", "Namespace", "Policy", "Since", ""]}>
              {items.map((rule) => (
                <tr key={rule.id}>
                  <td dir="auto">{name(rule.agent_id)}</td>
                  <td dir="auto">{rule.namespace === "*" ? "every namespace" : rule.namespace}</td>
                  <td>{rule.policy}</td>
                  <td>{age(rule.created_at)}</td>
                  <td>
                    <Confirm label="Delete" subject={`the rule for ${rule.namespace}`} question="The rule ends at once." run={() => remove(rule)} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Show>
      <Form action={save} submit="Add the rule" isRow>
        <Select
          label="Key"
          value={agent}
          options={[["*", "every key"], ...keys.filter((key) => key.role !== "admin").map((key) => [key.id, key.name] as const)]}
          set={setAgent}
        />
        <Input label="Namespace" required placeholder="* is every one" value={namespace} set={setNamespace} />
        <Select
          label="Policy"
          value={policy}
          options={[
            ["allow", "allow"],
            ["deny", "deny"],
          ]}
          set={setPolicy}
        />
      </Form>
    </Card>
  );
}

/** Which keys could read the memories of a namespace. */
function WhoCouldRead({ changes }: { changes: number }) {
  const client = useClient();
  const [namespace, setNamespace] = useState("default");
  const settled = useSettled(namespace.trim());
  const load = async (signal: AbortSignal) => (settled ? allKeys(client, settled, signal) : []);
  const loaded = useLoad(load, [settled, changes]);
  return (
    <Card title="Who could read this?">
      <Input label="Namespace" value={namespace} set={setNamespace} />
      <Show loaded={loaded}>
        {(keys) => (
          <Table label="Who could read this namespace" head={["Key", "Role", "Access"]}>
            {keys.map((key) => (
              <tr key={key.id}>
                <td dir="auto">{key.name}</td>
                <td>{key.role}</td>
                <td class={key.may_use ? "good" : "bad"}>{key.may_use ? "yes" : "no"}</td>
              </tr>
            ))}
          </Table>
        )}
      </Show>
    </Card>
  );
}
