// The parts that all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { RequestError } from "./client";
import { BANDS, type Band, band, beginning } from "./format";
import type { Loaded } from "./hooks";
import type { Memory } from "./types";

interface Children {
  children?: ComponentChildren;
}

export function Page({ title, actions, children }: Children & { title: string; actions?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} – Hearth`;
  }, [title]);
  return (
    <>
      <header class="page-head">
        <h1 tabIndex={-1}>{title}</h1>
        <div class="actions">{actions}</div>
      </header>
      {children}
    </>
  );
}

export function Card({ title, children, actions, wide }: Children & { title: string; actions?: ComponentChildren; wide?: boolean }) {
  const id = useId();
  return (
    <section class={wide ? "card wide" : "card"} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        <div class="actions">{actions}</div>
      </header>
      {children}
    </section>
  );
}

export function ErrorBox({ error }: { error: Error | null }) {
  if (!error) return null;
  const code = error instanceof RequestError ? error.code : "";
  return (
    <p class="error" role="alert">
      {error.message}
      {error instanceof RequestError && error.field && ` (${error.field})`} {code && <code>{code}</code>}
    </p>
  );
}

/** Shows what was loaded; before, that it loads, and afterwards, that the newest could not be loaded. */
export function Show<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      <ErrorBox error={loaded.error} />
      {loaded.data === null
        ? !loaded.error && (
            <p class="dim" role="status">
              Loading …
            </p>
          )
        : children(loaded.data)}
    </>
  );
}

export function Empty({ children }: Children) {
  return <p class="empty">{children}</p>;
}

export function Heat({ heat }: { heat: number }) {
  return (
    <span class={`heat ${band(heat)}`} title={band(heat)}>
      <span class="heat-bar" style={{ width: `${Math.round(40 * heat)}px` }} />
      {heat.toFixed(2)}
    </span>
  );
}

export function Marks({ memory }: { memory: Memory }) {
  const marks: [boolean, string][] = [
    [memory.is_pinned, "pinned"],
    [memory.is_locked, "locked"],
    [memory.tier === "cold", "archived"],
    [memory.flagged_for_review, "flagged"],
    [memory.superseded_by !== null, "superseded"],
  ];
  return (
    <>
      {marks.map(([is, name]) => is && <span class={`mark ${name}`}>{name}</span>)}
    </>
  );
}

export function MemoryLink({ id, label }: { id: string; label: string | null | undefined }) {
  return (
    <a class="label" href={`#/memories/${id}`} dir="auto">
      {label ? beginning(label) : id}
    </a>
  );
}

/** A table that scrolls in itself on narrow screens. */
export function Table({ label, head, children }: Children & { label: string; head: ComponentChildren[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <small>{hint}</small>}
    </div>
  );
}

interface InputProps {
  label: string;
  hint?: string;
  value: string;
  set: (value: string) => void;
  type?: "text" | "search" | "password" | "url";
  placeholder?: string;
  required?: boolean;
  disabled?: boolean;
  autocomplete?: "off";
  minLength?: number;
  maxLength?: number;
}

export function Input({ label, hint, set, type = "text", ...input }: InputProps) {
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(id) => (
        // Its types have one shape for each kind of input: these kinds have the same.
        <input id={id} type={type as "text"} {...input} onInput={(event) => set(event.currentTarget.value)} />
      )}
    </Field>
  );
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  set: (value: T) => void;
}) {
  return (
    <Field label={props.label}>
      {(id) => (
        <select id={id} value={props.value} onChange={(event) => props.set(event.currentTarget.value as T)}>
          {props.options.map(([value, text]) => (
            <option value={value}>{text}</option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A modal dialog; the browser keeps the focus in it, and closes it by Escape. */
export function Dialog({ title, close, children }: Children & { title: string; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** A button whose action needs a confirmation. */
export function Confirm(props: {
  label: string;
  question: ComponentChildren;
  run: () => Promise<void>;
  disabled?: boolean;
  title?: string;
  /** Of a change that can be undone. */
  isMild?: boolean;
}) {
  const kind = props.isMild ? "" : "danger";
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const confirm = () =>
    props.run().then(
      () => setOpen(false),
      (failure: Error) => setError(failure),
    );
  return (
    <>
      <button type="button" class={kind} disabled={props.disabled} title={props.title} onClick={() => setOpen(true)}>
        {props.label}
      </button>
      {isOpen && (
        <Dialog title={props.label} close={() => setOpen(false)}>
          <p>{props.question}</p>
          <ErrorBox error={error} />
          <div class="actions">
            <button type="button" onClick={() => setOpen(false)}>
              Cancel
            </button>
            <button type="button" class={kind || "primary"} onClick={confirm}>
              {props.label}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Bars beside each other, with the numbers as text. */
export function Bars({ values }: { values: readonly (readonly [string, number, string?])[] }) {
  const most = Math.max(1, ...values.map(([, value]) => value));
  return (
    <dl class="bars">
      {values.map(([name, value, kind]) => (
        <div>
          <dt>{name}</dt>
          <dd>
            <span class={`bar ${kind ?? ""}`} style={{ width: `${(70 * value) / most}%` }} />
            {value.toLocaleString("en")}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Fact({ name, children }: Children & { name: string }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function HeatLegend() {
  return (
    <ul class="legend">
      {BANDS.map((name: Band) => (
        <li class={`heat ${name}`}>
          <span class="dot" /> {name}
        </li>
      ))}
    </ul>
  );
}

/** Copies a text, and reports it for a moment. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  // Browsers offer the clipboard on secure pages only. The text is selectable everywhere.
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button type="button" onClick={copy}>
      {isCopied ? "Copied" : label}
    </button>
  );
}
