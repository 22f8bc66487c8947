// The form of a trigger. It offers the settings of the chosen action, within the bounds of the interface.
import { useState } from "preact/hooks";
import { Dialog, ErrorBox, Field, Input, Select } from "../components";
import { useAction } from "../hooks";
import { useClient } from "../session";
import { MEMORY_TYPES, type NewTrigger, type Trigger, TRIGGER_EVENTS, type TriggerEvent } from "../types";

const ACTIONS = [
  ["notify", "report a message"],
  ["webhook", "send a webhook"],
  ["boost", "warm it"],
  ["pin", "pin it"],
  ["tag", "add a tag to its text"],
  ["deprecate", "halve its heat"],
] as const;

/** What the heat filters mean for events of cooling. */
const HINTS: Partial<Record<TriggerEvent, string>> = {
  on_decay: "It fires when cooling moves the heat below “colder than”, or else below the cold threshold.",
  on_threshold: "It fires when the heat comes to be within both bounds; without bounds, when it crosses the cold threshold.",
};
const YEAR = 31_536_000;

type Config = NonNullable<NewTrigger["action_config"]>;

export function TriggerForm({ close, created }: { close: () => void; created: (trigger: Trigger) => void }) {
  const client = useClient();
  const [trigger, setTrigger] = useState<NewTrigger>({ event: "on_store", action: "notify" });
  const [config, setConfig] = useState<Partial<Config>>({});
  const set = (change: Partial<NewTrigger>) => setTrigger({ ...trigger, ...change });
  const configure = (change: Partial<Config>) => setConfig({ ...config, ...change });
  const save = useAction(async () => {
    const body = { ...trigger, ...(Object.keys(config).length > 0 && { action_config: config }) };
    created(await client.write<Trigger>("POST", "/api/v1/triggers", body));
    close();
  });
  const choose = (action: NewTrigger["action"]) => {
    // The settings of another action are not those of this one.
    setConfig({});
    set({ action });
  };
  const { filter_heat_above: above, filter_heat_below: below } = trigger;
  const isEmptyRange = typeof above === "number" && typeof below === "number" && above >= below;
  const submit = (event: Event) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <Dialog title="New trigger" close={close}>
      <form onSubmit={submit}>
        <Input label="Name" value={trigger.name ?? ""} maxLength={256} set={(name) => set({ name: name || null })} />
        <Select label="When" value={trigger.event} options={TRIGGER_EVENTS} set={(event) => set({ event })} />
        <fieldset>
          <legend>Only for memories</legend>
          <Select
            label="of the type"
            value={trigger.filter_memory_type ?? ""}
            options={[["", "any"], ...MEMORY_TYPES.map((type) => [type, type] as const)]}
            set={(type) => set({ filter_memory_type: type === "" ? null : type })}
          />
          <Input label="of the namespace" placeholder="any" value={trigger.filter_namespace ?? ""} set={(text) => set({ filter_namespace: text || null })} />
          <Input label="whose text contains" placeholder="anything" value={trigger.filter_label_pattern ?? ""} set={(text) => set({ filter_label_pattern: text || null })} />
          <HeatInput label="hotter than" value={trigger.filter_heat_above} set={(heat) => set({ filter_heat_above: heat })} />
          <HeatInput label="colder than" value={trigger.filter_heat_below} set={(heat) => set({ filter_heat_below: heat })} />
          {isEmptyRange && <ErrorBox error={new Error("No heat is above the first and below the second.")} />}
          {HINTS[trigger.event] && <small>{HINTS[trigger.event]}</small>}
        </fieldset>
        <Select label="Then" value={trigger.action} options={ACTIONS} set={choose} />
        <ActionFields action={trigger.action} config={config} configure={configure} />
        <fieldset>
          <legend>At most</legend>
          <NumberInput label="firings in all" placeholder="unlimited" min={1} value={trigger.max_fires} set={(max_fires) => set({ max_fires })} />
          <NumberInput label="once in so many seconds" placeholder="0" min={0} max={YEAR} value={trigger.cooldown_seconds} set={(cooldown_seconds) => set({ cooldown_seconds })} />
        </fieldset>
        <ErrorBox error={save.error} />
        <div class="actions">
          <button type="submit" class="primary" disabled={save.isRunning || isEmptyRange}>
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ActionFields(props: { action: NewTrigger["action"]; config: Partial<Config>; configure: (change: Partial<Config>) => void }) {
  const { action, config, configure } = props;
  switch (action) {
    case "notify":
      return (
        <Input
          label="Message"
          hint="{label}, {heat:.2f}, {namespace}, {memory_type}, {event} and {node_id} are replaced"
          placeholder="{event}: {label}"
          maxLength={4096}
          pattern=".*\S.*"
          title="A message has a character that is no space"
          value={config.message ?? ""}
          set={(message) => configure({ message: message || null })}
        />
      );
    case "webhook":
      return (
        <>
          <Input
            label="Address"
            type="url"
            required
            placeholder="https://hooks.example/hearth"
            value={config.url ?? ""}
            set={(url) => configure({ url })}
          />
          <Input
            label="Secret of the signature"
            type="password"
            minLength={8}
            maxLength={256}
            autocomplete="off"
            hint="Not shown again. Without it, deliveries are not signed."
            value={config.webhook_secret ?? ""}
            set={(secret) => configure({ webhook_secret: secret || null })}
          />
        </>
      );
    case "boost":
      return (
        <NumberInput label="By" placeholder="0.3" min={0.01} max={1} step={0.01} value={config.strength} set={(strength) => configure({ strength })} />
      );
    case "tag":
      return (
        <Input
          label="Tag"
          placeholder="the first words of the text"
          maxLength={64}
          pattern=".*[^\s#].*"
          title="A tag has a character besides # and spaces"
          value={config.label ?? ""}
          set={(label) => configure(label ? { label } : {})}
        />
      );
    default:
      return null;
  }
}

type NumberProps = {
  label: string;
  placeholder?: string;
  value: number | null | undefined;
  set: (value: number | null) => void;
};

function HeatInput({ placeholder = "any heat", ...props }: NumberProps) {
  return <NumberInput {...props} placeholder={placeholder} min={0} max={1} step={0.01} />;
}

function NumberInput({ label, placeholder, value, set, ...range }: NumberProps & { min: number; max?: number; step?: number }) {
  return (
    <Field label={label}>
      {(id) => (
        <input
          id={id}
          type="number"
          {...range}
          placeholder={placeholder}
          value={value ?? ""}
          onInput={(event) => set(event.currentTarget.value === "" ? null : event.currentTarget.valueAsNumber)}
        />
      )}
    </Field>
  );
}
