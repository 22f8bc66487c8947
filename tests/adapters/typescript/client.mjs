// Tests of the client: its operations on three nodes, and its repetitions with a `fetch` that fails.

import assert from "node:assert/strict";
import { Client, HearthError } from "hearth-memory";
import { fetchWithAuthority } from "../dist/authority.js";

const OPERATIONS = {
  async created_memory_is_returned(client) {
    const created = await client.create({ label: "the pump was checked", memory_type: "fact", tags: ["pump"] });
    const memory = await client.get(created.id);
    assert.deepEqual([memory.label, memory.memory_type, memory.tags], ["the pump was checked", "fact", ["pump"]]);
    assert.match(memory.origin.client, /^hearth-memory\/\d/);
    assert.match(memory.etag, /^".+"$/);
  },

  async second_editor_is_rejected(client) {
    const { id } = await client.create({ label: "the port is 5432" });
    const { etag } = await client.get(id);
    const updated = await client.update(id, { label: "the port is 5433" }, { etag });
    assert.notEqual(updated.etag, etag);
    const rejected = { name: "HearthError", status: 412, code: "condition_failed" };
    await assert.rejects(client.update(id, { label: "the port is 5434" }, { etag }), rejected);
    await assert.rejects(client.delete(id, { etag }), rejected);
    assert.deepEqual((await client.versions(id)).map((it) => it.label), ["the port is 5433", "the port is 5432"]);
    assert.equal((await client.delete(id, { etag: updated.etag, reject: true })).deleted, true);
  },

  async named_memory_is_created_once(client) {
    const named = { external_id: "notes/plan.md", namespace: "named" };
    const first = await client.create({ ...named, label: "the first plan" }, { isNew: true });
    const rejected = { name: "HearthError", status: 412, code: "condition_failed" };
    await assert.rejects(client.create({ ...named, label: "lost" }, { isNew: true }), rejected);
    const second = await client.create({ ...named, label: "the second plan" }, { etag: first.etag });
    assert.equal(second.id, first.id);
    await assert.rejects(client.create({ ...named, label: "lost" }, { etag: first.etag }), rejected);
  },

  async errors_have_the_fields_of_the_body(client) {
    const missing = "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01";
    const error = await client.get(missing).catch((it) => it);
    assert(error instanceof HearthError);
    assert.deepEqual([error.status, error.code], [404, "not_found"]);
    assert.match(error.requestId, /^[0-9a-f-]{36}$/);
    const invalid = await client.create({ label: "x", memory_type: "opinion" }).catch((it) => it);
    assert.deepEqual([invalid.status, invalid.code, invalid.body.field], [400, "invalid_field", "memory_type"]);
    assert.match(invalid.message, /^memory_type must be/);
  },

  async list_returns_all_pages(client) {
    const labels = Array.from({ length: 7 }, (_, number) => `page ${number}`);
    const { results } = await client.createBatch({
      nodes: labels.map((label) => ({ label, namespace: "pages" })),
    });
    assert.deepEqual(results.map((it) => it.status), labels.map(() => "created"));
    const listed = [];
    for await (const { label } of client.list({ namespace: "pages", page_size: 2 })) listed.push(label);
    assert.deepEqual(listed.sort(), labels);
  },

  async list_has_filters(client) {
    const nodes = [1, 2, 3].map((page) => (
      { label: `page of the manual ${page}`, namespace: "filters", tags: ["a,b"], metadata: { page } }
    ));
    await client.createBatch({ nodes });
    const fields = { namespace: "filters", filter: { "metadata.page": { gte: 2 } }, tag: ["a,b"] };
    const found = await Array.fromAsync(client.list(fields));
    assert.deepEqual(found.map((it) => it.metadata.page).sort(), [2, 3]);
  },

  async external_id_replaces_and_finds(client) {
    const first = await client.create({ label: "Ann is in Bonn", external_id: "crm:17", namespace: "crm" });
    const second = await client.create({ label: "Ann is in Rome", external_id: "crm:17", namespace: "crm" });
    assert.equal(second.id, first.id);
    assert.equal((await client.getByExternalId("crm:17", "crm")).label, "Ann is in Rome");
    assert.equal(await client.getByExternalId("crm:18", "crm"), undefined);
  },

  async search_and_contexts_return_the_memory(client) {
    const { id } = await client.create({ label: "the user prefers metric units", namespace: "units" });
    const [found] = await client.search({ query: "metric units", namespace: "units", explain: true });
    assert.equal(found.id, id);
    assert.equal(typeof found.explain.fused_score, "number");
    await client.update(id, { is_pinned: true });
    const [hot] = await client.hotContext({ namespace: "units", limit: 1 });
    assert.deepEqual([hot.id, hot.is_pinned], [id, true]);
    const { context, memory_ids: ids } = await client.context({ query: "metric units", namespace: "units" });
    assert.deepEqual(ids, [id]);
    assert.match(context, /metric units/);
  },

  async feedback_and_boost_change_heat(client) {
    const { id } = await client.create({ label: "the lift is broken", initial_heat: 0.2 });
    const { heat_before: before, heat_after: after } = await client.feedback(id, { signal: "relevant" });
    assert(after > before);
    const boosted = await client.boost(id, { strength: 0.4 });
    assert(boosted.heat > after);
  },

  async superseded_memory_names_the_new_one(client, options) {
    // The namespace of the client is that of its memories.
    const own = new Client({ ...options, namespace: "ports" });
    const [old, by] = [await own.create({ label: "port 1" }), await own.create({ label: "port 2" })];
    assert.equal(old.namespace, "ports");
    assert.equal((await client.supersede(old.id, { by: by.id })).superseded_by, by.id);
  },

  async given_key_makes_a_write_happen_once(client) {
    const write = () => client.create({ label: "once", namespace: "once" }, { idempotencyKey: "key-of-the-test" });
    assert.equal((await write()).id, (await write()).id);
  },

  async environment_configures_the_client(_, { urls, apiKey, ca }) {
    const variables = { HEARTH_URL: `${urls[0]}/, ${urls[1]}`, HEARTH_API_KEY: apiKey, HEARTH_CA: ca };
    Object.assign(process.env, variables);
    try {
      assert.equal((await new Client().request("GET", "/auth/verify")).role, "admin");
    } finally {
      Object.keys(variables).forEach((name) => delete process.env[name]);
    }
    assert.throws(() => new Client(), /HEARTH_URL/);
    assert.throws(() => new Client({ urls }), /HEARTH_API_KEY/);
    assert.throws(() => new Client({ urls: "localhost:4200", apiKey }), /https/);
  },

  async unknown_authority_fails_at_once(_, { urls, apiKey }) {
    const client = new Client({ urls, apiKey });
    const started = performance.now();
    await assert.rejects(client.get("x"), { code: "no_response", message: /certificate/ });
    assert(performance.now() - started < 10_000);
  },
};

