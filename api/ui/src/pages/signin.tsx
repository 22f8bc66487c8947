// The page without a key.
import { useState } from "preact/hooks";
import { ErrorBox, Input } from "../components";

/** Whether the node runs on this machine, where its files are. */
function isLoopback(): boolean {
  return ["localhost", "[::1]"].includes(location.hostname) || location.hostname.startsWith("127.");
}

export function SignIn(props: {
  signIn: (key: string, keep: boolean) => void;
  error: Error | null;
  isOpening: boolean;
}) {
  const [key, setKey] = useState("");
  const [keep, setKeep] = useState(false);
  const submit = (event: Event) => {
    event.preventDefault();
    props.signIn(key, keep);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <h1>Hearth</h1>
        <p>
          Paste an API key of your tenant. <code>hearth open</code> opens this page with the key of your profile.
          {isLoopback() && (
            <>
              {" "}
              The first key is in the file <code>admin.key</code> in the data folder of node 1.
            </>
          )}
        </p>
        <Input
          label="Key"
          type="password"
          autocomplete="off"
          placeholder="sk-hearth-…"
          required
          value={key}
          set={setKey}
        />
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          Keep it until this tab is closed
        </label>
        <ErrorBox error={props.error} />
        {props.isOpening && (
          <p class="dim" role="status">
            Checking the key …
          </p>
        )}
        <button type="submit" class="primary" >
          Sign in
        </button>
      </form>
    </main>
  );
}
