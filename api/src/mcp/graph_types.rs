//! Arguments and results of the tools for a knowledge graph, as the reference memory server has them.

use serde::{Deserialize, Serialize};
use storage::model::memory::KEY_POINT_BYTES_MAX;
use utoipa::ToSchema;

use crate::mcp::results::ToolResult;
use crate::requests::fields::*;
use crate::requests::values::{Items, NonBlank, Text};

/// Most items of an argument.
pub(super) const ITEMS_MAX: usize = 100;
// The derives below need a literal.
const _: () = assert!(ITEMS_MAX == 100);

/// The name of an entity: a key point of what belongs to it.
pub(super) type EntityName = NonBlank<KEY_POINT_BYTES_MAX>;
pub(super) type TypeName = Text<KEY_POINT_BYTES_MAX>;

/// An entity to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct NewEntity {
    /// Its name, which is unique.
    pub(super) name: EntityName,
    /// What it is: person, company, place.
    #[serde(rename = "entityType")]
    pub(super) entity_type: TypeName,
    /// Statements about it.
    #[schema(value_type = Vec<FullLabel>, max_items = 100)]
    pub(super) observations: Items<FullLabel, 0, ITEMS_MAX>,
}

/// Entities to create.
#[derive(Deserialize, ToSchema)]
pub(super) struct CreateEntities {
    /// The entities.
    #[schema(value_type = Vec<NewEntity>, max_items = 100)]
    pub(super) entities: Items<NewEntity, 0, ITEMS_MAX>,
}

/// A relation, in active voice.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct RelationArgument {
    /// Name of the entity where it starts.
    pub(super) from: EntityName,
    /// Name of the entity where it ends.
    pub(super) to: EntityName,
    /// What the first does with the second, such as `works at`.
    #[serde(rename = "relationType")]
    pub(super) relation_type: TypeName,
}

/// Relations.
#[derive(Deserialize, ToSchema)]
pub(super) struct RelationList {
    /// The relations.
    #[schema(value_type = Vec<RelationArgument>, max_items = 100)]
    pub(super) relations: Items<RelationArgument, 0, ITEMS_MAX>,
}

/// Statements about an entity.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct NewObservations {
    /// Name of the entity.
    #[serde(rename = "entityName")]
    pub(super) entity_name: EntityName,
    /// The statements, one fact each.
    #[schema(value_type = Vec<FullLabel>, max_items = 100)]
    pub(super) contents: Items<FullLabel, 0, ITEMS_MAX>,
}

/// Statements to add.
#[derive(Deserialize, ToSchema)]
pub(super) struct AddObservations {
    /// The statements of each entity.
    #[schema(value_type = Vec<NewObservations>, max_items = 100)]
    pub(super) observations: Items<NewObservations, 0, ITEMS_MAX>,
}

/// Names of entities to delete.
#[derive(Deserialize, ToSchema)]
pub(super) struct DeleteEntities {
    /// The names.
    #[serde(rename = "entityNames")]
    #[schema(value_type = Vec<EntityName>, max_items = 100)]
    pub(super) entity_names: Items<EntityName, 0, ITEMS_MAX>,
}

/// Statements about an entity to delete.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct OldObservations {
    /// Name of the entity.
    #[serde(rename = "entityName")]
    pub(super) entity_name: EntityName,
    /// The statements, exactly as they are stored.
    #[schema(value_type = Vec<FullLabel>, max_items = 100)]
    pub(super) observations: Items<FullLabel, 0, ITEMS_MAX>,
}

/// Statements to delete.
#[derive(Deserialize, ToSchema)]
pub(super) struct DeleteObservations {
    /// The statements of each entity.
    #[schema(value_type = Vec<OldObservations>, max_items = 100)]
    pub(super) deletions: Items<OldObservations, 0, ITEMS_MAX>,
}

/// What to look for.
#[derive(Deserialize, ToSchema)]
pub(super) struct SearchNodes {
    /// A part of a name, a type or a statement.
    pub(super) query: Text<2_048>,
}

/// Names of entities.
#[derive(Deserialize, ToSchema)]
pub(super) struct OpenNodes {
    /// The names.
    #[schema(value_type = Vec<EntityName>, max_items = 100)]
    pub(super) names: Items<EntityName, 0, ITEMS_MAX>,
}

/// An entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Entity {
    pub(super) name: String,
    #[serde(rename = "entityType")]
    pub(super) entity_type: String,
    pub(super) observations: Vec<String>,
}

/// A relation of two entities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = EntityRelation)]
pub(super) struct Relation {
    pub(super) from: String,
    pub(super) to: String,
    #[serde(rename = "relationType")]
    pub(super) relation_type: String,
}

/// Entities that were created.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedEntities {
    pub(super) entities: Vec<Entity>,
}

/// Relations that were created.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedRelations {
    pub(super) relations: Vec<Relation>,
    /// Entities of the call that do not exist: what concerns them is left out.
    #[serde(rename = "missingEntities", skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) missing_entities: Vec<String>,
}

/// Statements that were added to an entity.
#[derive(Serialize, ToSchema)]
pub(super) struct AddedObservations {
    #[serde(rename = "entityName")]
    pub(super) entity_name: String,
    #[serde(rename = "addedObservations")]
    pub(super) added_observations: Vec<String>,
}

/// Statements that were added.
#[derive(Serialize, ToSchema)]
pub(super) struct ObservationResults {
    pub(super) results: Vec<AddedObservations>,
    /// Entities of the call that do not exist: what concerns them is left out.
    #[serde(rename = "missingEntities", skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) missing_entities: Vec<String>,
}

/// What was deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct Deletion {
    /// Always true.
    pub(super) success: bool,
    pub(super) message: String,
}

/// Entities, and the relations of at least one of them.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct KnowledgeGraph {
    pub(super) entities: Vec<Entity>,
    pub(super) relations: Vec<Relation>,
}

impl ToolResult for CreatedEntities {}
impl ToolResult for CreatedRelations {}
impl ToolResult for ObservationResults {}
impl ToolResult for KnowledgeGraph {}

impl ToolResult for Deletion {
    fn text(&self) -> Option<&str> {
        Some(&self.message)
    }
}
