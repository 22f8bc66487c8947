// The parts that all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { RequestError } from "./errors";
import { BANDS, type Band, band, beginning } from "./format";
import { type Loaded, type Pages, useAction } from "./hooks";
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
  const { data, error, isStale } = loaded;
  if (data === null && !error) {
    return (
      <p class="dim" role="status">
        Loading …
      </p>
    );
  }
  return (
    <>
      <ErrorBox error={error} />
      {data !== null && (isStale ? <div class="stale">{children(data)}</div> : children(data))}
    </>
  );
}

/** The button that loads the next page of a list. */
export function More({ pages }: { pages: Pages<unknown> }) {
  if (!pages.more) return null;
  return (
    <button type="button" onClick={pages.more}>
      More
    </button>
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
    // The quarantine is a part of the cold tier, and includes the flag.
    [memory.tier === "cold" && !memory.quarantined, "archived"],
    [memory.flagged_for_review && !memory.quarantined, "flagged"],
    [memory.quarantined, "quarantined"],
    [memory.superseded_by !== null, "superseded"],
  ];
  return (
    <>
      {marks.map(([is, name]) => is && <span class={`mark ${name}`}>{name}</span>)}
    </>
  );
}

const MEMORY_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A link to a memory. Activities of agents may name anything: what is no id of a memory is a text. */
export function MemoryLink({ id, label }: { id: string; label: string | null | undefined }) {
  const text = label ? beginning(label) : beginning(id);
  return MEMORY_ID.test(id) ? (
    <a class="label" href={`#/memories/${id}`} dir="auto">
      {text}
    </a>
  ) : (
    <span dir="auto">{text}</span>
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
  pattern?: string;
  title?: string;
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

/** A number as the person writes it. The browser rejects what is none, or out of bounds, at the submission. */
export function NumberInput(props: {
  label: string;
  hint?: string;
  placeholder?: string;
  required?: boolean;
  min: number;
  max?: number;
  value: string;
  set: (value: string) => void;
}) {
  const { label, hint, set, ...input } = props;
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(id) => <input id={id} type="number" step="any" {...input} onInput={(event) => set(event.currentTarget.value)} />}
    </Field>
  );
}

export function TextArea(props: { label: string; rows: number; value: string; required?: boolean; set: (value: string) => void }) {
  const { label, set, ...area } = props;
  return (
    <Field label={label}>
      {(id) => <textarea id={id} {...area} dir="auto" onInput={(event) => set(event.currentTarget.value)} />}
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

interface DialogProps extends Children {
  title: string;
  close: () => void;
  /** Whether only its own buttons close it. */
  isGuarded?: boolean;
}

/** A modal dialog: the browser keeps the focus in it, and Escape closes it. The focus then returns. */
export function Dialog({ title, close, isGuarded, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  // Chromium closes a dialog at a second Escape, whatever the event says.
  const guard = (event: KeyboardEvent) => {
    if (isGuarded && event.key === "Escape") event.preventDefault();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onKeyDown={guard}>
      <header>
        <h2 id={id}>{title}</h2>
        {!isGuarded && (
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
}

interface FormProps extends Children {
  /** What a submission does. */
  action: { run: () => Promise<void>; error: Error | null; isRunning: boolean };
  /** The name of the button. */
  submit: string;
  isDisabled?: boolean;
  /** Whether fields and button are in one row. */
  isRow?: boolean;
  cancel?: () => void;
}

/** Fields, the button that submits them, and what went wrong. */
export function Form({ action, submit, isDisabled, isRow, cancel, children }: FormProps) {
  const send = (event: Event) => {
    event.preventDefault();
    void action.run();
  };
  const button = (
    <button type="submit" class="primary" disabled={action.isRunning || isDisabled}>
      {submit}
    </button>
  );
  if (isRow) {
    return (
      <>
        <form class="filters" onSubmit={send}>
          {children}
          {button}
        </form>
        <ErrorBox error={action.error} />
      </>
    );
  }
  return (
    <form onSubmit={send}>
      {children}
      <ErrorBox error={action.error} />
      <div class="actions">
        {cancel && (
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        )}
        {button}
      </div>
    </form>
  );
}

interface ConfirmProps {
  label: string;
  /** What it is about, for screen readers. */
  subject?: string;
  question: ComponentChildren;
  run: () => Promise<void>;
  disabled?: boolean;
  title?: string;
  /** Of a change that can be undone. */
  isMild?: boolean;
  /** A name that the person must write. */
  confirmation?: string;
}

/** A button whose action needs a confirmation. */
export function Confirm(props: ConfirmProps) {
  const [isOpen, setOpen] = useState(false);
  const name = props.subject ? `${props.label} ${props.subject}` : undefined;
  return (
    <>
      <button
        type="button"
        class={props.isMild ? "" : "danger"}
        aria-label={name}
        disabled={props.disabled}
        title={props.title}
        onClick={() => setOpen(true)}
      >
        {props.label}
      </button>
      {isOpen && <ConfirmDialog {...props} close={() => setOpen(false)} />}
    </>
  );
}

/** The question of a `Confirm`. */
export function ConfirmDialog({ label, question, run, isMild, disabled, confirmation, close }: ConfirmProps & { close: () => void }) {
  const [text, setText] = useState("");
  const confirm = useAction(async () => {
    await run();
    close();
  });
  return (
    <Dialog title={label} close={close}>
      {typeof question === "string" ? <p>{question}</p> : question}
      {confirmation && <Input label={`Write ${confirmation} to confirm`} value={text} set={setText} />}
      <ErrorBox error={confirm.error} />
      <div class="actions">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class={isMild ? "primary" : "danger"}
          disabled={confirm.isRunning || disabled || (confirmation !== undefined && text !== confirmation)}
          onClick={() => confirm.run()}
        >
          {label}
        </button>
      </div>
    </Dialog>
  );
}

/** Bars beside each other, with the numbers as text. */
export function Bars({ values }: { values: readonly (readonly [string, number, string?])[] }) {
  const largest = Math.max(1, ...values.map(([, value]) => value));
  return (
    <dl class="bars">
      {values.map(([name, value, kind]) => (
        <div>
          <dt>{name}</dt>
          <dd>
            <span class={`bar ${kind ?? ""}`} style={{ width: `${(70 * value) / largest}%` }} />
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

/** The text of a new key, which no other response contains. */
export function ShownKey({ title, text, close }: { title: string; text: string; close: () => void }) {
  return (
    <Dialog title={title} close={close} isGuarded>
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
