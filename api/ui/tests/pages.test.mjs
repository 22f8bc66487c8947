// Every page shows what is there: without memories, with some, for each role, without faults of the
// page or its policy, and without violations of accessibility rules.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { assertAccessible, browser, cluster, go, useCluster } from "./harness.mjs";

const ADMIN = ["overview", "memories", "graph", "heat", "triggers", "review", "keys", "audit"];
const OPERATOR = ["cluster", "tenants", "audit"];
/** Bytes of all files, compressed. */
const BUNDLE_MAX = 80_000;
/** Milliseconds to the first paint on loopback. */
const FIRST_PAINT_MAX = 500;

useCluster();

/** Nothing loads any more, and no error is shown. */
async function assertQuiet(page, name) {
  await page.getByText("Loading …").first().waitFor({ state: "detached" });
  assert.deepEqual(await page.getByRole("alert").allTextContents(), [], `${name}: an error is shown`);
  assert.deepEqual(page.faults, [], `${name}: faults`);
}

async function visit(page, pages, description) {
  for (const name of pages) {
    await go(page, `/${name}`);
    await assertQuiet(page, `${description} ${name}`);
    await assertAccessible(page, `${description} ${name}`);
    const [width, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(width <= room, `${description} ${name}: ${width} of ${room} pixels`);
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
  for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { viewport: { width: 360, height: 700 } }, { viewport: { width: 3840, height: 2160 } }]) {
    const page = await browser.open(cluster.url(1), cluster.key, "/", options);
    await visit(page, [...ADMIN, `memories/${ids[0]}`, `graph/${ids[1]}`], JSON.stringify(options));
    await page.context().close();
    const operator = await browser.open(cluster.ops(), cluster.info.operator_key, "/", options);
    await visit(operator, OPERATOR, `operator ${JSON.stringify(options)}`);
    await operator.context().close();
  }
});

test("dialogs are accessible, and close with Escape", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  for (const [path, name] of [
    ["memories", "New memory"],
    ["triggers", "New trigger"],
    ["keys", "New key"],
    ["keys", "Rotate"],
  ]) {
    await go(page, `/${path}`);
    await page.getByRole("button", { name: new RegExp(`^${name}`) }).first().click();
    await page.getByRole("dialog").waitFor();
    await assertAccessible(page, name);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  await page.context().close();
});

test("the keyboard reaches the pages and skips them", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.reload();
  await page.getByLabel("Key").fill(cluster.key);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation").waitFor();
  for (let press = 0; press < 4; press++) await page.keyboard.press("Tab");
  assert.equal(await focused(), "Memories");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Memories" }).waitFor();
  await page.context().close();
});

