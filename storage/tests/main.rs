//! Tests of the whole engine: golden scripts, models, searches, formats.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod audit;
mod backup;
mod checks;
mod closed;
mod common;
mod crossings;
mod formats;
mod golden;
mod graph;
mod hot;
mod hygiene;
mod journal;
mod memory_formats;
mod memory_state;
mod model;
mod models;
mod months;
mod planner;
mod receipts;
mod received;
mod release;
mod reports;
mod retention;
mod row_faults;
mod saved_graphs;
mod simulation;
mod sizes;
mod space;
mod tenants;
mod tick;
