//! Domain types and pure functions: memories, heat and decay, scores, words, triggers.
//! Nothing here reads a disk, a clock or the network.

pub mod access;
pub mod analytics;
mod calendar;
pub mod caller;
pub mod cluster;
pub mod decay;
pub mod delivery;
pub mod edge;
pub mod feedback;
pub mod heat;
pub mod id;
pub mod journal;
pub mod memory;
pub mod pattern;
pub mod receipt;
pub mod score;
pub mod sq8;
pub mod template;
pub mod temporal;
pub mod tenant;
pub mod thermo;
pub mod tick;
pub mod trigger;
pub mod trigger_match;
pub mod vector;
pub mod words;
