// Every page shows what is there: without memories, with some, for each role, without faults of the
// page or its policy, and without violations of accessibility rules.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { Browser, Cluster, go } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ADMIN = ["overview", "memories", "graph", "heat", "triggers", "keys", "audit"];
const OPERATOR = ["cluster", "tenants", "audit"];
/** Milliseconds to the first paint on loopback. */
const FIRST_PAINT_MAX = 500;

let cluster;
let browser;

before(async () => {
  cluster = await Cluster.start();
  browser = await Browser.start();
});

after(async () => {
  await browser?.stop();
  await cluster?.stop();
});

/** Nothing loads any more, and no error is shown. */
async function assertQuiet(page, name) {
  await page.getByText("Loading …").first().waitFor({ state: "detached" });
  assert.deepEqual(await page.getByRole("alert").allTextContents(), [], `${name}: an error is shown`);
  assert.deepEqual(page.faults, [], `${name}: faults`);
}

async function assertAccessible(page, name) {
  // Not through a script element: the policy of the page forbids it.
  const result = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations", "passes"] })`);
  assert.ok(result.passes.length > 10, `${name}: the rules were applied`);
  const bad = result.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const found = bad.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
  assert.deepEqual(found, [], `${name}: accessibility`);
}

async function visit(page, pages, description) {
  for (const name of pages) {
    await go(page, `/${name}`);
    await assertQuiet(page, `${description} ${name}`);
    await assertAccessible(page, `${description} ${name}`);
  }
}

test("pages of an empty cluster say what to do", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  await visit(page, ADMIN, "empty");
  await go(page, "/overview");
  await page.getByText("There are no memories yet").waitFor();
  await page.context().close();
});

test("pages of a cluster with memories show them", async () => {
  const ids = [];
  for (let number = 0; number < 60; number++) {
    const heat = 0.05 + (number % 20) / 21;
    const memory = await cluster.store(`Memory ${number} of the garden and its plants`, {
      memory_type: ["episodic", "fact", "preference"][number % 3],
      namespace: ["default", "work"][number % 2],
      initial_heat: heat,
    });
    ids.push(memory.id);
  }
  const relate = (source, target) => cluster.call("POST", "/agent/graph/relate", { source_id: ids[source], target_id: ids[target] });
  for (let number = 1; number < 30; number++) await relate(number - 1, number);
  await cluster.call("POST", "/triggers", { event: "on_store", action: "notify", name: "watch" });
  for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 360, height: 700 } }]) {
    const page = await browser.open(cluster.url(1), cluster.key, "/", options);
    await visit(page, [...ADMIN, `memories/${ids[0]}`, `graph/${ids[1]}`], JSON.stringify(options));
    const [scrollWidth, clientWidth] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(scrollWidth <= clientWidth, `no sideways scrolling: ${scrollWidth} of ${clientWidth}`);
    await page.context().close();
    const operator = await browser.open(cluster.ops(), cluster.info.operator_key, "/", options);
    await visit(operator, OPERATOR, `operator ${JSON.stringify(options)}`);
    await operator.context().close();
  }
});

test("each role has its pages", async () => {
  for (const [role, pages] of [
    ["reader", ["Overview", "Memories", "Graph", "Heat", "Triggers"]],
    ["agent", ["Overview", "Memories", "Graph", "Heat", "Triggers"]],
    ["admin", ["Overview", "Memories", "Graph", "Heat", "Triggers", "Keys and access", "Audit"]],
  ]) {
    const created = await cluster.call("POST", "/keys", { name: `a ${role}`, role });
    const page = await browser.open(cluster.url(2), created.key);
    const shown = await page.getByRole("navigation").getByRole("listitem").allTextContents();
    assert.deepEqual(shown, pages);
    await visit(page, pages.slice(0, 5).map((title) => title.toLowerCase()), role);
    await go(page, "/memories");
    const canWrite = await page.getByRole("button", { name: "New memory" }).count();
    assert.equal(canWrite, role === "reader" ? 0 : 1, role);
    await page.context().close();
  }
});

test("the first paint is fast, and files are cached and guarded", async () => {
  const page = await browser.open(cluster.url(), null);
  await page.getByLabel("Key").waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  assert.ok(paint < FIRST_PAINT_MAX, `${paint} ms`);
  await page.context().close();
  const index = await fetch(`${cluster.url()}/dashboard`);
  const policy = index.headers.get("content-security-policy");
  for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"]) {
    assert.ok(policy.includes(rule), rule);
  }
  assert.equal(index.headers.get("x-content-type-options"), "nosniff");
  assert.equal(index.headers.get("cache-control"), "no-cache");
  const script = /src="([^"]+)"/.exec(await index.text())[1];
  const sent = await fetch(`${cluster.url()}${script}`);
  assert.match(sent.headers.get("cache-control"), /immutable/);
  assert.equal(sent.headers.get("content-encoding"), "gzip");
  assert.equal((await fetch(cluster.url(), { redirect: "manual" })).headers.get("location"), "/dashboard");
});
