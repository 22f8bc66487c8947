// Tenants: their tiers, limits and use. For operators.
import { useState } from "preact/hooks";
import { at } from "../client";
import { Card, Confirm, Dialog, Form, Input, Page, Select, Show, ShownKey, Table } from "../components";
import { count, moment } from "../format";
import { useAction, useLoad } from "../hooks";
import { useClient } from "../session";
import type { Tenant, Tier } from "../types";

const REFRESH = 60_000;
/** Rows that are shown: a filter finds the others. */
const ROWS = 100;
const DEFAULT_TIER = "enterprise";
const UNLIMITED = "unlimited";

type Limits = Record<string, number | null>;
interface NewKey {
  title: string;
  text: string;
}

export function TenantsPage() {
  const client = useClient();
  const [isAdding, setAdding] = useState(false);
  const [words, setWords] = useState("");
  const [shown, setShown] = useState<NewKey | null>(null);
  const tenants = useLoad((signal) => client.get<{ tenants: Tenant[] }>("/cluster/tenants", {}, signal), null, { every: REFRESH });
  const tiers = useLoad((signal) => client.get<{ tiers: Tier[] }>("/cluster/tiers", {}, signal));
  const tierNames = tiers.data?.tiers.map((tier) => tier.name) ?? [DEFAULT_TIER];
  const created = (name: string, text: string) => {
    setAdding(false);
    setShown({ title: `Tenant ${name}`, text });
    tenants.reload();
  };
  const matches = (tenant: Tenant) => `${tenant.id} ${tenant.name} ${tenant.tier}`.toLowerCase().includes(words.toLowerCase());
  return (
    <Page
      title="Tenants"
      actions={
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          New tenant
        </button>
      }
    >
      {isAdding && <TenantForm tiers={tierNames} close={() => setAdding(false)} created={created} />}
      {shown && <ShownKey {...shown} close={() => setShown(null)} />}
      <Card title="All tenants" wide>
        <Input label="Name, id or tier" type="search" value={words} set={setWords} />
        <Show loaded={tenants}>
          {({ tenants: all }) => {
            const found = all.filter(matches);
            return (
              <>
                <Table label="Tenants" head={["Id", "Name", "Tier", "State", "Limits in use", "Created", ""]}>
                  {found.slice(0, ROWS).map((tenant) => (
                    <TenantRow key={tenant.id} tenant={tenant} tiers={tierNames} reload={tenants.reload} show={setShown} />
                  ))}
                </Table>
                {found.length > ROWS && <p class="dim">The first {ROWS} of {count(found.length)}.</p>}
              </>
            );
          }}
        </Show>
      </Card>
      <Card title="Tiers" wide>
        <Show loaded={tiers}>
          {({ tiers: all }) => (
            <>
              <Table label="Tiers" head={["Name", "Limits", ""]}>
                {all.map((tier) => (
                  <TierRow key={tier.name} tier={tier} reload={tiers.reload} />
                ))}
              </Table>
              <NewTier tiers={tierNames} reload={tiers.reload} />
            </>
          )}
        </Show>
      </Card>
    </Page>
  );
}

interface TenantRowProps {
  tenant: Tenant;
  tiers: string[];
  reload: () => void;
  show: (key: NewKey) => void;
}

function TenantRow({ tenant, tiers, reload, show }: TenantRowProps) {
  const client = useClient();
  const [isChanging, setChanging] = useState(false);
  const path = at`/cluster/tenants/${tenant.id}`;
  const isActive = tenant.state === "active";
  const done = () => {
    setChanging(false);
    reload();
  };
  const toggle = async () => {
    await client.act("PATCH", path, { state: isActive ? "suspended" : "active" });
    reload();
  };
  const key = async () => {
    const created = await client.act<{ key: string }>("POST", `${path}/keys`, {});
    show({ title: `Admin key of ${tenant.name}`, text: created.key });
  };
  const remove = async () => {
    await client.act("DELETE", `${path}?name=${encodeURIComponent(tenant.name)}`);
    reload();
  };
  return (
    <tr>
      <td>{tenant.id}</td>
      <td dir="auto">{tenant.name}</td>
      <td>{tenant.tier}</td>
      <td class={isActive ? "good" : "bad"}>{tenant.state}</td>
      <td>
        <ul class="limits">
          {Object.entries(tenant.limits)
            .filter(([, limit]) => limit.used !== null || limit.max !== null)
            .map(([name, { max, used }]) => (
              <li>
                {name}: {[used, max].flatMap((value) => (value === null ? [] : count(value))).join(" of ")}
                {max === null && ", unlimited"}
              </li>
            ))}
        </ul>
      </td>
      <td>{moment(tenant.created_at)}</td>
      <td>
        {isChanging && <ChangeForm tenant={tenant} tiers={tiers} close={() => setChanging(false)} done={done} />}
        <div class="actions">
          <button type="button" onClick={() => setChanging(true)}>
            Change
          </button>
          <Confirm isMild label="New admin key" subject={`of ${tenant.name}`} question="The other keys of the tenant stay valid." run={key} />
          <Confirm
            label={isActive ? "Suspend" : "Activate"}
            subject={tenant.name}
            isMild={!isActive}
            question={isActive ? "All requests of the tenant are rejected until it is activated." : "The tenant may work again."}
            run={toggle}
          />
          <Confirm
            label="Delete"
            subject={`tenant ${tenant.name}`}
            question="This deletes all memories, keys and triggers of the tenant for good."
            confirmation={tenant.name}
            run={remove}
            disabled={isActive}
            title={isActive ? "Suspend it first." : ""}
          />
        </div>
      </td>
    </tr>
  );
}

