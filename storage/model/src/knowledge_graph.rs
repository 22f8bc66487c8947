//! How a knowledge graph is stored as memories: an entity, a statement about one, and a relation of two
//! are one memory each. Ids and tags are hashes of names, so all writers agree on them.

use crate::id::MemoryId;

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

/// A memory of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphMemory {
    /// A hash of what it is.
    pub id: MemoryId,
    /// What searches find.
    pub label: String,
    /// That of the graph, that of its kind, and one for each entity that it belongs to.
    pub tags: Vec<String>,
    /// The names of these entities.
    pub key_points: Vec<String>,
    /// Names and texts, in the order of the names. `order` sorts parts that were created together.
    pub metadata: Vec<(&'static str, String)>,
}

impl GraphMemory {
    /// An entity.
    pub fn entity(namespace: &str, name: &str, entity_type: &str, order: usize) -> Self {
        let label = format!("{name} ({entity_type})");
        let metadata = [("name", name), ("order", &order_text(order)), ("type", entity_type)];
        Self::new(namespace, ENTITY, &[name], label, &[name], &metadata)
    }

    /// A statement about an entity.
    pub fn observation(namespace: &str, entity: &str, statement: &str, order: usize) -> Self {
        let metadata = [("entity", entity), ("order", &order_text(order))];
        let (parts, label) = ([entity, statement], statement.to_owned());
        Self::new(namespace, OBSERVATION, &parts, label, &[entity], &metadata)
    }

    /// A relation of two entities.
    pub fn relation(namespace: &str, from: &str, to: &str, kind: &str, order: usize) -> Self {
        let label = format!("{from} {kind} {to}");
        let metadata = [("from", from), ("order", &order_text(order)), ("to", to), ("type", kind)];
        let entities = if from == to { &[from][..] } else { &[from, to] };
        Self::new(namespace, RELATION, &[from, to, kind], label, entities, &metadata)
    }

    fn new(
        namespace: &str,
        kind: &str,
        parts: &[&str],
        label: String,
        entities: &[&str],
        metadata: &[(&'static str, &str)],
    ) -> Self {
        let of_entities = entities.iter().map(|name| tag_of(namespace, name));
        Self {
            id: id_of(namespace, kind, parts),
            label,
            tags: [TAG, kind].into_iter().map(str::to_owned).chain(of_entities).collect(),
            key_points: entities.iter().map(|name| (*name).to_owned()).collect(),
            metadata: metadata.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
        }
    }
}

/// Numbers as texts, in the same order.
fn order_text(order: usize) -> String {
    format!("{order:06}")
}
