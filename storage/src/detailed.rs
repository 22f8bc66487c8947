//! Actions with the tags and the metadata of their memories, in the form in which they travel between
//! nodes: the actions of the first feature level cannot carry them.

use serde::{Deserialize, Serialize};

use crate::codec::bounded;
use crate::model::details::{Details, DetailsPatch};
use crate::model::id::MemoryId;
use crate::new_memory::{CREATE_MAX, NewMemory};
use crate::patch::MemoryPatch;

/// An action with the tags and the metadata of its memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Detailed {
    /// See [`Action::CreateMemories`].
    Create(
        #[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")]
        Vec<(NewMemory, Option<Box<Details>>)>,
    ),
    /// See [`Action::UpdateMemory`].
    Update(MemoryId, MemoryPatch, DetailsPatch),
    /// See [`Action::UpdateMemories`].
    UpdateAll(Vec<MemoryId>, MemoryPatch, DetailsPatch),
}

impl Detailed {
    /// Approximate size in memory, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Create(new) => {
                let details =
                    |it: &Option<Box<Details>>| it.as_ref().map_or(0, |it| it.size_bytes());
                new.iter().map(|(new, of)| new.size_bytes() + details(of)).sum()
            }
            Self::Update(_, patch, details) => patch.size_bytes() + details.size_bytes(),
            Self::UpdateAll(ids, patch, details) => {
                size_of_val(&ids[..]) + patch.size_bytes() + details.size_bytes()
            }
        }
    }
}
