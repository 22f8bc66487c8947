//! Every limit of the public interface by its name.

use std::num::NonZero;
use std::time::Duration;

/// Largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Largest body that contains JSON of any form, in bytes.
pub(crate) const FREE_FORM_BYTES_MAX: usize = 64 << 10;
/// Largest request of MCP. Its parser takes several times as much; the longest label fits.
pub(crate) const MCP_BYTES_MAX: usize = 256 << 10;
/// Turns of which facts are to be extracted: all that wait, and those at the extractor at once. A tenant has half of
/// each, and a key extracts one at a time.
pub(crate) const EXTRACTIONS_MAX: usize = 256;
pub(crate) const EXTRACTIONS_AT_ONCE: usize = 4;
/// For how long a turn waits for the extractor.
pub(crate) const EXTRACTION_WAIT: Duration = Duration::from_secs(600);
/// Turns whose prompts a node keeps for the extractor, and the longest of them.
pub(crate) const OPEN_TURNS_MAX: u64 = 4_096;
pub(crate) const TURN_TIME_MAX: Duration = Duration::from_secs(3_600);
/// Facts of a turn, the longest one in bytes, and known facts that the extractor reads with it.
pub(crate) const EXTRACTED_MAX: usize = 10;
pub(crate) const EXTRACTED_BYTES_MAX: usize = 1 << 10;
pub(crate) const KNOWN_FACTS: usize = 10;
/// Tenants whose compiled rules of the guard a node keeps.
pub(crate) const COMPILED_GUARDS_MAX: u64 = 64;
/// Memories that tools of MCP return by default: of a search, and of a page.
pub(crate) const TOOL_RESULTS_DEFAULT: usize = 10;
pub(crate) const TOOL_PAGE_DEFAULT: usize = 20;
/// Tokens of the context that a tool assembles: by default, and at most.
pub(crate) const CONTEXT_TOKENS_DEFAULT: usize = 2_000;
pub(crate) const CONTEXT_TOKENS_MAX: usize = 32_000;
/// Tokens that a hook of a coding agent returns by default, and the longest text that it sends.
pub(crate) const HOOK_TOKENS_DEFAULT: usize = 1_000;
pub(crate) const HOOK_TEXT_BYTES_MAX: usize = 1 << 20;
/// Time limit of a request of MCP.
pub(crate) const MCP_DEADLINE: Duration = Duration::from_secs(30);
/// Time between two reports that a request of MCP goes on.
pub(crate) const MCP_PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Resources that a client of MCP follows in one subscription.
pub(crate) const MCP_SUBSCRIPTIONS_MAX: usize = 64;
/// Most authenticated requests served at once; further ones get 503 immediately. Of this and of the
/// other budgets a tenant has half and a key a quarter; more than that gets 429.
pub const REQUESTS_MAX: usize = 2_048;
/// Most bytes of the bodies of requests in progress; further requests get 503.
pub(crate) const BODIES_BYTES_MAX: usize = 128 << 20;
/// Most bytes of responses that are not sent yet; further requests get 503.
pub(crate) const RESPONSES_BYTES_MAX: usize = 192 << 20;
/// Bytes that a response occupies beside its body.
pub(crate) const RESPONSE_OVERHEAD_BYTES: usize = 4 << 10;
/// Largest response whose bytes are counted only when it is built.
pub(crate) const SMALL_RESPONSE_BYTES_MAX: usize = 256 << 10;
/// Least number of reads that may run at once; see [`reads_max`].
const READS_MIN: usize = 6;
/// Reads per processor that may run at once.
const READS_PER_PROCESSOR: usize = 3;
/// How long a read may wait for others.
pub(crate) const READ_WAIT: Duration = Duration::from_secs(2);
/// Texts per thread of the embedder that are embedded or queued at once. A tenant has three quarters
/// of them, and a key three quarters of those; further ones wait.
pub(crate) const EMBEDS_PER_THREAD: usize = 6;
/// How long a text may wait for others.
pub(crate) const EMBED_WAIT: Duration = Duration::from_secs(5);
/// Large writes of a key that a node prepares and submits at once. Others of the key wait: they
/// would delay the writes of other keys, and be hardly faster.
pub(crate) const KEY_LARGE_WRITES_MAX: usize = 1;
/// Large writes that a node prepares and submits at once, half of them of one tenant.
pub(crate) const LARGE_WRITES_MAX: usize = 8;
/// How long a large write waits for its turn: longer than a batch of long texts takes to embed.
pub(crate) const LARGE_WRITE_WAIT: Duration = Duration::from_secs(30);
/// Memories above which a write is large.
pub(crate) const SMALL_WRITE_MEMORIES_MAX: usize = 4;
/// Bytes of text above which a write is large.
pub(crate) const SMALL_WRITE_BYTES_MAX: usize = 16 << 10;
/// Writes of one tenant, and of one key of it, that a node has in work at once while several tenants
/// use it. Others wait at most [`TURN_WAIT`].
pub(crate) const TENANT_TURNS_MAX: usize = 8;
/// See [`TENANT_TURNS_MAX`].
pub(crate) const KEY_TURNS_MAX: usize = 6;
/// See [`TENANT_TURNS_MAX`]. A part of [`DEADLINE`], so that a write has time left for itself.
pub(crate) const TURN_WAIT: Duration = Duration::from_secs(5);
/// How long a request body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(10);
/// Most bytes that are read and discarded of the body of a rejected request, so that its client
/// receives the response.
pub(crate) const DRAIN_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// Most requests whose bodies are discarded at once.
pub(crate) const DRAINS_MAX: usize = 256;
/// How long a body is discarded.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Most texts of one batch create in the embedding queue: a large batch must not fill the queue
/// that all requests share.
pub(crate) const BATCH_EMBED_AHEAD: usize = 4;
/// Results that a reranker orders anew.
pub(crate) const RERANKED: usize = 20;
/// Bytes of each text that it reads.
pub(crate) const RERANKED_BYTES_MAX: usize = 4 << 10;
/// How long a request may wait for the cluster.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// How long the response to a write waits until this node reflects it.
pub(crate) const APPLY_WAIT: Duration = Duration::from_secs(1);
/// Default staleness bound of local reads.
pub(crate) const STALENESS_MAX: Duration = Duration::from_secs(10);
/// Largest page of a list, and most results of a search.
pub(crate) const PAGE_MAX: usize = 100;
/// Default page size of a list.
pub(crate) const PAGE_DEFAULT: usize = 25;
/// Longest `search` of a list, in bytes.
pub(crate) const LIST_WORDS_BYTES_MAX: usize = 4 << 10;
/// Default number of search results.
pub(crate) const SEARCH_DEFAULT: usize = 20;
/// Lowest score without heat of a result that counts as recalled: lower ones do not answer.
pub(crate) const RECALLED_SCORE_MIN: f64 = 0.1;
/// Default size of a hot context, in memories.
pub(crate) const HOT_CONTEXT_DEFAULT: usize = 10;
/// Default number of memories of `hot_nodes`.
pub(crate) const HOT_NODES_DEFAULT: usize = 20;
/// Default of `limit` for groups of memories that can be folded.
pub(crate) const CANDIDATES_DEFAULT: usize = 20;
/// Default and largest number of examples of a defect.
pub(crate) const EXAMPLES_DEFAULT: usize = 5;
pub(crate) const EXAMPLES_MAX: usize = 1_000;
/// Default number of neighbours.
pub(crate) const NEIGHBOURS_DEFAULT: usize = 20;
/// Most hops from a memory to a neighbour.
pub(crate) const NEIGHBOUR_DEPTH_MAX: usize = 3;
/// Default number of memories of the graph view.
pub(crate) const GRAPH_DEFAULT: usize = 200;
/// Most memories of the graph view.
pub(crate) const GRAPH_MAX: usize = 1_000;
/// How long a bulk write takes at most; the rest is reported as remaining.
pub(crate) const BULK_DEADLINE: Duration = Duration::from_secs(30);
/// Most rejections that a bulk write lists; further ones are counted.
pub(crate) const BULK_ERRORS_MAX: usize = 500;
/// Most notifications of one response; all are in the trigger history.
pub(crate) const NOTIFICATIONS_MAX: usize = 500;
/// Most bytes of their texts.
pub(crate) const NOTIFICATIONS_BYTES_MAX: usize = 64 << 10;
/// Default and largest page of triggers.
pub(crate) const TRIGGERS_PAGE: usize = 1_000;
/// Default page of the trigger history.
pub(crate) const HISTORY_DEFAULT: usize = 50;
/// Most entries of a page of the trigger history.
pub(crate) const HISTORY_MAX: usize = 200;
/// Most reads, of 10,000 entries each, that one page of the trigger history takes.
pub(crate) const HISTORY_PAGES_MAX: usize = 10;
/// Default page of activity.
pub(crate) const ACTIVITY_DEFAULT: usize = 50;
/// Most keys of a page, and the default: a key with all its namespaces is long.
pub(crate) const KEYS_PAGE_MAX: usize = 100;
/// Longest text of an activity that an agent records, in bytes.
pub(crate) const ACTIVITY_BYTES_MAX: usize = 1 << 10;
/// Largest metadata of such an activity, in bytes of JSON.
pub(crate) const ACTIVITY_METADATA_BYTES_MAX: usize = 8 << 10;
/// Longest `Idempotency-Key`, in bytes.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest query of a search, in bytes.
pub(crate) const QUERY_BYTES_MAX: usize = 64 << 10;
/// Longest time of an operator request: a state is hashed at 200 MB/s.
pub(crate) const OPERATION_DEADLINE: Duration = Duration::from_secs(60);
/// Most event streams per node; further ones get 503. A tenant may have a lower limit of its own.
pub(crate) const STREAMS_MAX: usize = 256;
/// Most reads of event streams that run at once, beside [`reads_max`] others.
pub(crate) const STREAM_READS_MAX: usize = 3;
/// Interval at which a stream without matching events sends a checkpoint.
pub(crate) const STREAM_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(15);
/// Events that a stream reads ahead of its reader.
pub(crate) const STREAM_EVENTS: usize = 64;
/// Most streams that read events of the past at once, half of them of one tenant.
pub(crate) const REPLAYS_MAX: usize = 4;
/// Pause after each read of events of the past, while the other streams of the key wait. So the
/// streams of one key replay 6,400 events per second at most.
pub(crate) const REPLAY_PAUSE: Duration = Duration::from_millis(10);
/// How long a client may leave a stream unread before it ends.
pub(crate) const STREAM_SLOW_MAX: Duration = Duration::from_secs(30);
/// How long a stream waits for a new entry before it checks whether to end.
pub(crate) const STREAM_WAIT: Duration = Duration::from_millis(500);
/// Pause between two reads of a stream: events in between are sent together.
pub(crate) const STREAM_READ_PAUSE: Duration = Duration::from_millis(20);
/// Longest list of event kinds of a stream, in bytes.
pub(crate) const EVENT_KINDS_BYTES_MAX: usize = 256;
/// Longest host name with its port, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 512;
/// Bytes of the place of a backup.
pub(crate) const BACKUP_URL_BYTES_MAX: usize = 2_048;
/// Longest cooldown of a trigger: a year, in seconds.
pub(crate) const COOLDOWN_SECONDS_MAX: u64 = 31_536_000;
/// Shortest secret of a webhook, in bytes.
pub(crate) const SECRET_BYTES_MIN: usize = 8;
/// Longest secret of a webhook, in bytes.
pub(crate) const SECRET_BYTES_MAX: usize = 256;
/// Days ahead of a settings forecast.
pub(crate) const FORECAST_DAYS: [u32; 5] = [0, 1, 7, 30, 90];

