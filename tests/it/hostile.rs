//! Attacks on a node. None stops it, and honest clients are served meanwhile.

mod attacker;
mod connections;
mod memory;
mod operator;
mod reload;
mod shares;
mod time;
mod words;

use super::*;
