//! All records of the engine: each stored or sent type with its format and its name.

/// Implements `Record` for types: each with its format and its name.
#[macro_export]
macro_rules! records {
    (const $all:ident; $($record:ty: $format:literal, $name:literal;)*) => {
        $crate::records! { $($record: $format, $name;)* }

        /// A round trip of each record, for arbitrary bytes.
        #[cfg(feature = "fuzzing")]
        pub(crate) const $all: &[fn(&[u8])] =
            &[$(|bytes| { $crate::codec::round_trip::<$record>(bytes); }),*];
    };
    ($($record:ty: $format:literal, $name:literal;)*) => {$(
        impl $crate::codec::Record for $record {
            const FORMAT: u8 = $format;
            const NAME: &'static str = $name;
        }
    )*};
}

records! {
    const ROUND_TRIPS;
    crate::change::Batch: 1, "batch";
    crate::command::Command: 1, "command";
    crate::reply::Accepted: 1, "accepted command";
    crate::reply::Reply: 1, "reply";
    model::access::Rules: 1, "access rules";
    model::audit::AuditEntry: 1, "audit entry";
    model::audit::AuditEnds: 1, "ends of an audit chain";
    model::audit::KeyUses: 1, "uses of an API key";
    model::analytics::RecallStats: 1, "recall statistics";
    model::analytics::Usage: 1, "usage";
    model::analytics::LastReports: 1, "last report";
    model::cluster::Cluster: 1, "cluster";
    model::cluster::Position: 1, "position";
    model::trigger::Delivery: 1, "delivery";
    model::trigger::Outbox: 1, "outbox";
    model::edge::Edge: 1, "edge";
    model::heat::Anchor: 1, "anchor";
    model::id::Timestamp: 1, "time";
    model::journal::Cursor: 1, "cursor";
    model::journal::Event: 1, "journal event";
    model::tenant::Tenancy: 1, "tenancy";
    model::cluster::Models: 1, "models";
    model::memory::Memory: 1, "memory";
    model::memory::MemoryState: 1, "state of a memory";
    model::versions::Versions: 1, "past texts of a memory";
    model::tombstone::Tombstones: 1, "tombstones";
    model::receipt::Receipt: 1, "receipt";
    model::tenant::Tenant: 1, "tenant";
    model::api_key::ApiKey: 1, "API key";
    model::tick::Tick: 1, "tick";
    model::trigger::Trigger: 1, "trigger";
    model::trigger::Firings: 1, "firings";
    model::vector::Vector: 1, "vector";
}
