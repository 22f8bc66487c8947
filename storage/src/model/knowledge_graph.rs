//! How a knowledge graph is stored as memories: an entity, a statement about one, and a relation of two
//! are one memory each. Ids and tags are hashes of names, so all writers agree on them.

use crate::model::id::MemoryId;

/// Tag of all memories of a graph.
pub const TAG: &str = "kg";
/// Tag of entities, and the kind in their ids.
pub const ENTITY: &str = "kg-entity";
/// Tag of statements about an entity.
pub const OBSERVATION: &str = "kg-observation";
/// Tag of relations.
pub const RELATION: &str = "kg-relation";

/// The id of the memory of a kind that these texts name.
pub fn id_of(namespace: &str, kind: &str, parts: &[&str]) -> MemoryId {
    MemoryId::of_parts([namespace, kind].into_iter().chain(parts.iter().copied()))
}

/// The tag of what belongs to an entity.
pub fn tag_of(namespace: &str, entity: &str) -> String {
    format!("kg-of:{}", id_of(namespace, ENTITY, &[entity]))
}
