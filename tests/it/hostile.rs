//! Attacks on a node. None stops it, and honest clients are served meanwhile.

mod attacker;
mod closed;
mod closed_reads;
mod cluster;
mod connections;
mod held_back;
mod memory;
mod one_key;
mod operator;
mod protocol;
mod random_requests;
mod receipts;
mod reload;
mod rights;
mod roles;
mod shares;
mod tenants;
mod time;
mod together;
mod triggers;
mod webhooks;
mod without_key;
mod words;

use super::*;
