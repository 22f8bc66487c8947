// The form of a trigger. It offers the settings of the chosen action, within the bounds of the interface.
import { useState } from "preact/hooks";
import { Dialog, ErrorBox, Form, Input, NumberInput, Select } from "../components";
import { useAction } from "../hooks";
import { useClient } from "../session";
import { MEMORY_TYPES, type MemoryType, type NewTrigger, type Trigger, TRIGGER_EVENTS, type TriggerEvent } from "../types";

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

/** What the person writes. Numbers stay texts until the form is sent. */
interface Texts {
  name: string;
  namespace: string;
  pattern: string;
  above: string;
  below: string;
  most: string;
  cooldown: string;
  message: string;
  url: string;
  secret: string;
  strength: string;
  tag: string;
}

const EMPTY: Texts = {
  name: "",
  namespace: "",
  pattern: "",
  above: "",
  below: "",
  most: "",
  cooldown: "",
  message: "",
  url: "",
  secret: "",
  strength: "",
  tag: "",
};

type Action = NewTrigger["action"];

/** The settings of an action; empty ones are left out. */
function configOf(action: Action, texts: Texts): NonNullable<NewTrigger["action_config"]> | null {
  switch (action) {
    case "notify":
      return texts.message ? { message: texts.message } : null;
    case "webhook":
      return { url: texts.url, ...(texts.secret && { webhook_secret: texts.secret }) };
    case "boost":
      return texts.strength ? { strength: Number(texts.strength) } : null;
    case "tag":
      return texts.tag ? { label: texts.tag } : null;
    default:
      return null;
  }
}

const numberOf = (text: string): number | null => (text === "" ? null : Number(text));

export function TriggerForm({ close, created }: { close: () => void; created: (trigger: Trigger) => void }) {
  const client = useClient();
  const [event, setEvent] = useState<TriggerEvent>("on_store");
  const [action, setAction] = useState<Action>("notify");
  const [type, setType] = useState<MemoryType | "">("");
  const [texts, setTexts] = useState(EMPTY);
  const set = (change: Partial<Texts>) => setTexts({ ...texts, ...change });
  const [above, below] = [numberOf(texts.above), numberOf(texts.below)];
  const isEmptyRange = above !== null && below !== null && above >= below;
  const save = useAction(async () => {
    const trigger: NewTrigger = {
      event,
      action,
      name: texts.name || null,
      filter_memory_type: type || null,
      filter_namespace: texts.namespace || null,
      filter_label_pattern: texts.pattern || null,
      filter_heat_above: above,
      filter_heat_below: below,
      max_fires: numberOf(texts.most),
      cooldown_seconds: numberOf(texts.cooldown),
      action_config: configOf(action, texts),
    };
    created(await client.write<Trigger>("POST", "/api/v1/triggers", trigger));
    close();
  });
  return (
    <Dialog title="New trigger" close={close}>
      <Form action={save} submit="Create" isDisabled={isEmptyRange}>
        <Input label="Name" value={texts.name} maxLength={256} set={(name) => set({ name })} />
        <Select label="When" value={event} options={TRIGGER_EVENTS} set={setEvent} />
        <fieldset>
          <legend>Only for memories</legend>
          <Select label="of the type" value={type} options={[["", "any"], ...MEMORY_TYPES.map((name) => [name, name] as const)]} set={setType} />
          <Input label="of the namespace" placeholder="any" value={texts.namespace} set={(namespace) => set({ namespace })} />
          <Input label="whose text contains" placeholder="anything" value={texts.pattern} set={(pattern) => set({ pattern })} />
          <NumberInput label="hotter than" placeholder="any heat" min={0} max={1} value={texts.above} set={(above) => set({ above })} />
          <NumberInput label="colder than" placeholder="any heat" min={0} max={1} value={texts.below} set={(below) => set({ below })} />
          {isEmptyRange && <ErrorBox error={new Error("No heat is above the first and below the second.")} />}
          {HINTS[event] && <small>{HINTS[event]}</small>}
        </fieldset>
        <Select label="Then" value={action} options={ACTIONS} set={setAction} />
        <ActionFields action={action} texts={texts} set={set} />
        <fieldset>
          <legend>At most</legend>
          <NumberInput label="firings in all" placeholder="unlimited" min={1} value={texts.most} set={(most) => set({ most })} />
          <NumberInput label="once in so many seconds" placeholder="0" min={0} max={YEAR} value={texts.cooldown} set={(cooldown) => set({ cooldown })} />
        </fieldset>
      </Form>
    </Dialog>
  );
}

function ActionFields({ action, texts, set }: { action: Action; texts: Texts; set: (change: Partial<Texts>) => void }) {
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
          value={texts.message}
          set={(message) => set({ message })}
        />
      );
    case "webhook":
      return (
        <>
          <Input label="Address" type="url" required placeholder="https://hooks.example/hearth" value={texts.url} set={(url) => set({ url })} />
          <Input
            label="Secret of the signature"
            type="password"
            minLength={8}
            maxLength={256}
            autocomplete="off"
            hint="Not shown again. Without it, deliveries are not signed."
            value={texts.secret}
            set={(secret) => set({ secret })}
          />
        </>
      );
    case "boost":
      return <NumberInput label="By" placeholder="0.3" min={0.001} max={1} value={texts.strength} set={(strength) => set({ strength })} />;
    case "tag":
      return (
        <Input
          label="Tag"
          placeholder="the first words of the text"
          maxLength={64}
          pattern=".*[^\s#].*"
          title="A tag has a character besides # and spaces"
          value={texts.tag}
          set={(tag) => set({ tag })}
        />
      );
    default:
      return null;
  }
}