const REPETITIONS = {
  async lost_response_leads_to_one_memory(options) {
    const send = fetchWithAuthority(options.ca);
    const sent = [];
    const fetch = async (url, init) => {
      sent.push([url, init.headers.get("Idempotency-Key")]);
      const response = await send(url, init);
      if (sent.length === 1) throw new TypeError("fetch failed");
      return response;
    };
    const client = new Client({ ...options, fetch });
    const { id } = await client.create({ label: "written once", namespace: "lost" });
    assert.equal(sent.length, 2);
    assert.notEqual(new URL(sent[0][0]).port, new URL(sent[1][0]).port);
    assert.equal(sent[0][1], sent[1][1]);
    assert.deepEqual((await Array.fromAsync(client.list({ namespace: "lost" }))).map((it) => it.id), [id]);
  },

  async reads_on_other_nodes_return_own_writes(options) {
    const send = fetchWithAuthority(options.ca);
    let requests = 0;
    // Each request goes to another node than the one before it.
    const fetch = (url, init) => {
      const { pathname, search } = new URL(url);
      return send(`${options.urls[requests++ % 3]}${pathname}${search}`, init);
    };
    const client = new Client({ ...options, fetch });
    for (let number = 0; number < 20; number += 1) {
      const namespace = `own/${number}`;
      const { id } = await client.create({ label: `own write ${number}`, namespace });
      assert.deepEqual((await client.search({ query: "own write", namespace })).map((it) => it.id), [id]);
    }
  },

  async deletion_after_a_repeated_write_is_not_found(options) {
    const other = new Client(options);
    const send = fetchWithAuthority(options.ca);
    let requests = 0;
    const fetch = async (url, init) => {
      const response = await send(url, init);
      requests += 1;
      if (requests > 1) return response;
      await other.delete((await response.json()).id);
      throw new TypeError("fetch failed");
    };
    const error = await new Client({ ...options, fetch }).create({ label: "deleted at once" }).catch((it) => it);
    assert.deepEqual([requests, error.status, error.code], [2, 404, "not_found"]);
  },

  async rejected_request_moves_to_the_next_node() {
    const responses = [
      [503, { error: "no_leader" }], [504, { error: "outcome_unknown" }], [429, { error: "too_many_requests" }, ZERO],
      [502, "no JSON"], [201, { id: "1" }],
    ];
    const { client, sent } = scripted(responses);
    assert.deepEqual(await client.create({ label: "x" }), { id: "1" });
    assert.deepEqual(sent.map((it) => it.host), ["a", "b", "c", "a", "b"]);
    assert.equal(new Set(sent.map((it) => it.headers.get("Idempotency-Key"))).size, 1);
    await client.boost("1");
    assert.equal(sent.at(-1).host, "b");
    assert.notEqual(sent.at(-1).headers.get("Idempotency-Key"), sent[0].headers.get("Idempotency-Key"));
  },

  async reads_carry_the_highest_index() {
    const { client, sent } = scripted([
      [200, {}, { "X-Hearth-Index": "12" }], [200, {}, { "X-Hearth-Index": "7" }], [200, []],
    ]);
    await client.create({ label: "x" });
    await client.get("1");
    await client.search({ query: "x" });
    const header = (name) => sent.map((it) => it.headers.get(name));
    assert.deepEqual(header("X-Hearth-Min-Index"), [null, "12", "12"]);
    assert.deepEqual(header("Idempotency-Key").map((key) => key !== null), [true, false, false]);
  },

  async final_errors_are_not_repeated() {
    const errors = [
      [400, "invalid_field"], [401, "unauthorized"], [409, "locked"], [429, "too_many_streams"], [500, "internal"],
    ];
    for (const [status, error] of errors) {
      const { client, sent } = scripted([[status, { error }]]);
      await assert.rejects(client.delete("1"), { status, code: error });
      assert.equal(sent.length, 1);
    }
  },

  async retry_after_delays_the_repetition() {
    const { client, sent } = scripted([[429, { error: "rate_limited" }, { "Retry-After": "1" }], [200, {}]]);
    await client.get("1");
    assert(sent[1].at - sent[0].at >= 990);
  },

  async late_retry_after_ends_the_call() {
    const { client, sent } = scripted([[429, { error: "rate_limited" }, { "Retry-After": "52" }]]);
    await assert.rejects(client.get("1"), { status: 429, retryAfter: 52 });
    assert.equal(sent.length, 1);
  },

  async deadline_ends_the_repetitions() {
    const { client, sent } = scripted([[503, { error: "no_leader" }]]);
    const started = performance.now();
    await assert.rejects(client.get("1", {}, { timeoutMs: 400 }), { status: 503, code: "no_leader" });
    assert(performance.now() - started < 2_000);
    assert(sent.length > 1);
  },

  async write_without_outcome_may_be_done(options) {
    const responses = [[504, { error: "outcome_unknown" }], [503, { error: "no_leader" }]];
    const failed = { status: 503, mayBeDone: true };
    await assert.rejects(scripted(responses).client.delete("1", { timeoutMs: 400 }), failed);
    await assert.rejects(scripted(responses).client.get("1", {}, { timeoutMs: 400 }), { ...failed, mayBeDone: false });
    const closed = new Client({ ...options, urls: "https://127.0.0.1:1" });
    const unsent = { code: "no_response", message: /ECONNREFUSED/, mayBeDone: false };
    await assert.rejects(closed.delete("1", { timeoutMs: 400 }), unsent);
  },

  async page_of_a_proxy_is_a_bad_response() {
    await assert.rejects(scripted([[200, "<html>"]]).client.get("1"), { status: 200, code: "bad_response" });
    await assert.rejects(scripted([[403, "<html>"]]).client.get("1"), { status: 403, code: "bad_response" });
  },

  async hanging_node_gets_half_of_the_time() {
    const { client, sent } = scripted([null, [200, {}]]);
    await client.get("1", {}, { timeoutMs: 3_000 });
    assert.deepEqual(sent.map((it) => it.host), ["a", "b"]);
    assert(sent[1].at - sent[0].at < 2_500);
  },

  async signal_of_the_caller_ends_the_call() {
    const reason = new Error("the user left");
    for (const responses of [[null], [[503, { error: "busy" }, { "Retry-After": "10" }]]]) {
      const { client, sent } = scripted(responses);
      const controller = new AbortController();
      const call = client.get("1", {}, { signal: controller.signal });
      setTimeout(() => controller.abort(reason), 50);
      await assert.rejects(call, reason);
      await assert.rejects(client.get("1", {}, { signal: controller.signal }), reason);
      assert(sent.length <= 3);
    }
  },
};

