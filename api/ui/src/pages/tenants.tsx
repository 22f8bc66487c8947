// Tenants: their tiers, limits and use. For operators.
import { useState } from "preact/hooks";
import { Card, Confirm, Copy, Dialog, Empty, ErrorBox, Field, Input, Page, Select, Show, Table } from "../components";
import { count, moment } from "../format";
import { useAction, useLoad } from "../hooks";
import { useClient } from "../session";
import type { Tenant, Tier } from "../types";

const REFRESH = 10_000;

export function TenantsPage() {
  const client = useClient();
  const [isAdding, setAdding] = useState(false);
  const [shown, setShown] = useState<{ title: string; text: string } | null>(null);
  const tenants = useLoad(() => client.get<{ tenants: Tenant[] }>("/cluster/tenants"), null, REFRESH);
  const tiers = useLoad(() => client.get<{ tiers: Tier[] }>("/cluster/tiers"));
  const tierNames = tiers.data?.tiers.map((tier) => tier.name) ?? [];
  const created = (name: string, key: string) => {
    setAdding(false);
    setShown({ title: `Tenant ${name}`, text: key });
    tenants.reload();
  };
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
        <Show loaded={tenants}>
          {({ tenants: all }) => (
            <Table label="Tenants" head={["Id", "Name", "Tier", "State", "Limits in use", "Created", ""]}>
              {all.map((tenant) => (
                <TenantRow key={tenant.id} tenant={tenant} reload={tenants.reload} show={setShown} />
              ))}
            </Table>
          )}
        </Show>
      </Card>
      <Card title="Tiers" wide>
        <Show loaded={tiers}>
          {({ tiers: all }) =>
            all.length === 0 ? (
              <Empty>There are no tiers.</Empty>
            ) : (
              <Table label="Tiers" head={["Name", "Limits"]}>
                {all.map((tier) => (
                  <tr key={tier.name}>
                    <td dir="auto">{tier.name}</td>
                    <td>
                      {Object.entries(tier.limits)
                        .map(([name, max]) => `${name} ${count(max)}`)
                        .join(", ") || "unlimited"}
                    </td>
                  </tr>
                ))}
              </Table>
            )
          }
        </Show>
      </Card>
    </Page>
  );
}

function TenantRow(props: { tenant: Tenant; reload: () => void; show: (shown: { title: string; text: string }) => void }) {
  const { tenant, reload, show } = props;
  const client = useClient();
  const path = `/cluster/tenants/${tenant.id}`;
  const isActive = tenant.state === "active";
  const toggle = async () => {
    await client.patch(path, { state: isActive ? "suspended" : "active" });
    reload();
  };
  const key = async () => {
    const created = await client.post<{ key: string }>(`${path}/keys`);
    show({ title: `Admin key of ${tenant.name}`, text: created.key });
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
                {name}: {used === null ? "" : `${count(used)} of `}
                {max === null ? "unlimited" : count(max)}
              </li>
            ))}
        </ul>
      </td>
      <td>{moment(tenant.created_at)}</td>
      <td>
        <div class="actions">
          <Confirm isMild label="New admin key" question="The other keys of the tenant stay valid." run={key} />
          <Confirm
            label={isActive ? "Suspend" : "Activate"}
            isMild={!isActive}
            question={isActive ? "All requests of the tenant are rejected until it is activated." : "The tenant may work again."}
            run={toggle}
          />
        </div>
      </td>
    </tr>
  );
}

function TenantForm(props: { tiers: string[]; close: () => void; created: (name: string, key: string) => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [tier, setTier] = useState("");
  const save = useAction(async () => {
    const tenant = await client.post<{ key: string }>("/cluster/tenants", { name, ...(tier && { tier }) });
    props.created(name, tenant.key);
  });
  return (
    <Dialog title="New tenant" close={props.close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <Input label="Name" required value={name} set={setName} />
        <Select
          label="Tier"
          value={tier}
          options={[["", "default"], ...props.tiers.filter((it) => it !== "default").map((it) => [it, it] as const)]}
          set={setTier}
        />
        <ErrorBox error={save.error} />
        <div class="actions">
          <button type="submit" class="primary" disabled={save.isRunning}>
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ShownKey({ title, text, close }: { title: string; text: string; close: () => void }) {
  return (
    <Dialog title={title} close={close}>
      <p>This is the only time that the key is shown. Copy it now.</p>
      <Field label="Key">{(id) => <input id={id} readOnly value={text} onFocus={(event) => event.currentTarget.select()} />}</Field>
      <div class="actions">
        <Copy text={text} label="Copy" />
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
