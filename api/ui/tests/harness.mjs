// A cluster of three nodes, and a browser that fails the test at an error of the page or of its policy.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

/** Milliseconds within which a page shows what it should. */
export const PATIENCE = 15_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const BINARY = process.env.HEARTH_BINARY;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const OPTIONS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // A name of this machine whose pages are not secure ones, unlike those of loopback.
  "--host-resolver-rules=MAP node 127.0.0.1",
];

export class Cluster {
  /** Three nodes; without TLS, unless `tls` says so. */
  static async start({ tls } = {}) {
    const folder = mkdtempSync(join(tmpdir(), "hearth-dashboard-"));
    const options = ["--json", ...(tls ? [] : ["--http"]), "--nodes", "3", "--base-port", "0", "--embedder", "hashing"];
    const environment = { ...process.env, HEARTH_PROFILES: join(folder, "profiles.toml") };
    const child = spawn(BINARY, ["dev", ...options, "--data", join(folder, "data")], {
      stdio: ["ignore", "pipe", "inherit"],
      env: environment,
    });
    let text = "";
    for await (const chunk of child.stdout) {
      text += chunk;
      if (text.includes("\n")) break;
    }
    const cluster = new Cluster();
    Object.assign(cluster, { folder, child, environment, info: JSON.parse(text) });
    return cluster;
  }

  get key() {
    return this.info.key;
  }

  url(node = 0) {
    return this.info.nodes[node].url;
  }

  ops(node = 0) {
    return this.info.nodes[node].ops;
  }

  async call(method, path, body, key = this.key) {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const request = { method, headers, body: body && JSON.stringify(body) };
    const response = await fetch(`${this.url()}/api/v1${path}`, request);
    const value = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${value}`);
    return value && JSON.parse(value);
  }

  store(label, other = {}) {
    return this.call("POST", "/agent/nodes", { label, ...other });
  }

  /** The number of the node that leads, from 0. */
  async leader() {
    const status = await (await fetch(`${this.url()}/api/v1/status`)).json();
    return this.info.nodes.findIndex((node) => node.id === status.leader);
  }

  /** Ends the process of a node at once. */
  kill(node) {
    process.kill(this.info.nodes[node].pid, "SIGKILL");
  }

  /** Starts a node again that was killed. */
  restart(node) {
    const config = join(this.info.nodes[node].data, "hearth.toml");
    const options = { stdio: ["pipe", "ignore", "ignore"], env: this.environment };
    // It ends with this process, which has the other end of its standard input.
    this.restarted = spawn(BINARY, ["serve", "--while-stdin-open", "--config", config], options);
  }

  async stop() {
    this.restarted?.kill("SIGKILL");
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGINT");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class Browser {
  static async start() {
    const self = new Browser();
    self.browser = await chromium.launch({ executablePath: CHROMIUM, args: OPTIONS });
    return self;
  }

  /** A page of its own, signed in with a key at a node. */
  async open(url, key, hash = "/", options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.faults = [];
    page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
    page.on("console", (message) => {
      const text = message.text();
      // Responses that are no success are a part of some tests.
      if (message.type() === "error" && !text.startsWith("Failed to load resource")) page.faults.push(text);
    });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== new URL(url).origin) page.faults.push(`outside: ${request.url()}`);
    });
    await page.goto(`${url}/dashboard${key ? `#key=${key}` : ""}`);
    if (key) {
      await page.getByRole("button", { name: "Use the key" }).click();
      await page.getByRole("navigation").waitFor();
      await go(page, hash);
    }
    return page;
  }

  stop() {
    return this.browser.close();
  }
}

/** Those of the tests of a file, once `useCluster` was called. */
export let cluster;
export let browser;

/** Starts a cluster and a browser before the tests of a file, and ends them afterwards. */
export function useCluster() {
  before(async () => {
    cluster = await Cluster.start();
    browser = await Browser.start();
  });
  after(async () => {
    await browser?.stop();
    await cluster?.stop();
  });
}

/** Leads an open page to an address within the dashboard, whose title the page then has. */
export async function go(page, hash) {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  const [name, id] = hash.replace(/^\//, "").split(/[/?]/);
  const title = id && name === "memories" ? "Memory" : TITLES[name];
  if (title) await page.locator("main h1", { hasText: new RegExp(`^${title}$`) }).waitFor();
}

const TITLES = {
  overview: "Overview",
  memories: "Memories",
  graph: "Graph",
  heat: "Heat",
  triggers: "Triggers",
  review: "Review",
  keys: "Keys and access",
  audit: "Audit",
  cluster: "Cluster",
  tenants: "Tenants",
};

/** The page has no serious violations of accessibility rules. */
export async function assertAccessible(page, name) {
  // Not through a script element: the policy of the page forbids it.
  const result = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations", "passes"] })`);
  assert.ok(result.passes.length > 10, `${name}: the rules were applied`);
  const bad = result.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const found = bad.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
  assert.deepEqual(found, [], `${name}: accessibility`);
}

/** Waits until a condition holds. */
export async function until(description, condition) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not in time: ${description}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