test("wrong keys and wrong listeners are explained", async () => {
  const page = await browser.open(cluster.url(), null);
  const signIn = async (key, reason) => {
    await page.getByLabel("Key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText(reason).waitFor();
  };
  await signIn("sk-wrong", "valid API key");
  await signIn(cluster.info.operator_key, "It works at the operator's listener");
  await page.goto(`${cluster.ops()}/dashboard`);
  await signIn(cluster.key, "needs an operator key");
  await page.context().close();
});

test("operators work over plain HTTP on another name", async () => {
  const url = cluster.ops().replace("127.0.0.1", "node");
  const page = await browser.open(url, cluster.info.operator_key);
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("All states are equal").waitFor();
  await go(page, "/tenants");
  await page.getByRole("button", { name: "New tenant" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("second");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Tenant second" }).waitFor();
  await page.keyboard.press("Escape");
  const key = await page.getByLabel("Key", { exact: true }).inputValue();
  assert.match(key, /^sk-hearth-/, "Escape does not lose the key");
  await page.getByRole("button", { name: "Done" }).click();
  // A tier that exists is not overwritten.
  await page.getByText("New tier").click();
  await page.getByLabel("Name of the tier").fill("free");
  await page.getByRole("button", { name: "Create the tier" }).click();
  await page.getByText("This tier exists").waitFor();
  const row = page.getByRole("row", { name: /second/ });
  await row.getByRole("button", { name: "Change" }).click();
  await page.getByRole("dialog").getByLabel("memories").fill("10");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await row.getByText("memories: 0 of 10").waitFor();
  await row.getByRole("button", { name: "Suspend" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
  await row.getByText("suspended").waitFor();
  await row.getByRole("button", { name: "Delete" }).click();
  const remove = page.getByRole("dialog").getByRole("button", { name: "Delete" });
  assert.ok(await remove.isDisabled(), "the name confirms it");
  await page.getByRole("dialog").getByLabel("Write second to confirm").fill("second");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await row.getByRole("button", { name: "Delete" }).click();
  assert.ok(await remove.isDisabled(), "at each time");
  await page.getByRole("dialog").getByLabel("Write second to confirm").fill("second");
  await remove.click();
  await row.waitFor({ state: "detached" });
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("labels of axes are whole in the picture", async () => {
  const page = await browser.open(cluster.ops(), cluster.info.operator_key, "/sign-in");
  const at = Array.from({ length: 20 }, (_, sample) => 1_800_000_000 + 15 * sample);
  const names = ["hearth_memory_resident_bytes", "hearth_disk_free_bytes", "hearth_memories", "hearth_raft_term"];
  const largest = [340e6, 1.8e12, 123_456_789, 1_000_000];
  const series = Object.fromEntries(names.map((name, number) => [name, at.map((_, sample) => largest[number] * (1 + sample / 20))]));
  await page.route("**/cluster/metrics", (route) => route.fulfill({ json: { interval_seconds: 15, at, series } }));
  await go(page, "/cluster");
  await page.locator("figure", { hasText: "Resident memory" }).locator("canvas").waitFor();
  const drawn = await page.locator(".chart canvas").evaluateAll((canvases) =>
    canvases.map((canvas) => {
      const columns = (from, width) => canvas.getContext("2d").getImageData(from, 0, width, canvas.height).data;
      const hasInk = (data) => data.some((value, byte) => byte % 4 === 3 && value > 0);
      return { edge: hasInk(columns(0, 1)), labels: hasInk(columns(1, 40)) };
    }),
  );
  assert.ok(drawn.length >= 8);
  for (const { edge } of drawn) assert.equal(edge, false, "a label begins outside of the picture");
  assert.ok(drawn.filter(({ labels }) => labels).length >= names.length);
  await page.context().close();
});

test("another key in an open page replaces the first", async () => {
  const created = await cluster.call("POST", "/keys", { name: "the other one", role: "reader" });
  const page = await browser.open(cluster.url(), cluster.key, "/keys");
  await page.evaluate((key) => {
    location.hash = `#key=${key}`;
  }, created.key);
  // Any page may lead here with a key: it is a question.
  await page.getByRole("button", { name: "Stay" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.evaluate((key) => {
    location.hash = `#key=${key}`;
  }, created.key);
  await page.getByRole("button", { name: "Use the other key" }).click();
  await page.getByText("the other one").waitFor();
  assert.equal(await page.getByRole("link", { name: "Keys and access" }).count(), 0);
  await page.context().close();
});

test("addresses that lead nowhere are explained", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  for (const hash of ["/nothing", "/%"]) {
    await go(page, hash);
    await page.getByRole("heading", { name: "No such page" }).waitFor();
  }
  await go(page, "/memories/50%25");
  await page.getByRole("alert").waitFor();
  await page.getByRole("link", { name: "Overview", exact: true }).first().click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test("an address sends requests to no path but its own", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  const paths = [];
  page.on("request", (request) => paths.push(new URL(request.url()).pathname));
  for (const hash of ["/graph/..%2F..%2F..%2Fkeys", "/memories/..%2F..%2Fkeys", "/graph/x%3Fa=b", "/memories/%2e%2e"]) {
    paths.length = 0;
    await go(page, hash);
    await page.getByRole("alert").waitFor();
    assert.ok(!paths.some((path) => path.endsWith("/keys") || path.endsWith("/agent")), paths.join(" "));
  }
  await page.context().close();
});

test("the sign-in page names files on the machine of the node only", async () => {
  const hint = async (url) => {
    const page = await browser.open(url, null);
    await page.getByLabel("Key").waitFor();
    const count = await page.getByText("admin.key").count();
    await page.context().close();
    return count;
  };
  assert.equal(await hint(cluster.url()), 1);
  assert.equal(await hint(cluster.url().replace("127.0.0.1", "node")), 0);
});

test("a key is kept only where the person wants it, and not in the address", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  assert.equal(await page.evaluate(() => location.hash), "#/");
  const stored = () => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  assert.ok(!(await stored()).includes(cluster.key));
  await page.reload();
  await page.getByLabel("Key").fill(cluster.key);
  await page.getByLabel("Keep it").check();
  await page.keyboard.press("Enter");
  await page.getByRole("navigation").waitFor();
  await page.reload();
  await page.getByRole("navigation").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").waitFor();
  assert.ok(!(await stored()).includes(cluster.key));
  await page.context().close();
});

test("each role has its pages", async () => {
  const some = ["Overview", "Memories", "Graph", "Heat", "Triggers"];
  for (const [role, namespaces, pages] of [
    ["reader", undefined, some],
    ["reader", ["work"], some],
    ["agent", undefined, some],
    ["agent", ["work"], some],
    ["admin", undefined, [...some, "Review", "Keys and access", "Audit"]],
  ]) {
    const created = await cluster.call("POST", "/keys", { name: `a ${role}`, role, namespaces });
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
  const text = await index.text();
  const files = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path);
  let bytes = gzipSync(text).length;
  for (const path of files) bytes += gzipSync(Buffer.from(await (await fetch(`${cluster.url()}${path}`)).arrayBuffer())).length;
  console.log(`dashboard: ${bytes} bytes compressed, first paint after ${paint.toFixed(0)} ms`);
  assert.ok(files.length >= 3 && bytes < BUNDLE_MAX, `${bytes} bytes`);
  const script = files.find((path) => path.endsWith(".js"));
  const sent = await fetch(`${cluster.url()}${script}`);
  assert.match(sent.headers.get("cache-control"), /immutable/);
  assert.equal(sent.headers.get("content-encoding"), "gzip");
  assert.equal((await fetch(cluster.url(), { redirect: "manual" })).headers.get("location"), "/dashboard");
});
