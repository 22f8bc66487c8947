//! Linearizability of histories, which the simulation and the tests with real processes share.

pub mod history;
