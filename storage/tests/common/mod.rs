//! What the tests share: the engine, the lines of golden scripts, models.

pub mod brute;
pub mod engine;
pub mod line;
pub mod print;
pub mod world;

pub use engine::*;
