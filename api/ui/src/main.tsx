// The dashboard of a node: sign-in, navigation and the page of the address.
import { Component, type ComponentChildren, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./styles.css";
import { Client } from "./client";
import { RequestError } from "./errors";
import { ErrorBox, Page } from "./components";
import { useConnection, useRoute } from "./hooks";
import { SignIn } from "./pages/signin";
import { type PageEntry, pagesOf } from "./pages";
import { applyTheme, chosenTheme, darkSystem, THEME, THEMES } from "./theme";
import { keyOfAddress, SessionContext, type Session, store, storedKey, useSession } from "./session";
import type { Identity, Role } from "./types";

/** The session of a client, once the node has accepted its key. */
async function open(client: Client, logOut: () => void): Promise<Session> {
  if (client.isOperator) {
    await client.get("/cluster/clock").catch((error: unknown) => {
      throw explained(error, "This is an operator key. It works at the operator's listener of a node, by default port 4281.");
    });
    return { client, role: "operator", identity: null, logOut };
  }
  const identity = await client.get<Identity>("/api/v1/auth/verify").catch((error: unknown) => {
    throw explained(error, "This is the operator's listener, which needs an operator key (op-hearth-…).");
  });
  return { client, role: identity.role as Role, identity, logOut };
}

function explained(error: unknown, text: string): unknown {
  return error instanceof RequestError && error.code === "no_such_path" ? new Error(text) : error;
}

function App() {
  const [session, setSession] = useState<Session | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isOpening, setOpening] = useState(true);
  /** A key of an address, until the person decides. */
  const [offered, setOffered] = useState<string | null>(null);
  /** The client of the session, or of the one that is opened. */
  const current = useRef<Client | null>(null);
  const end = () => {
    current.current?.close();
    current.current = null;
    setSession(null);
  };
  const logOut = () => {
    store(null);
    end();
  };
  const signIn = async (text: string, keep: boolean) => {
    end();
    setOpening(true);
    setOffered(null);
    setError(null);
    const key = text.trim();
    const client = (current.current = new Client(key));
    const isCurrent = () => current.current === client;
    try {
      const opened = await open(client, logOut);
      if (!isCurrent()) return;
      store(keep ? key : null);
      client.watch((connection) => {
        if (connection !== "rejected") return;
        logOut();
        setError(new Error("The key is no longer valid."));
      });
      setSession(opened);
    } catch (failure) {
      if (!isCurrent()) return;
      end();
      setError(failure as Error);
    }
    setOpening(false);
  };
  useEffect(() => {
    const [given, stored] = [keyOfAddress(), storedKey()];
    // Any page may lead here with a key: it is used only after a question.
    if (stored) void signIn(stored, true).then(() => setOffered(given === stored ? null : given));
    else {
      setOffered(given);
      setOpening(false);
    }
    const changed = () => {
      const other = keyOfAddress();
      if (other && other !== current.current?.key) setOffered(other);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  if (offered && !isOpening) {
    return <Offer replaces={session && (session.identity?.agent_label ?? "operator key")} accept={() => signIn(offered, false)} refuse={() => setOffered(null)} />;
  }
  if (!session) return <SignIn signIn={signIn} error={error} isOpening={isOpening} />;
  return (
    <SessionContext.Provider value={session}>
      <Shell key={session.client.key} />
    </SessionContext.Provider>
  );
}

/** The question before the key of an address is used, and maybe replaces one. */
function Offer({ replaces, accept, refuse }: { replaces: string | null; accept: () => void; refuse: () => void }) {
  return (
    <main class="sign-in">
      <section class="card">
        <h1>{replaces ? "Another key" : "Key in the address"}</h1>
        <p>
          {replaces ? (
            <>
              This address has another key than the one in use (<span dir="auto">{replaces}</span>).
            </>
          ) : (
            "This address has a key."
          )}{" "}
          Use it only if the address is your own: what you store goes to the tenant of the key.
        </p>
        <div class="actions">
          <button type="button" class={replaces ? "primary" : ""} onClick={refuse}>
            {replaces ? "Stay" : "Do not use it"}
          </button>
          <button type="button" class={replaces ? "" : "primary"} onClick={accept}>
            {replaces ? "Use the other key" : "Use the key"}
          </button>
        </div>
      </section>
    </main>
  );
}

function Shell() {
  const session = useSession();
  const { path } = useRoute();
  const pages = pagesOf(session);
  const [name = ""] = path;
  const page = name === "" ? pages[0] : pages.find((entry) => entry.path === name);
  const address = path.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    // Screen readers announce the page that a link leads to.
    if (!isFirst.current) document.querySelector<HTMLElement>("main h1")?.focus();
    isFirst.current = false;
  }, [address]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to the content
      </a>
      <Navigation pages={pages} current={page} />
      <main id="main" tabIndex={-1}>
        <Banner />
        <Guard key={address}>{page ? <page.Component path={path.slice(1)} /> : <NoPage />}</Guard>
      </main>
    </div>
  );
}

function NoPage() {
  return (
    <Page title="No such page">
      <p>
        This address leads nowhere, or to a page that this key may not use. <a href="#/">Overview</a>
      </p>
    </Page>
  );
}

/** Keeps a fault of one page from the others. */
class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    return this.state.error ? <ErrorBox error={this.state.error} /> : this.props.children;
  }
}

function focusMain(event: Event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Navigation({ pages, current }: { pages: PageEntry[]; current: PageEntry | undefined }) {
  const { identity, role, logOut } = useSession();
  return (
    <nav aria-label="Pages">
      <a class="brand" href="#/">
        Hearth
      </a>
      <ul>
        {pages.map((page) => (
          <li>
            <a href={`#/${page.path}`} aria-current={page === current ? "page" : undefined}>
              {page.title}
            </a>
          </li>
        ))}
      </ul>
      <div class="who">
        <span dir="auto">{identity ? identity.agent_label : "operator key"}</span>
        <small>{identity ? `${role}, tenant ${identity.tenant_id}` : location.host}</small>
        <Theme />
        <button type="button" class="quiet" onClick={logOut}>
          Sign out
        </button>
      </div>
    </nav>
  );
}

function Theme() {
  const [theme, setTheme] = useState(chosenTheme);
  const choose = (name: string) => {
    localStorage.setItem(THEME, name);
    setTheme(name);
    applyTheme();
  };
  return (
    <select aria-label="Theme" value={theme} onChange={(event) => choose(event.currentTarget.value)}>
      {THEMES.map((name) => (
        <option value={name}>{name}</option>
      ))}
    </select>
  );
}

/** What is wrong with the connection, while something is. */
function Banner() {
  const connection = useConnection();
  if (connection === "ok") return null;
  return (
    <p class="banner" role="alert">
      {connection === "lost"
        ? `The node at ${location.host} does not respond. This page tries again until it does. The other nodes have a dashboard too.`
        : "The cluster has no leader at the moment. Reads go on; writes wait for the election."}
    </p>
  );
}

applyTheme();
darkSystem.addEventListener("change", applyTheme);
const root = document.getElementById("app");
if (root) render(<App />, root);
