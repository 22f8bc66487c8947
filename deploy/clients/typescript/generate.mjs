// Writes src/types.ts: the types of the operations that the client offers, from docs/openapi.json. With --check, it
// writes nothing, and fails if the file differs.

import { readFileSync, writeFileSync } from "node:fs";

const OPERATIONS = [
  "create_memory", "create_memories", "get_memory", "update_memory", "delete_memory", "list_memories",
  "list_versions", "search_memories", "get_hot_context", "load_context", "give_memory_feedback", "boost_memory",
  "supersede_memory",
];
/** The interfaces of queries. */
const QUERIES = { get_memory: "GetQuery", list_memories: "ListQuery" };
/** Parameters that the iterator over all pages sets itself. */
const PAGING = ["page", "cursor"];
const WIDTH = 120;

const api = JSON.parse(readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8"));
const operations = Object.values(api.paths).flatMap((path) => Object.values(path));
const schemas = api.components.schemas;

/** The name in TypeScript. `Error` is a global class. */
const nameOf = (name) => (name === "Error" ? "ErrorBody" : name.replaceAll("_", ""));
const referenced = (schema) => schema.$ref.split("/").at(-1);
/** Whether a schema needs no name, such as a text or a number. */
const isPlain = ({ type, enum: values }) => typeof type === "string" && type !== "object" && !values;

/** Joins the parts of a union or an intersection: on one line if they fit. */
function join(parts, operator, indent) {
  const line = parts.join(` ${operator} `);
  if (line.length < WIDTH - 30 || line.includes("\n")) return line;
  return parts.map((part) => `\n${indent}  ${operator} ${part}`).join("");
}

function typeOf(schema, indent) {
  const nested = (part) => (part.oneOf || part.enum ? `(${typeOf(part, indent)})` : typeOf(part, indent));
  if (schema.$ref) {
    const target = schemas[referenced(schema)];
    return isPlain(target) ? typeOf(target, indent) : nameOf(referenced(schema));
  }
  if (schema.enum) return join(schema.enum.map((value) => JSON.stringify(value)), "|", indent);
  if (schema.oneOf) return join(schema.oneOf.map((part) => typeOf(part, indent)), "|", indent);
  if (schema.allOf) return join(schema.allOf.map(nested), "&", indent);
  if (Array.isArray(schema.type)) {
    return join(schema.type.map((type) => typeOf({ ...schema, type }, indent)), "|", indent);
  }
  if (schema.type === "array") return `${nested(schema.items)}[]`;
  if (schema.type === "object") return schema.properties ? fields(schema, indent) : "Record<string, unknown>";
  return schema.type === "integer" ? "number" : schema.type;
}

/** A comment, in lines that fit. The description of an optional field is that of its first alternative. */
function comment(schema, indent) {
  const text = schema.description ?? schema.oneOf?.[0].description;
  if (!text) return "";
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (`${indent} * ${lines.at(-1)} ${word} */`.length > WIDTH) lines.push("");
    lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}

function fields({ properties, required = [] }, indent) {
  const field = ([name, schema]) => {
    const mark = required.includes(name) ? "" : "?";
    return `${comment(schema, `${indent}  `)}${indent}  ${name}${mark}: ${typeOf(schema, `${indent}  `)};\n`;
  };
  const all = Object.entries(properties).map(field);
  const line = `{ ${all.map((text) => text.trim().replace(/;$/, "")).join("; ")} }`;
  const isLong = line.length > WIDTH - 30 || line.includes("\n") || line.includes("/**");
  return isLong ? `{\n${all.join("")}${indent}}` : line;
}

function declaration(name, schema) {
  const text = typeOf(schema, "");
  const head = schema.properties ? `interface ${name} ${text}` : `type ${name} = ${text};`;
  return `${comment(schema, "")}export ${head}\n`;
}

/** Adds the names of all schemas that a part of the document refers to. */
function collect(part, names) {
  if (typeof part !== "object" || part === null) return;
  if (part.$ref && !names.has(referenced(part))) {
    names.add(referenced(part));
    collect(schemas[referenced(part)], names);
  }
  Object.values(part).forEach((inner) => collect(inner, names));
}

const names = new Set(["Error"]);
const declarations = [];
for (const id of OPERATIONS) {
  const { parameters = [], requestBody, responses } = operations.find((it) => it.operationId === id);
  const success = Object.keys(responses).filter((status) => status.startsWith("2"));
  const query = parameters.filter((it) => it.in === "query" && !PAGING.includes(it.name));
  [requestBody, ...success.map((status) => responses[status].content)].forEach((part) => collect(part, names));
  if (!QUERIES[id]) continue;
  collect(query, names);
  const fields = query.map(({ name, description, schema }) => [name, { description, ...schema }]);
  const description = `The query of \`${id}\`.`;
  declarations.push(declaration(QUERIES[id], { description, type: "object", properties: Object.fromEntries(fields) }));
}
const named = [...names].filter((name) => !isPlain(schemas[name])).sort();
declarations.push(...named.map((name) => declaration(nameOf(name), schemas[name])));

const output = new URL("src/types.ts", import.meta.url);
const text = `// The types of the operations that the client offers. generate.mjs writes them from docs/openapi.json.

/** Version of the interface. */
export const VERSION = ${JSON.stringify(api.info.version)};

${declarations.join("\n")}`;

if (!process.argv.includes("--check")) {
  writeFileSync(output, text);
} else if (readFileSync(output, "utf8") !== text) {
  throw new Error("src/types.ts is old: run node generate.mjs");
}
