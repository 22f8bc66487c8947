//! Every bound of the public face by its name.

use std::time::Duration;

/// Largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Requests served at once; more are answered 503 at once.
pub const REQUESTS_MAX: usize = 2_048;
/// Reads that run at once, each on a thread of its own; more wait their turn.
pub(crate) const READS_MAX: usize = 4;
/// How long a request body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(10);
/// What is read and thrown away of a body that a refused request still sends, so
/// that its client gets to see the answer.
pub(crate) const DRAIN_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// How many requests at once are read to their end so.
pub(crate) const DRAINS_MAX: usize = 256;
/// And for how long.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(2);
/// Texts of a batch create that wait to be embedded at once: a large batch must
/// not fill the queue that everybody shares.
pub(crate) const BATCH_EMBED_AHEAD: usize = 4;
/// How long a request may wait for the cluster.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// How long a write's answer waits until this node can read it.
pub(crate) const APPLY_WAIT: Duration = Duration::from_secs(1);
/// Oldest knowledge that a local read answers from, unless the caller says otherwise.
pub(crate) const STALENESS_MAX: Duration = Duration::from_secs(10);
/// Largest page of a list, and most results of a search.
pub(crate) const PAGE_MAX: usize = 100;
/// Page size of a list when nobody says.
pub(crate) const PAGE_DEFAULT: usize = 25;
/// Longest `search` of a list, in bytes.
pub(crate) const LIST_WORDS_BYTES_MAX: usize = 4 << 10;
/// Results of a search when nobody says.
pub(crate) const SEARCH_DEFAULT: usize = 20;
/// Memories of a hot context when nobody says.
pub(crate) const HOT_CONTEXT_DEFAULT: usize = 10;
/// Memories of `hot_nodes` when nobody says.
pub(crate) const HOT_NODES_DEFAULT: usize = 20;
/// Neighbours when nobody says.
pub(crate) const NEIGHBOURS_DEFAULT: usize = 20;
/// Most hops from a memory to a neighbour.
pub(crate) const NEIGHBOUR_DEPTH_MAX: usize = 3;
/// Memories of the graph view when nobody says.
pub(crate) const GRAPH_DEFAULT: usize = 200;
/// And at most.
pub(crate) const GRAPH_MAX: usize = 1_000;
/// How long a bulk command goes on; what is left then is told.
pub(crate) const BULK_DEADLINE: Duration = Duration::from_secs(30);
/// Refusals that a bulk command tells one by one; further ones are counted.
pub(crate) const BULK_ERRORS_MAX: usize = 500;
/// What triggers said that one answer tells; further ones are in the history.
pub(crate) const NOTIFICATIONS_MAX: usize = 500;
/// Triggers of a page, unless fewer are asked for.
pub(crate) const TRIGGERS_PAGE: usize = 1_000;
/// Firings of a page of their history when nobody says.
pub(crate) const HISTORY_DEFAULT: usize = 50;
/// And at most.
pub(crate) const HISTORY_MAX: usize = 200;
/// Looks, of 10,000 firings each, that a page of few among many may take.
pub(crate) const HISTORY_LOOKS_MAX: usize = 10;
/// EventPage of a page of activity when nobody says.
pub(crate) const ACTIVITY_DEFAULT: usize = 50;
/// Longest text of something noted, in bytes.
pub(crate) const NOTE_BYTES_MAX: usize = 1 << 10;
/// Largest metadata of something noted, in bytes of JSON.
pub(crate) const NOTE_METADATA_BYTES_MAX: usize = 8 << 10;
/// Longest `Idempotency-Key`, in bytes.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest query of a search, in bytes.
pub(crate) const QUERY_BYTES_MAX: usize = 64 << 10;
/// Longest that an operator's wish takes: a state is hashed at 200 MB/s.
pub(crate) const OPERATION_DEADLINE: Duration = Duration::from_secs(60);
/// Event streams that a node sends at once; more are answered 503.
pub(crate) const STREAMS_MAX: usize = 256;
/// Reads of streams that run at once, beside [`READS_MAX`] others.
pub(crate) const STREAM_READS_MAX: usize = 2;
/// A stream that sent nothing for so long though something happened says how far it has come.
pub(crate) const STREAM_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(15);
/// EventPage that a stream reads ahead of its reader.
pub(crate) const STREAM_EVENTS: usize = 64;
/// How long a reader may not take what is sent before its stream ends.
pub(crate) const STREAM_SLOW_MAX: Duration = Duration::from_secs(30);
/// How long a stream waits for something new before it looks whether it should go on.
pub(crate) const STREAM_WAIT: Duration = Duration::from_millis(500);
/// Pause between two looks of a stream: what happens meanwhile is sent together.
pub(crate) const STREAM_LOOK_PAUSE: Duration = Duration::from_millis(20);
