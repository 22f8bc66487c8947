//! The harness: starts the real binary, sends requests as a client does, and injects faults.
//! It ends every process that it started, and no other.

mod beside;
mod checks;
mod cluster;
mod disk;
mod document;
/// The storage engine without Raft: the harness of the engine's own tests.
#[path = "../../storage/tests/common/engine.rs"]
pub mod engine;
mod glosses;
mod histories;
mod http;
mod load;
mod node;
mod process;
mod proxy;
mod receiver;
mod stream;
mod target;
mod wait;
mod writers;

pub use beside::*;
pub use checks::*;
pub use cluster::*;
pub use disk::*;
pub use document::*;
pub use engine::setting;
pub use glosses::*;
pub use histories::*;
pub use http::*;
pub use load::*;
pub use node::*;
pub use process::*;
pub use proxy::*;
pub use receiver::*;
pub use reqwest::{Method, StatusCode};
pub use serde_json::{Value, json};
pub use stream::*;
pub use target::*;
pub use wait::*;
pub use writers::*;
