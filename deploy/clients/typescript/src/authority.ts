// A `fetch` for Node.js that trusts the certificate authority of a file. The global `fetch` accepts no authority:
// it would need the package undici, or NODE_EXTRA_CA_CERTS, which Node.js reads only at its start.

import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import type { Fetch } from "./nodes.js";

/** A `fetch` that trusts the authorities of a PEM file, and no others. */
export function fetchWithAuthority(path: string): Fetch {
  const agent = new Agent({ ca: readFileSync(path), keepAlive: true });
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { agent, method, headers: Object.fromEntries(headers), signal };
      const sent = request(url, options, (message) => read(message).then(resolve, reject));
      sent.on("error", reject);
      sent.end(body);
    });
}

async function read(message: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  const headers = new Headers();
  for (const [name, values] of Object.entries(message.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  // A response with status 204 has no body, not even an empty one.
  return new Response(chunks.length > 0 ? Buffer.concat(chunks) : null, { status: message.statusCode, headers });
}
