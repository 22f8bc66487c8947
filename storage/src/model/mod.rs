//! Pure values and rules: what a memory is, how it cools, how it scores.
//! Nothing here reads a disk, a clock or the network.

pub mod access;
pub mod analytics;
pub mod cluster;
pub mod delivery;
pub mod edge;
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
pub mod vector;
pub mod words;