/** Fields of limits: a number, `unlimited`, or nothing. */
function LimitFields({ names, texts, set }: { names: string[]; texts: Record<string, string>; set: (texts: Record<string, string>) => void }) {
  return (
    <div class="settings">
      {names.map((name) => (
        <Input
          label={name.replace(/_/g, " ")}
          pattern="[0-9]+|unlimited"
          title="A number, or unlimited"
          value={texts[name] ?? ""}
          set={(text) => set({ ...texts, [name]: text })}
        />
      ))}
    </div>
  );
}

const limitsOf = (texts: Record<string, string>): Limits =>
  Object.fromEntries(Object.entries(texts).flatMap(([name, text]) => (text === "" ? [] : [[name, text === UNLIMITED ? null : Number(text)]])));

function ChangeForm(props: { tenant: Tenant; tiers: string[]; close: () => void; done: () => void }) {
  const { tenant, tiers, close, done } = props;
  const client = useClient();
  const own = Object.entries(tenant.limits).filter(([, limit]) => limit.own);
  const [name, setName] = useState(tenant.name);
  const [tier, setTier] = useState(tenant.tier);
  const [texts, setTexts] = useState<Record<string, string>>(Object.fromEntries(own.map(([limit, { max }]) => [limit, String(max ?? UNLIMITED)])));
  const save = useAction(async () => {
    await client.act("PATCH", at`/cluster/tenants/${tenant.id}`, { name, tier, limits: limitsOf(texts) });
    done();
  });
  return (
    <Dialog title={`Tenant ${tenant.id}`} close={close}>
      <Form action={save} submit="Save">
        <Input label="Name" required value={name} set={setName} />
        <Select label="Tier" value={tier} options={tiers.map((it) => [it, it] as const)} set={setTier} />
        <p class="dim">Limits of its own; an empty one is that of the tier.</p>
        <LimitFields names={Object.keys(tenant.limits)} texts={texts} set={setTexts} />
      </Form>
    </Dialog>
  );
}

const LIMITS = ["requests_per_minute", "memories", "bytes", "keys", "triggers", "streams", "edges"];

function TierRow({ tier, reload }: { tier: Tier; reload: () => void }) {
  const client = useClient();
  const [isChanging, setChanging] = useState(false);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const path = at`/cluster/tiers/${tier.name}`;
  const begin = () => {
    setTexts(Object.fromEntries(Object.entries(tier.limits).map(([name, max]) => [name, String(max)])));
    setChanging(true);
  };
  const save = useAction(async () => {
    await client.act("PUT", path, { limits: limitsOf(texts) });
    setChanging(false);
    reload();
  });
  const remove = async () => {
    await client.act("DELETE", path);
    reload();
  };
  return (
    <tr>
      <td dir="auto">{tier.name}</td>
      <td>
        {Object.entries(tier.limits)
          .map(([name, max]) => `${name} ${count(max)}`)
          .join(", ") || "unlimited"}
      </td>
      <td>
        {isChanging && (
          <Dialog title={`Tier ${tier.name}`} close={() => setChanging(false)}>
            <Form action={save} submit="Save">
              <p class="dim">An empty limit is unlimited. It holds for all tenants of the tier at once.</p>
              <LimitFields names={LIMITS} texts={texts} set={setTexts} />
            </Form>
          </Dialog>
        )}
        <div class="actions">
          <button type="button" onClick={begin}>
            Change
          </button>
          <Confirm label="Delete" subject={`tier ${tier.name}`} question="A tier that tenants have is not deleted." run={remove} />
        </div>
      </td>
    </tr>
  );
}

function NewTier({ tiers, reload }: { tiers: string[]; reload: () => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [texts, setTexts] = useState<Record<string, string>>({});
  const save = useAction(async () => {
    if (tiers.includes(name.trim())) throw new Error("This tier exists: change it in the table.");
    await client.act("PUT", at`/cluster/tiers/${name.trim()}`, { limits: limitsOf(texts) });
    setName("");
    setTexts({});
    reload();
  });
  return (
    <details>
      <summary>New tier</summary>
      <Form action={save} submit="Create the tier">
        <Input label="Name of the tier" required value={name} set={setName} />
        <LimitFields names={LIMITS} texts={texts} set={setTexts} />
      </Form>
    </details>
  );
}

function TenantForm(props: { tiers: string[]; close: () => void; created: (name: string, key: string) => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [tier, setTier] = useState(DEFAULT_TIER);
  const save = useAction(async () => {
    const tenant = await client.act<{ key: string }>("POST", "/cluster/tenants", { name, tier });
    props.created(name, tenant.key);
  });
  return (
    <Dialog title="New tenant" close={props.close}>
      <Form action={save} submit="Create">
        <Input label="Name" required value={name} set={setName} />
        <Select label="Tier" value={tier} options={props.tiers.map((it) => [it, it] as const)} set={setTier} />
      </Form>
    </Dialog>
  );
}
