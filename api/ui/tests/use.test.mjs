// What people do in a day: a first memory, a search, a firing trigger, a key for an agent, changes and their
// confirmation, hostile texts, and a leader that dies meanwhile.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { Cluster, PATIENCE, browser, cluster, go, until, useCluster } from "./harness.mjs";

const PYTHON = process.env.HEARTH_PYTHON;

useCluster();

const button = (page, name) => page.getByRole("button", { name, exact: true });

async function assertNoFaults(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

test("a newcomer stores, searches, and sees a trigger fire", async () => {
  const page = await browser.open(cluster.url(), cluster.key);
  await page.getByRole("link", { name: "Triggers" }).click();
  await button(page, "New trigger").click();
  await page.getByLabel("Name", { exact: true }).fill("preferences");
  await page.getByLabel("of the type").selectOption("preference");
  // Key by key, as people write.
  await page.getByLabel("hotter than").pressSequentially("0.05");
  assert.equal(await page.getByLabel("hotter than").inputValue(), "0.05");
  await page.getByLabel("Message").fill("learnt: {label}");
  await button(page, "Create").click();
  await page.getByRole("cell", { name: "preferences", exact: true }).waitFor();
  await page.getByRole("link", { name: "Memories" }).click();
  await button(page, "New memory").click();
  await page.getByLabel("Text").fill("The user prefers metric units.");
  await page.getByRole("dialog").getByLabel("Type").selectOption("preference");
  await button(page, "Store").click();
  await page.getByRole("link", { name: "The user prefers metric units." }).waitFor();
  await page.getByLabel("Find by").selectOption("meaning");
  await page.getByLabel("Question").fill("metric units");
  await page.getByLabel("Question").press("Enter");
  await page.locator(".results li").first().waitFor();
  // The same question again is another search.
  const again = page.waitForRequest((request) => request.url().endsWith("/agent/search"));
  await page.getByLabel("Question").press("Enter");
  await again;
  const result = page.locator(".results li").first();
  await result.getByText("The user prefers metric units.").waitFor();
  // The factors multiply to the score.
  const [left, right] = (await result.locator("small").textContent()).split(" = ");
  const value = left.replace(/[a-z]+/g, "").replaceAll("·", "*");
  assert.match(value, /^[\d.()+* ]+$/);
  assert.ok(Math.abs(Function(`return ${value}`)() - Number(right)) < 0.01, `${left} = ${right}`);
  await page.getByRole("link", { name: "Triggers" }).click();
  await page.getByText("learnt: The user prefers metric units.").waitFor();
  await assertNoFaults(page);
});

test("a key that was created here works in a published client", async () => {
  const page = await browser.open(cluster.url(), cluster.key, "/keys");
  await button(page, "New key").click();
  await page.getByLabel("Name", { exact: true }).fill("python");
  await button(page, "Create").click();
  const key = await page.getByLabel("Key", { exact: true }).and(page.locator("input")).inputValue();
  assert.match(key, /^sk-hearth-[0-9a-f]{72}$/);
  await button(page, "Done").click();
  assert.equal(await page.getByText(key).count(), 0, "it is shown once");
  const script = `
from sulcus import Sulcus
memory = Sulcus(api_key="${key}", base_url="${cluster.url(1)}")
memory.remember("stored by a published client", memory_type="fact")
print([found.pointer_summary for found in memory.search("published client", limit=1)])`;
  assert.match(execFileSync(PYTHON, ["-c", script], { encoding: "utf8" }), /stored by a published client/);
  const row = page.getByRole("row", { name: /^python/ }).first();
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  await assert.rejects(cluster.call("GET", "/agent/nodes", undefined, key), /401/);
  await assertNoFaults(page);
});

test("the page works over TLS", async () => {
  const secure = await Cluster.start({ tls: true });
  try {
    // The authority is that of the cluster, of which a browser warns.
    const page = await browser.open(secure.url(), secure.key, "/overview", { ignoreHTTPSErrors: true });
    await page.getByText("live", { exact: true }).waitFor();
    await go(page, "/memories");
    await button(page, "New memory").click();
    await page.getByLabel("Text").fill("stored over TLS");
    await button(page, "Store").click();
    await page.getByRole("link", { name: "stored over TLS" }).waitFor();
    await go(page, "/overview");
    await page.getByRole("link", { name: "stored over TLS" }).waitFor();
    const protocol = await page.evaluate(() => performance.getEntriesByType("navigation")[0].nextHopProtocol);
    assert.equal(protocol, "h2");
    await assertNoFaults(page);
  } finally {
    await secure.stop();
  }
});

test("a revoked key ends its page", async () => {
  const created = await cluster.call("POST", "/keys", { name: "leaver", role: "reader" });
  const page = await browser.open(cluster.url(), created.key);
  await page.getByText("live", { exact: true }).waitFor();
  await cluster.call("DELETE", `/keys/${created.id}`);
  await page.getByText("The key is no longer valid.").waitFor();
  await assertNoFaults(page);
});

test("access rules name who could read a namespace", async () => {
  await cluster.call("POST", "/keys", { name: "outsider", role: "reader", namespaces: ["public"] });
  await cluster.call("POST", "/keys", { name: "insider", role: "reader" });
  const page = await browser.open(cluster.url(), cluster.key, "/keys");
  const rules = page.getByRole("region", { name: "Access rules" }).first();
  await rules.getByLabel("Key", { exact: true }).selectOption({ label: "insider" });
  await rules.getByLabel("Namespace", { exact: true }).fill("public");
  await rules.getByLabel("Policy").selectOption("deny");
  await rules.getByRole("button", { name: "Add the rule" }).click();
  await rules.getByRole("cell", { name: "public", exact: true }).waitFor();
  await page.getByLabel("Namespace", { exact: true }).last().fill("secret");
  const table = page.getByRole("region", { name: "Who could read this namespace" });
  await table.getByRole("row", { name: "outsider reader no" }).waitFor();
  await page.getByLabel("Namespace", { exact: true }).last().fill("public");
  await table.getByRole("row", { name: "outsider reader yes" }).waitFor();
  await table.getByRole("row", { name: "insider reader no" }).waitFor();
  await assertNoFaults(page);
});

test("locked memories explain themselves, and bulk changes are previewed", async () => {
  const locked = await cluster.store("a locked memory of the bulk", { memory_type: "fact" });
  await cluster.call("PATCH", `/agent/nodes/${locked.id}`, { is_locked: true });
  await cluster.store("an open memory of the bulk", { memory_type: "fact" });
  const page = await browser.open(cluster.url(), cluster.key, `/memories/${locked.id}`);
  await page.getByText("Unlock it first").first().waitFor();
  assert.ok(await button(page, "Delete").isDisabled());
  // It can be changed: only the fields that were.
  await cluster.call("PATCH", `/agent/nodes/${locked.id}`, { tags: ["with a, comma"] });
  await button(page, "Edit").click();
  await page.getByLabel("Text").fill("a changed memory of the bulk");
  await page.getByRole("spinbutton", { name: "Heat", exact: true }).fill("");
  await button(page, "Save").click();
  assert.equal(await page.getByRole("spinbutton", { name: "Heat", exact: true }).evaluate((input) => input.validity.valid), false);
  await page.getByRole("spinbutton", { name: "Heat", exact: true }).fill("0.625");
  await button(page, "Save").click();
  await page.locator(".memory-text", { hasText: "a changed memory of the bulk" }).waitFor();
  const changed = await cluster.call("GET", `/agent/nodes/${locked.id}`);
  assert.deepEqual(changed.tags, ["with a, comma"]);
  assert.ok(Math.abs(changed.heat - 0.625) < 0.001, changed.heat);
  await go(page, "/memories");
  await page.getByLabel("Words").fill("bulk");
  await page.getByText("2 memories").waitFor();
  for (const box of await page.getByLabel(/^Select: /).all()) await box.check();
  await page.getByRole("button", { name: "Delete …" }).click();
  await page.getByText("1 of the selected ones stay as they are: locked").waitFor();
  await button(page, "Delete 1").click();
  await page.getByText("1 memories").waitFor();
  const left = await cluster.call("GET", "/agent/nodes?search=bulk");
  assert.deepEqual(left.items.map((memory) => memory.id), [locked.id]);
  // The way back from a memory has the filters.
  await page.getByRole("link", { name: "a changed memory of the bulk" }).click();
  await page.getByRole("heading", { name: "Memory" }).waitFor();
  await page.goBack();
  await page.getByText("1 memories").waitFor();
  assert.equal(await page.getByLabel("Words").inputValue(), "bulk");
  await assertNoFaults(page);
});

test("settings are previewed before they are saved", async () => {
  for (let number = 0; number < 5; number++) await cluster.store(`a moment ${number}`, { memory_type: "moment", initial_heat: 0.3 });
  const page = await browser.open(cluster.url(), cluster.key, "/heat");
  await page.getByRole("group", { name: "moment" }).getByLabel("half life").fill("864000");
  const preview = page.getByRole("region", { name: "Preview" });
  await preview.getByText(/\(now /).first().waitFor();
  const before = await cluster.call("GET", "/settings/thermo");
  assert.equal(before.config.decay_profiles.moment.half_life, 43_200, "nothing is saved yet");
  await button(page, "Save the change").click();
  await page.getByText("changed from the defaults").waitFor();
  const saved = await cluster.call("GET", "/settings/thermo");
  assert.equal(saved.config.decay_profiles.moment.half_life, 864_000);
  await button(page, "Restore the defaults").click();
  await page.getByRole("dialog").getByRole("button", { name: "Restore the defaults" }).click();
  await page.getByText("defaults", { exact: true }).waitFor();
  await assertNoFaults(page);
});

test("hostile texts are shown as texts", async () => {
  const texts = [
    '<img src=x onerror="document.title=\'attacked\'">',
    "<script>document.title='attacked'</script>",
    "[link](javascript:document.title='attacked')",
    "\u202eright to left\u202c then 😀👩‍👩‍👧 and \u0000 zero",
    "long ".repeat(13_000),
  ];
  const ids = [];
  const [hostile] = texts;
  const details = { namespace: "<b>hostile</b>", memory_type: "fact", tags: [hostile], metadata: { [hostile]: hostile } };
  for (const text of texts) ids.push((await cluster.store(text, details)).id);
  await cluster.call("POST", "/keys", { name: hostile, role: "reader" });
  await cluster.call("POST", "/triggers", { event: "on_store", action: "notify", name: hostile, action_config: { message: hostile } });
  await cluster.call("POST", "/activity", { action: hostile, target_id: "50%", target_label: hostile });
  const page = await browser.open(cluster.url(), cluster.key, "/memories");
  await page.getByText("<b>hostile</b>").first().waitFor();
  for (const [at, id] of ids.entries()) {
    await go(page, `/memories/${id}`);
    const shown = page.locator(".memory-text");
    await until("the text", async () => (await shown.textContent())?.trim() === texts[at].replace("\u0000", "\u0000").trim());
  }
  for (const name of ["overview", "graph", "triggers", "keys"]) await go(page, `/${name}`);
  assert.notEqual(await page.title(), "attacked");
  assert.equal(await page.locator("main img, main script").count(), 0);
  await assertNoFaults(page);
});

test("the page follows events, and goes on after the leader dies", async () => {
  const leader = await cluster.leader();
  const other = (leader + 1) % 3;
  const survivor = await browser.open(cluster.url(other), cluster.key);
  const lost = await browser.open(cluster.url(leader), cluster.key);
  const list = await browser.open(cluster.url(leader), cluster.key, "/memories");
  await survivor.getByText("live", { exact: true }).waitFor();
  await cluster.call("POST", "/agent/nodes", { label: "seen at once" });
  await survivor.getByRole("link", { name: "seen at once" }).first().waitFor();
  cluster.kill(leader);
  // The page of the killed node says so; that of another one goes on.
  await lost.getByText(/^The node at .* does not respond/).waitFor();
  await go(survivor, "/memories");
  await button(survivor, "New memory").click();
  await survivor.getByLabel("Text").fill("stored without the old leader");
  await button(survivor, "Store").click();
  await survivor.getByRole("link", { name: "stored without the old leader" }).waitFor();
  await list.getByLabel("Words").fill("old leader");
  await list.getByText(/^The node at .* does not respond/).waitFor();
  // The node returns, and its pages go on by themselves.
  cluster.restart(leader);
  await lost.getByText(/^The node at .* does not respond/).waitFor({ state: "detached", timeout: 3 * PATIENCE });
  await lost.getByText("live", { exact: true }).waitFor();
  // What could not be loaded meanwhile is loaded.
  await list.getByRole("link", { name: "stored without the old leader" }).waitFor();
  // Without a majority there is no leader.
  await go(survivor, "/overview");
  cluster.restarted.kill("SIGKILL");
  cluster.kill((other + 1) % 3);
  await survivor.getByText(/degraded, .*leader/).waitFor({ timeout: 2 * PATIENCE });
  assert.deepEqual([...survivor.faults, ...lost.faults, ...list.faults], []);
  await survivor.context().close();
  await lost.context().close();
});
