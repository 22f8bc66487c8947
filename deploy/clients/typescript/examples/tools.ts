// A model of the AI SDK with the tools of Hearth. This one always stores a fact: put a real model in its place.
//
//   HEARTH_URL=https://127.0.0.1:4200 HEARTH_CA=ca.pem HEARTH_API_KEY=sk-… node examples/tools.ts

import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Client } from "hearth-memory";
import { hearthTools } from "hearth-memory/ai-sdk";

const input = JSON.stringify({ text: "The user's train leaves at nine.", memory_type: "moment" });
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const common = { usage, warnings: [] };
const model = new MockLanguageModelV4({
  doGenerate: [
    {
      content: [{ type: "tool-call", toolCallId: "1", toolName: "remember", input }],
      finishReason: { unified: "tool-calls", raw: undefined }, ...common,
    },
    { content: [{ type: "text", text: "Noted." }], finishReason: { unified: "stop", raw: undefined }, ...common },
  ],
});

const { text } = await generateText({
  model,
  tools: hearthTools(new Client(), { namespace: "assistant" }),
  stopWhen: isStepCount(10),
  prompt: "My train leaves at nine tomorrow.",
});
console.log(text);