/// Most reads that run at once, each on its own thread. A tenant has three quarters of them, and a
/// key three quarters of those; further ones wait. Some of them wait for the disk, so there are more
/// than processors.
pub(crate) fn reads_max() -> usize {
    (READS_PER_PROCESSOR * processors()).max(READS_MIN)
}

/// Most reads of a tenant that run at once while several tenants use the node. What they find is
/// rendered, and writes are decided, on the other processors.
pub(crate) fn tenant_reads_max() -> usize {
    (processors() / 2).max(1)
}

/// Most of [`tenant_reads_max`] for one key.
pub(crate) fn key_reads_max() -> usize {
    (processors() / 4).max(1)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
/// Memories that are read at once, where all that match are returned.
pub(crate) const ALL_PAGE: usize = 500;
/// Most memories of such a response.
pub(crate) const ALL_MAX: usize = 20_000;
/// Exports that a node reads at once: half of them for a tenant, a quarter for a key.
pub(crate) const EXPORTS_MAX: usize = 8;
/// Longest time of an export. RocksDB keeps the state of its moment meanwhile.
pub(crate) const EXPORT_TIME_MAX: Duration = Duration::from_secs(3_600);
/// Bytes of an export that are sent at once.
pub(crate) const EXPORT_CHUNK_BYTES: usize = 64 << 10;
/// Most lines of an import: their texts are embedded before the response.
pub(crate) const IMPORT_LINES_MAX: usize = 1_000;
