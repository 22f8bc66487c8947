// The form that stores a memory.
import { useState } from "preact/hooks";
import { Dialog, Form, Input, Select, TextArea } from "../components";
import { useAction } from "../hooks";
import { useClient } from "../session";
import { type Memory, MEMORY_TYPES, type MemoryType } from "../types";

export function NewMemoryForm({ close, stored }: { close: () => void; stored: (memory: Memory) => void }) {
  const client = useClient();
  const [label, setLabel] = useState("");
  const [type, setType] = useState<MemoryType>("episodic");
  const [namespace, setNamespace] = useState("");
  const [tags, setTags] = useState("");
  const save = useAction(async () => {
    const memory = await client.write<Memory>("POST", "/api/v1/agent/nodes", {
      label,
      memory_type: type,
      ...(namespace && { namespace }),
      ...(tags && { tags: tags.split(",").flatMap((tag) => tag.trim() || []) }),
    });
    stored(memory);
    close();
  });
  return (
    <Dialog title="New memory" close={close}>
      <Form action={save} submit="Store">
        <TextArea label="Text" rows={5} required value={label} set={setLabel} />
        <Select label="Type" value={type} options={MEMORY_TYPES.map((name) => [name, name])} set={setType} />
        <Input label="Namespace" value={namespace} placeholder="default" set={setNamespace} />
        <Input label="Tags" value={tags} hint="With commas between them" set={setTags} />
      </Form>
    </Dialog>
  );
}
