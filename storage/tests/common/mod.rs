//! What the tests share: the engine, the lines of golden scripts, models, and the names of the
//! crate that most of them use.

pub mod brute;
pub mod engine;
pub mod line;
pub mod print;
pub mod world;

pub use engine::*;
pub use storage::command::*;
pub use storage::model::details::{Details, DetailsPatch};
pub use storage::model::id::*;
pub use storage::model::journal::*;
pub use storage::model::memory::Origin;
pub use storage::model::memory::*;
pub use storage::model::thermo::{SettingValue, Thermo};
pub use storage::model::trigger::*;
pub use storage::model::vector::*;
pub use storage::{
    Accepted, ApplyOutcome, Batch, Change, CompiledTrigger, Filter, HotRequest, ListRequest,
    MemoryPatch, NewMemory, Options, Progress, Reader, Rejection, Reply, SearchRequest, Signal,
    TierFilter, TriggerPatch, View, codec,
};
