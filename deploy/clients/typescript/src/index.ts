// A client of Hearth.

export { Client } from "./client.js";
export type { ConditionalOptions, CreateOptions, DeleteOptions, ListFields, Tagged, WriteOptions, WrittenMemory } from "./client.js";
export { HearthError } from "./error.js";
export type { CallOptions, ClientOptions, Fetch, FetchInit, Parts } from "./nodes.js";
export type * from "./types.js";
