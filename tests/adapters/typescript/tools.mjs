// Tests of the tools: models of the AI SDK call them in a loop, while the leader is killed.

import assert from "node:assert/strict";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Client } from "hearth-memory";
import { hearthTools } from "hearth-memory/ai-sdk";

const AGENTS = 4;
const FACTS = 15;
/** The call of the first agent at which the leader is killed. The calls of the other agents are in progress then. */
const KILL_AT = 12;

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

function turn(content, unified) {
  return { content: [content], finishReason: { unified, raw: undefined }, usage: USAGE, warnings: [] };
}

/** The calls of an agent. Each gets the result of the call before it, and returns the name and input of a tool. */
function* callsOf(agent, facts) {
  for (let number = 0; number < FACTS; number += 1) {
    const text = `agent ${agent} has fact ${number}`;
    const { id } = yield ["remember", { text, memory_type: "fact" }];
    facts.set(id, text);
    const { memories } = yield ["recall", { query: text }];
    assert(memories.some((memory) => memory.id === id && memory.text === text), `${text} is not found`);
    if (number % 3 === 1) {
      yield ["correct", { id, text: `${text}, corrected` }];
      facts.set(id, `${text}, corrected`);
    }
    if (number % 3 === 2) {
      yield ["forget", { id }];
      facts.delete(id);
    }
  }
}

/** A model that makes these calls. */
function modelOf(calls, onCall) {
  let made = 0;
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const part = prompt.at(-1).role === "tool" ? prompt.at(-1).content.at(-1) : undefined;
      assert(part === undefined || part.output.type === "json", `a tool failed: ${JSON.stringify(part)}`);
      const { value, done } = calls.next(part?.output.value);
      if (done) return turn({ type: "text", text: "done" }, "stop");
      made += 1;
      onCall(made);
      const [toolName, input] = value;
      const call = { type: "tool-call", toolCallId: `call-${made}`, toolName, input: JSON.stringify(input) };
      return turn(call, "tool-calls");
    },
  });
}

async function listAll(client) {
  const memories = await Array.fromAsync(client.list({ namespace_prefix: "tools" }));
  return memories.map(({ id, label }) => [id, label]).sort();
}

/** The first URL is that of the leader. Returns how many calls of tools were made. */
export async function testTools(options, killLeader) {
  const facts = new Map();
  let isKilled = false;
  const runs = Array.from({ length: AGENTS }, async (_, agent) => {
    const onCall = (made) => {
      if (agent !== 0 || made !== KILL_AT) return;
      killLeader();
      isKilled = true;
    };
    const tools = hearthTools(new Client(options), { namespace: `tools/${agent}`, limit: 20 });
    const { text, steps } = await generateText({
      model: modelOf(callsOf(agent, facts), onCall), tools, stopWhen: isStepCount(1000), prompt: "Begin.",
    });
    assert.equal(text, "done");
    const parts = steps.flatMap((step) => step.content);
    assert.deepEqual(parts.filter((part) => part.type === "tool-error"), []);
    return parts.filter((part) => part.type === "tool-result").length;
  });
  const calls = (await Promise.all(runs)).reduce((sum, count) => sum + count);
  assert(isKilled);
  for (const url of options.urls.slice(1)) {
    const client = new Client({ ...options, urls: [url], headers: { "X-Hearth-Consistency": "linearizable" } });
    assert.deepEqual(await listAll(client), [...facts].sort());
  }
  return calls;
}
