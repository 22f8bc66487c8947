// Stores a memory, finds it and changes it.
//
//   HEARTH_URL=https://127.0.0.1:4200 HEARTH_CA=ca.pem HEARTH_API_KEY=sk-… node examples/first.ts

import { Client, HearthError } from "hearth-memory";

const client = new Client();
const { id } = await client.create({ label: "The user prefers metric units.", memory_type: "preference" });

for (const { label, score } of await client.search({ query: "which units does the user prefer?", limit: 3 })) {
  console.log(score.toFixed(2), label);
}

// Of two programs that change it at the same time, one gets an error.
const { etag } = await client.get(id);
await client.update(id, { is_pinned: true }, { etag });
try {
  await client.update(id, { label: "The user prefers miles." }, { etag });
} catch (error) {
  if (!(error instanceof HearthError)) throw error;
  console.log(error.code);
}
