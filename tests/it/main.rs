//! Promises to users, one file each, kept by real processes of the real binary.

mod access;
mod bad_fields;
mod bad_input;
mod bulk;
mod clients;
mod cluster;
mod cold;
mod consistency;
mod damage;
mod deliveries;
mod dev;
mod document;
mod durability;
mod embedder;
mod events;
mod failover;
mod feedback;
mod graph;
mod group_commit;
mod idempotency;
mod memories;
mod openapi;
mod partitions;
mod peers;
mod recall;
mod search;
mod settings;
mod snapshots;
mod streams;
mod tenant;
mod tidy;
mod triggers;
mod webhooks;

use tests::Options;

fn options() -> Options {
    Options::new(env!("CARGO_BIN_EXE_hearth-under-test"))
}