const ZERO = { "Retry-After": "0" };

/** A client with nodes that respond by a list of `[status, body, headers]`. The last one repeats; null hangs. */
function scripted(responses) {
  const sent = [];
  const fetch = (url, { headers, signal }) => new Promise((resolve, reject) => {
    const [status, body, fields] = responses[Math.min(sent.length, responses.length - 1)] ?? [];
    sent.push({ host: new URL(url).hostname, headers, at: performance.now() });
    const text = typeof body === "string" ? body : JSON.stringify(body);
    if (status) resolve(new Response(text, { status, headers: fields }));
    else signal.addEventListener("abort", () => reject(signal.reason));
  });
  return { client: new Client({ urls: ["https://a", "https://b", "https://c"], apiKey: "sk-test", fetch }), sent };
}

/** Runs all tests. Returns how many there are. */
export async function testClient(options) {
  const client = new Client(options);
  const tests = [
    ...Object.entries(OPERATIONS).map(([name, test]) => [name, () => test(client, options)]),
    ...Object.entries(REPETITIONS).map(([name, test]) => [name, () => test(options)]),
  ];
  for (const [name, test] of tests) {
    try {
      await test();
    } catch (cause) {
      throw new Error(`${name} failed`, { cause });
    }
  }
  return tests.length;
}
