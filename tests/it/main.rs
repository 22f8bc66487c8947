//! Promises to users, one file each, tested on real processes of the real binary.

mod access;
mod alerts;
mod audit;
mod backup_buckets;
mod backup_place;
mod backup_schedule;
mod backups;
mod bad_fields;
mod bad_input;
mod build;
mod bulk;
mod check;
mod clients;
mod cluster;
mod cold_tier;
mod command_line;
mod consistency;
mod consolidation;
mod corruption;
mod damaged_files;
mod dashboard;
mod deliveries;
mod details;
mod dev;
mod drill;
mod duplicates;
mod durability;
mod echoes;
mod embedder;
mod events;
mod failover;
mod faults;
mod feedback;
mod first_hour;
mod full_disk;
mod fuzz;
mod graph;
mod group_commit;
mod growth;
mod hostile;
mod hygiene;
mod idempotency;
mod idle_tenants;
mod isolation;
mod journal_limits;
mod keys;
mod knowledge_graph;
mod leader_watch;
mod log_shipping;
mod mcp;
mod membership;
mod memories;
mod model_change;
mod openapi;
mod origin;
mod outgoing;
mod partitions;
mod peer_port;
mod published;
mod purge;
mod rate_limits;
mod recall;
mod recover;
mod retention;
mod search;
mod settings;
mod slow_disk;
mod snapshots;
mod starts;
mod stream_limits;
mod supersede;
mod tenant;
mod tenants;
mod tidy;
mod timers;
mod transfer;
mod triggers;
mod upgrade;
mod webhooks;

use tests::*;

const BINARY: &str = env!("CARGO_BIN_EXE_hearth-under-test");

fn options() -> Options {
    Options::new(BINARY)
}
