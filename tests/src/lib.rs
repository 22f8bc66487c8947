//! The harness: starts the real binary, sends requests as a client does, and injects faults.
//! It ends every process that it started, and no other.

mod checks;
mod cluster;
mod document;
pub mod engine;
mod http;
mod node;
mod process;
mod receiver;
mod stream;
mod wait;
mod writers;

pub use checks::{
    assert_equal_states, converged, create_trigger, denied_key, installed, trigger_history,
};
pub use cluster::{Cluster, Options};
pub use document::{Document, kind};
pub use http::{Request, Response, array, client, id, string};
pub use node::{Agent, Node};
pub use process::{Process, Processes, cpu_seconds, signal, wait_gone};
pub use receiver::{Behaviour, Delivery, Receiver};
pub use stream::{Event, Stream};
pub use wait::{PATIENCE, eventually, within};
pub use writers::{Writers, random_after, setting, stored};
