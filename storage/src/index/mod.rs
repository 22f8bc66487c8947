//! Derived data: everything a search touches before it reads a row. Rebuilt
//! from the state at start, kept up by `apply`, and never written to disk.

pub(crate) mod builder;
pub(crate) mod chunk;
pub(crate) mod coverage;
pub(crate) mod graph;
pub(crate) mod heats;
pub(crate) mod registry;
pub(crate) mod tenant;
pub(crate) mod triggers;
pub(crate) mod words;
