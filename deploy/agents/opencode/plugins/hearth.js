// Gives opencode a memory: a prompt recalls what is known, and turns are captured. Each hook runs `hearth hook`,
// which ends in time and never fails.

import { spawn } from "node:child_process";

const [PROGRAM, ...OPTIONS] = ["hearth"];

/** What the model reads, of what a hook prints; undefined if that is nothing. */
function contextOf(output) {
  try {
    return JSON.parse(output).hookSpecificOutput?.additionalContext;
  } catch {
    return undefined;
  }
}

/** Runs a hook. Without the program, there is no context. */
function hook(event, input) {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["hook", event, ...OPTIONS], { stdio: ["pipe", "pipe", "ignore"] });
    let output = "";
    child.on("error", () => resolve(undefined));
    child.on("close", () => resolve(contextOf(output)));
    child.stdout.on("data", (bytes) => (output += bytes));
    // The program may have ended before it read all.
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(input));
  });
}

/** The texts of a message that a person or the model wrote. */
function textOf(parts) {
  const texts = parts.filter((part) => part.type === "text" && !part.synthetic);
  return texts.map((part) => part.text).join("\n");
}

export const Hearth = async ({ client, directory }) => {
  // Sessions whose model has what is pinned and hot.
  const begun = new Set();
  const inputOf = (session, rest) => ({ session_id: session, cwd: directory, ...rest });

  async function endTurn(session) {
    const messages = await client.session.messages({ path: { id: session } });
    const last = messages.data?.findLast((message) => message.info.role === "assistant");
    const text = last && textOf(last.parts);
    if (text) await hook("stop", inputOf(session, { last_assistant_message: text }));
  }

  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const prompt = textOf(parts);
      if (!prompt) return;
      const hooks = [hook("prompt", inputOf(sessionID, { prompt }))];
      if (!begun.has(sessionID)) hooks.unshift(hook("session-start", inputOf(sessionID)));
      begun.add(sessionID);
      const text = (await Promise.all(hooks)).filter(Boolean).join("\n\n");
      if (!text) return;
      // Parts are in the order of their ids.
      const id = `${parts.at(-1).id}h`;
      parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true });
    },
    event: async ({ event }) => {
      const { sessionID, part } = event.properties;
      if (event.type === "session.idle") await endTurn(sessionID);
      if (event.type === "session.compacted") begun.delete(sessionID);
      if (event.type === "message.part.updated" && part.state?.status === "error") {
        const failure = { tool_name: part.tool, tool_response: { error: part.state.error } };
        await hook("tool", inputOf(part.sessionID, failure));
      }
    },
  };
};
