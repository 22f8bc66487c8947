// The graph of 1,000 memories moves smoothly, and its points can be chosen and expanded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, cluster, useCluster } from "./harness.mjs";

const MEMORIES = 1_000;
const FRAMES_PER_SECOND_MIN = 30;
/** Milliseconds for which frames are counted. */
const PERIOD = 3_000;

useCluster();

test("a graph of 1,000 memories has 30 frames per second", async () => {
  const ids = [];
  for (let at = 0; at < MEMORIES; at += 50) {
    const nodes = Array.from({ length: 50 }, (_, number) => ({
      label: `Point ${at + number} of the graph`,
      memory_type: "fact",
      initial_heat: 0.2 + (number % 16) / 20,
      on_duplicate: "allow",
    }));
    const created = await cluster.call("POST", "/agent/nodes/batch", { nodes });
    ids.push(...created.results.map((memory) => memory.id));
  }
  for (let at = 1; at < 300; at++) {
    await cluster.call("POST", "/agent/graph/relate", { source_id: ids[at], target_id: ids[at >> 1], relation: "tree" });
  }
  const page = await browser.open(cluster.url(), cluster.key, "/graph");
  await page.getByLabel("Memories", { exact: true }).selectOption("1000");
  await page.getByText(/^1000 memories/).waitFor();
  // The layout is moving: each frame draws all points.
  const drawn = await page.evaluate(
    (period) =>
      new Promise((resolve) => {
        const clear = CanvasRenderingContext2D.prototype.clearRect;
        let frames = 0;
        CanvasRenderingContext2D.prototype.clearRect = function (...box) {
          frames++;
          return clear.apply(this, box);
        };
        setTimeout(() => resolve(frames), period);
      }),
    PERIOD,
  );
  const rate = (1_000 * drawn) / PERIOD;
  console.log(`graph: ${rate.toFixed(0)} frames per second`);
  assert.ok(rate >= FRAMES_PER_SECOND_MIN, `${rate} frames per second`);
  await page.getByText(/^1000 memories/).click();
  await page.getByRole("button", { name: "Point 0 of the graph", exact: true }).or(page.locator(".listing button").first()).first().click();
  await page.getByRole("heading", { name: "Chosen memory" }).waitFor();
  await page.getByRole("button", { name: "Show its neighbours" }).click();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
