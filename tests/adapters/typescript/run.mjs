// The TypeScript client and its tools for the AI SDK, on three nodes. The package is compiled in a temporary folder,
// beside the tests: they import it by its name, as programs do.
//
//   run.mjs CACHE BINARY

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [CACHE, BINARY] = process.argv.slice(2);
const MODULES = resolve(CACHE, "adapters-typescript/node_modules");
const HERE = import.meta.dirname;
const CLIENT = resolve(HERE, "../../../deploy/clients/typescript");

/** Runs a program of Node.js. Its output is shown if it fails. */
function node(folder, args, environment = {}) {
  const options = { cwd: folder, env: { ...process.env, ...environment }, encoding: "utf8" };
  try {
    return execFileSync(process.execPath, args, options);
  } catch (error) {
    throw new Error(`node ${args.join(" ")} failed:\n${error.stdout}${error.stderr}`);
  }
}

function manifest(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** Compiles the package and checks the types of its examples. */
function build(folder) {
  node(CLIENT, ["generate.mjs", "--check"]);
  const { version, devDependencies } = manifest(CLIENT);
  const { dependencies } = manifest(HERE);
  for (const [name, wanted] of Object.entries(devDependencies)) {
    if (dependencies[name] !== wanted) throw new Error(`package.json of the client and of its test differ in ${name}`);
  }
  mkdirSync(folder);
  for (const name of ["package.json", "tsconfig.json", "src", "examples"]) {
    cpSync(join(CLIENT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(MODULES, join(folder, "node_modules"));
  const compiler = join(MODULES, "typescript/bin/tsc");
  node(folder, [compiler]);
  node(folder, [compiler, "--project", "examples"]);
  console.log(`adapters: hearth-memory ${version} compiles with typescript ${dependencies.typescript}`);
  return { client: version, ai: dependencies.ai };
}

/** Three nodes in processes of one command. */
async function startCluster(folder) {
  const options = ["dev", "--json", "--nodes", "3", "--base-port", "0", "--embedder", "hashing", "--data", folder];
  const child = spawn(BINARY, options, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) return { child, ...JSON.parse(line) };
  throw new Error("hearth dev printed nothing");
}

async function main(work) {
  const folder = join(work, "package");
  const versions = build(folder);
  const tests = join(folder, "tests");
  for (const name of ["client.mjs", "tools.mjs"]) cpSync(join(HERE, name), join(tests, name));
  const load = (name) => import(pathToFileURL(join(tests, name)).href);

  const { child, nodes, leader, key, ca } = await startCluster(join(work, "cluster"));
  try {
    // Clients use the first URL as long as it responds.
    const [first, ...others] = nodes.toSorted((one, other) => (other.id === leader) - (one.id === leader));
    const options = { urls: [first, ...others].map((it) => it.url), apiKey: key, ca };
    const { testClient } = await load("client.mjs");
    console.log(`adapters: hearth-memory ${versions.client}: ${await testClient(options)} checks`);
    const { testTools } = await load("tools.mjs");
    const calls = await testTools(options, () => process.kill(first.pid, "SIGKILL"));
    console.log(`adapters: ai ${versions.ai}: ${calls} calls of tools, the leader killed, none failed or done twice`);
    const environment = { HEARTH_URL: options.urls.join(","), HEARTH_API_KEY: key };
    // The second one uses the global `fetch`.
    for (const [name, trust, expected] of [
      ["first.ts", { HEARTH_CA: ca }, "condition_failed"], ["tools.ts", { NODE_EXTRA_CA_CERTS: ca }, "Noted."],
    ]) {
      const output = node(folder, [join("examples", name)], { ...environment, ...trust });
      if (!output.includes(expected)) throw new Error(`examples/${name} printed:\n${output}`);
      console.log(`adapters: examples/${name} of hearth-memory ${versions.client}`);
    }
  } finally {
    child.kill();
    await once(child, "exit");
  }
}

const work = mkdtempSync(join(tmpdir(), "hearth-typescript-"));
try {
  await main(work);
  console.log("adapters: typescript passed");
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
