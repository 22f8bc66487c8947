// Takes the pictures of docs/images from a cluster with the sample texts. See test.sh for the variables.
import { readFileSync } from "node:fs";
import { Browser, Cluster, go } from "./tests/harness.mjs";

const ROOT = new URL("../../", import.meta.url);
const SAMPLES = readFileSync(new URL("deploy/samples/samples.jsonl", ROOT), "utf8").trim().split("\n");
const QUALITY = 46;
const SIZE = { width: 1100, height: 700 };

async function fill(cluster) {
  const nodes = SAMPLES.map((line, number) => ({ ...JSON.parse(line), initial_heat: 0.05 + ((number * 37) % 95) / 100 }));
  const ids = [];
  for (let at = 0; at < nodes.length; at += 50) {
    const created = await cluster.call("POST", "/agent/nodes/batch", { nodes: nodes.slice(at, at + 50) });
    ids.push(...created.results.map((memory) => memory.id));
  }
  for (let at = 1; at < ids.length; at++) {
    const edge = { source_id: ids[at], target_id: ids[(at * 7) % Math.ceil(at / 2)], relation: "about" };
    await cluster.call("POST", "/agent/graph/relate", edge);
  }
  await cluster.call("POST", "/triggers", {
    event: "on_store",
    action: "notify",
    name: "new preferences",
    filter_memory_type: "preference",
  });
  await cluster.call("POST", "/keys", { name: "billing-agent", role: "agent", namespaces: ["billing"] });
  await cluster.call("POST", "/namespaces/acl", { agent_id: "*", namespace: "private", policy: "deny" });
  const stored = await cluster.store("The user prefers metric units.", { memory_type: "preference", tags: ["units"] });
  await cluster.call("POST", "/agent/search", { query: "metric units" });
  return stored.id;
}

const cluster = await Cluster.start();
const browser = await Browser.start();
try {
  const id = await fill(cluster);
  for (const colorScheme of ["light", "dark"]) {
    const take = async (page, name) => {
      // Charts, the graph and numbers come to rest.
      await page.waitForTimeout(3_000);
      const path = new URL(`docs/images/${name}-${colorScheme}.jpg`, ROOT).pathname;
      await page.screenshot({ path, type: "jpeg", quality: QUALITY });
    };
    const page = await browser.open(cluster.url(), cluster.key, "/", { colorScheme, viewport: SIZE });
    for (const name of ["overview", "memories", "graph", "heat", "triggers", "keys", "audit"]) {
      await go(page, `/${name}`);
      await take(page, name);
    }
    await go(page, `/memories/${id}`);
    await take(page, "memory");
    await go(page, "/memories");
    await page.getByLabel("Find by").selectOption("meaning");
    await page.getByLabel("Question").fill("which units does the user prefer?");
    await page.getByLabel("Question").press("Enter");
    await take(page, "search");
    await page.context().close();
    const operator = await browser.open(cluster.ops(), cluster.info.operator_key, "/", { colorScheme, viewport: SIZE });
    for (const name of ["cluster", "tenants"]) {
      await go(operator, `/${name}`);
      await take(operator, name);
    }
    await operator.context().close();
  }
} finally {
  await browser.stop();
  await cluster.stop();
}
