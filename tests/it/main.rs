//! Promises to users, one file each, kept by real processes of the real binary.

mod bad_input;
mod cluster;
mod consistency;
mod damage;
mod dev;
mod durability;
mod embedder;
mod failover;
mod group_commit;
mod house;
mod idempotency;
mod memories;
mod partitions;
mod peers;
mod search;
mod snapshots;

use tests::Options;

fn options() -> Options {
    Options::new(env!("CARGO_BIN_EXE_hearth-under-test"))
}
