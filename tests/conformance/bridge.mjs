// The conformance suite sends no API key. This bridge on loopback adds it to each request for a node.
//
//   node bridge.mjs NODE_URL KEY     prints its own URL
import http from "node:http";

const [, , target, key] = process.argv;
const { hostname, port } = new URL(target);

const bridge = http.createServer((incoming, outgoing) => {
  const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
  const options = { hostname, port, method: incoming.method, path: incoming.url, headers };
  const request = http.request(options, (response) => {
    outgoing.writeHead(response.statusCode, response.headers);
    response.pipe(outgoing);
  });
  request.on("error", () => outgoing.destroy());
  incoming.pipe(request);
});
bridge.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${bridge.address().port}`));
