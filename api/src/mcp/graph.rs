//! A knowledge graph over memories: the tools of the reference memory server. An entity, a statement
//! about one and a relation of two are one memory each. Its id is a hash of what it is, so two writers
//! of the same create it once, and writers of different ones do not disturb each other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storage::command::BulkFilter;
use storage::model::details::{Details, MetadataEntry};
use storage::model::duplicate::OnDuplicate;
use storage::model::id::MemoryId;
use storage::model::knowledge_graph::{
    ENTITY, GraphMemory, OBSERVATION, RELATION, TAG, id_of, tag_of,
};
use storage::model::memory::MemoryRecord;
use storage::text::folding::fold_name;
use storage::{TEXT_BYTES_MAX, TierFilter};
use tokio::time::Instant;

use crate::error::ErrorKind;
use crate::mcp::arguments::Nothing;
use crate::mcp::calls::Call;
use crate::mcp::graph_types::*;
use crate::prelude::*;
use crate::requests::memories;
use crate::requests::values::{NonBlank, Text};
use crate::service::bulk::{BulkTargets, fitting};

/// Time to wait for entities that another call may be about to create.
const ENTITIES_WAIT: Duration = Duration::from_secs(2);
/// Time between two reads of them.
const ENTITIES_PAUSE: Duration = Duration::from_millis(50);
/// Attempts to create what other writers create at the same time.
const ATTEMPTS_MAX: usize = 5;

/// The graph in the namespace of a caller, for one tool.
struct Graph {
    call: Call,
    namespace: String,
    tool: &'static str,
}

impl Graph {
    fn new(call: Call, tool: &'static str) -> Self {
        let namespace = call.store_namespace();
        Self { call, namespace, tool }
    }

    /// For a tool that writes. It finds by itself what is there.
    fn to_write(call: Call, tool: &'static str) -> ApiResult<Self> {
        call.session.request.check_not_once()?;
        Ok(Self::new(call, tool))
    }

    fn id(&self, kind: &str, parts: &[&str]) -> MemoryId {
        id_of(&self.namespace, kind, parts)
    }

    fn entity_id(&self, name: &str) -> MemoryId {
        self.id(ENTITY, &[name])
    }

    /// The tag of what belongs to an entity.
    fn tag_of(&self, name: &str) -> String {
        tag_of(&self.namespace, name)
    }

    /// A part as a new memory.
    fn memory(&self, part: GraphMemory) -> ApiResult<storage::NewMemory> {
        let new = memories::NewMemory {
            label: Some(Text(part.label)),
            memory_type: Some(OneOf(MemoryType::Semantic)),
            ..memories::NewMemory::default()
        };
        let origin = self.call.origin.of_tool(&self.call.session.caller, self.tool);
        let new = new.into_memory(&self.namespace, origin)?;
        let entry = |(name, text): (&str, String)| {
            (name.to_owned(), serde_json::Value::from(text).to_string())
        };
        let metadata = part.metadata.into_iter().map(entry).collect();
        Ok(storage::NewMemory {
            id: part.id,
            key_points: part.key_points,
            on_duplicate: Some(OnDuplicate::Allow),
            details: Details { tags: part.tags, metadata }.some(),
            ..new
        })
    }

    fn observation(&self, name: &str, text: &str, order: usize) -> ApiResult<storage::NewMemory> {
        self.memory(GraphMemory::observation(&self.namespace, name, text, order))
    }

    /// Creates the memories that do not exist. Returns the ids of those that this call created.
    async fn create(&self, mut new: Vec<storage::NewMemory>) -> ApiResult<BTreeSet<MemoryId>> {
        let mut seen = BTreeSet::new();
        new.retain(|new| seen.insert(new.id));
        let mut created = BTreeSet::new();
        for _ in 0..ATTEMPTS_MAX {
            let ids = new.iter().map(|new| new.id).collect();
            let present = self.call.session.taken(ids).await?;
            new.retain(|new| !present.contains(&new.id));
            while !new.is_empty() {
                let part: Vec<_> = new[..fitting(&new, storage::NewMemory::text_bytes)].to_vec();
                let ids: Vec<_> = part.iter().map(|new| new.id).collect();
                match self.call.session.create_memories(part).await {
                    Ok(_) => created.extend(ids.iter().copied()),
                    // Another writer created one of them since.
                    Err(error) if error.code == "id_taken" => break,
                    Err(error) => return Err(error),
                }
                new.drain(..ids.len());
            }
            if new.is_empty() {
                return Ok(created);
            }
        }
        Err(ApiError::unavailable("busy", "other writers create the same at the same time"))
    }

    /// Statements as the guard leaves them: their ids are those of what is stored.
    fn examined(&self, texts: Vec<FullLabel>) -> ApiResult<Vec<String>> {
        let session = &self.call.session;
        let clean = |text: &FullLabel| Ok(session.examined(&self.namespace, &text.0)?.0);
        texts.iter().map(clean).collect()
    }

    /// Rejects names that the guard would redact: they would be those of others.
    fn check_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> ApiResult<()> {
        let session = &self.call.session;
        names.into_iter().try_for_each(|name| session.check_name(&self.namespace, name))
    }

    /// The ids of these that exist, after all acknowledged writes.
    async fn existing(&self, ids: Vec<MemoryId>) -> ApiResult<BTreeSet<MemoryId>> {
        let found = self.call.session.existing_memories(ids).await?;
        Ok(found.into_iter().map(|record| record.id).collect())
    }

    /// The names of entities that do not exist. Waits for them: programs call tools at the same time, and
    /// another call may be about to create them.
    async fn missing(&self, names: BTreeSet<String>) -> ApiResult<BTreeSet<String>> {
        let (mut missing, deadline) = (names, Instant::now() + ENTITIES_WAIT);
        loop {
            let ids = missing.iter().map(|name| self.entity_id(name)).collect();
            let found = self.existing(ids).await?;
            missing.retain(|name| !found.contains(&self.entity_id(name)));
            if missing.is_empty() || Instant::now() >= deadline {
                return Ok(missing);
            }
            tokio::time::sleep(ENTITIES_PAUSE).await;
        }
    }

    /// All memories with a tag, after all acknowledged writes, the oldest first.
    async fn tagged(&self, tag: String) -> ApiResult<Vec<MemoryRecord>> {
        let filter = Filter {
            tier: TierFilter::All,
            details: Details { tags: vec![tag], metadata: Vec::new() },
            ..self.call.filter(Some(Text(self.namespace.clone())))?
        };
        self.call.session.all_memories(filter).await
    }

    /// Deletes the memories that exist. Returns their number.
    async fn delete(&self, ids: BTreeSet<MemoryId>) -> ApiResult<usize> {
        let ids = self.existing(ids.into_iter().collect()).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let targets = BulkTargets { ids: ids.into_iter().collect(), unknown: Vec::new() };
        let session = &self.call.session;
        let result =
            session.delete_memories(Some(targets), BulkFilter::default(), None, false).await?;
        if result.remaining > 0 {
            let message = "not all of it is deleted yet: repeat the call";
            return Err(ApiError::unavailable("incomplete", message));
        }
        match result.errors.first() {
            Some(error) => {
                let message = format!("not all of it is deleted: {error}");
                Err(ApiError::new(ErrorKind::Conflict, "incomplete", message))
            }
            None => Ok(result.done),
        }
    }
}

/// A text of the metadata of a memory of the graph.
fn text(record: &MemoryRecord, name: &str) -> String {
    let details = record.memory.details.as_deref();
    let entry =
        details.and_then(|it| it.metadata.iter().find(|(of, _): &&MetadataEntry| of == name));
    entry.and_then(|(_, json)| serde_json::from_str(json).ok()).unwrap_or_default()
}

fn has_tag(record: &MemoryRecord, tag: &str) -> bool {
    let details = record.memory.details.as_deref();
    details.is_some_and(|details| details.tags.iter().any(|of| of == tag))
}

/// The graph of memories: entities in the order of their creation, each with its statements.
fn graph(mut records: Vec<MemoryRecord>) -> KnowledgeGraph {
    records
        .sort_by_cached_key(|record| (record.memory.created_at, text(record, "order"), record.id));
    let (mut entities, mut relations) = (Vec::new(), Vec::new());
    let mut observations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        if has_tag(&record, ENTITY) {
            let (name, entity_type) = (text(&record, "name"), text(&record, "type"));
            entities.push(Entity { name, entity_type, observations: Vec::new() });
        } else if has_tag(&record, OBSERVATION) {
            observations.entry(text(&record, "entity")).or_default().push(record.memory.label);
        } else {
            let [from, to, relation_type] = ["from", "to", "type"].map(|name| text(&record, name));
            relations.push(Relation { from, to, relation_type });
        }
    }
    for entity in &mut entities {
        entity.observations = observations.remove(&entity.name).unwrap_or_default();
    }
    KnowledgeGraph { entities, relations }
}

impl KnowledgeGraph {
    /// The entities that pass, and the relations of at least one of them.
    fn part(self, passes: impl Fn(&Entity) -> bool) -> Self {
        let entities: Vec<_> = self.entities.into_iter().filter(passes).collect();
        let names: BTreeSet<_> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let is_of = |relation: &Relation| {
            names.contains(relation.from.as_str()) || names.contains(relation.to.as_str())
        };
        let relations = self.relations.into_iter().filter(is_of).collect();
        Self { entities, relations }
    }
}

pub(super) async fn create_entities(call: Call, new: CreateEntities) -> ApiResult<CreatedEntities> {
    let graph = Graph::to_write(call, "create_entities")?;
    let (mut heads, mut rest) = (Vec::new(), Vec::new());
    for (order, entity) in new.entities.0.iter().enumerate() {
        let NewEntity { name, entity_type, .. } = entity;
        graph.check_names([name.0.as_str(), &entity_type.0])?;
        let part = GraphMemory::entity(&graph.namespace, &name.0, &entity_type.0, order);
        heads.push(graph.memory(part)?);
    }
    let mut seen = graph.existing(heads.iter().map(|head| head.id).collect()).await?;
    let mut entities = Vec::new();
    for (head, entity) in heads.iter().zip(new.entities.0) {
        // Of two entities of one name in a call, the first one counts.
        if !seen.insert(head.id) {
            continue;
        }
        let NewEntity { name: NonBlank(name), entity_type, observations } = entity;
        let observations = graph.examined(observations.0)?;
        for (order, text) in observations.iter().enumerate() {
            rest.push(graph.observation(&name, text, order)?);
        }
        entities.push(Entity { name, entity_type: entity_type.0, observations });
    }
    // A call that ends between the two is repeated: its entities do not exist yet, and no graph shows
    // observations without an entity.
    graph.create(rest).await?;
    let created = graph.create(heads).await?;
    entities.retain(|entity| created.contains(&graph.entity_id(&entity.name)));
    Ok(CreatedEntities { entities })
}

/// Rejects a call of which nothing is left without the entities that are missing.
fn check_some<T>(left: &[T], missing: &BTreeSet<String>) -> ApiResult<()> {
    match missing.first().filter(|_| left.is_empty()) {
        None => Ok(()),
        Some(name) => {
            let message = format!("Entity with name {name} not found");
            Err(ApiError::new(ErrorKind::NotFound, "not_found", message))
        }
    }
}

/// Relations whose ends do not exist are left out and named.
pub(super) async fn create_relations(call: Call, new: RelationList) -> ApiResult<CreatedRelations> {
    let graph = Graph::to_write(call, "create_relations")?;
    let mut new = new.relations.0;
    let ends = new.iter().flat_map(|it| [it.from.0.clone(), it.to.0.clone()]).collect();
    let missing = graph.missing(ends).await?;
    new.retain(|it| !missing.contains(&it.from.0) && !missing.contains(&it.to.0));
    check_some(&new, &missing)?;
    let mut memories = Vec::new();
    for (order, relation) in new.iter().enumerate() {
        let RelationArgument { from, to, relation_type } = relation;
        graph.check_names([relation_type.0.as_str()])?;
        let part = GraphMemory::relation(&graph.namespace, &from.0, &to.0, &relation_type.0, order);
        memories.push(graph.memory(part)?);
    }
    let ids: Vec<_> = memories.iter().map(|memory| memory.id).collect();
    let mut created = graph.create(memories).await?;
    let of_call = new.into_iter().zip(ids).filter(|(_, id)| created.remove(id));
    let relation = |(it, _): (RelationArgument, _)| Relation {
        from: it.from.0,
        to: it.to.0,
        relation_type: it.relation_type.0,
    };
    let relations = of_call.map(relation).collect();
    Ok(CreatedRelations { relations, missing_entities: missing.into_iter().collect() })
}

/// Statements about entities that do not exist are left out, and the entities named.
pub(super) async fn add_observations(
    call: Call,
    new: AddObservations,
) -> ApiResult<ObservationResults> {
    let graph = Graph::to_write(call, "add_observations")?;
    let mut new = new.observations.0;
    let missing = graph.missing(new.iter().map(|it| it.entity_name.0.clone()).collect()).await?;
    new.retain(|it| !missing.contains(&it.entity_name.0));
    check_some(&new, &missing)?;
    let (mut memories, mut added) = (Vec::new(), Vec::new());
    for NewObservations { entity_name: NonBlank(entity_name), contents } in new {
        let texts = graph.examined(contents.0)?;
        for (order, text) in texts.iter().enumerate() {
            memories.push(graph.observation(&entity_name, text, order)?);
        }
        added.push((entity_name, texts));
    }
    let mut created = graph.create(memories).await?;
    let mut results = Vec::new();
    for (entity_name, texts) in added {
        let is_new = |text: &String| created.remove(&graph.id(OBSERVATION, &[&entity_name, text]));
        let added_observations = texts.into_iter().filter(is_new).collect();
        results.push(AddedObservations { entity_name, added_observations });
    }
    Ok(ObservationResults { results, missing_entities: missing.into_iter().collect() })
}

pub(super) async fn delete_entities(call: Call, old: DeleteEntities) -> ApiResult<Deletion> {
    let graph = Graph::to_write(call, "delete_entities")?;
    let names: BTreeSet<_> = old.entity_names.0.into_iter().map(|name| name.0).collect();
    let found = graph.existing(names.iter().map(|name| graph.entity_id(name)).collect()).await?;
    let (present, missing): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| found.contains(&graph.entity_id(name)));
    for name in &names {
        let of_entity = graph.tagged(graph.tag_of(name)).await?;
        let mut ids: BTreeSet<_> = of_entity.iter().map(|record| record.id).collect();
        // The entity is the last: a repeated call finds what one that failed has left.
        let head = ids.take(&graph.entity_id(name));
        graph.delete(ids).await?;
        graph.delete(head.into_iter().collect()).await?;
    }
    let message = match &missing[..] {
        [] => "Entities deleted successfully".to_owned(),
        missing => {
            let missing: Vec<_> = missing.iter().map(|name| name.as_str()).collect();
            let (deleted, all) = (present.len(), names.len());
            format!("Deleted {deleted} of {all} entities. Not found: {}", missing.join(", "))
        }
    };
    Ok(Deletion { success: true, message })
}

pub(super) async fn delete_observations(
    call: Call,
    old: DeleteObservations,
) -> ApiResult<Deletion> {
    let graph = Graph::to_write(call, "delete_observations")?;
    let mut ids = BTreeSet::new();
    for OldObservations { entity_name, observations } in &old.deletions.0 {
        let id = |text: &FullLabel| graph.id(OBSERVATION, &[&entity_name.0, &text.0]);
        ids.extend(observations.0.iter().map(id));
    }
    deleted(&graph, ids, "observations").await
}

pub(super) async fn delete_relations(call: Call, old: RelationList) -> ApiResult<Deletion> {
    let graph = Graph::to_write(call, "delete_relations")?;
    let id =
        |it: &RelationArgument| graph.id(RELATION, &[&it.from.0, &it.to.0, &it.relation_type.0]);
    let ids = old.relations.0.iter().map(id).collect();
    deleted(&graph, ids, "relations").await
}

async fn deleted(graph: &Graph, ids: BTreeSet<MemoryId>, what: &str) -> ApiResult<Deletion> {
    let all = ids.len();
    let done = graph.delete(ids).await?;
    Ok(Deletion { success: true, message: format!("Deleted {done} of {all} {what}") })
}

pub(super) async fn read_graph(call: Call, _: Nothing) -> ApiResult<KnowledgeGraph> {
    Ok(graph(Graph::new(call, "read_graph").tagged(TAG.to_owned()).await?))
}

pub(super) async fn search_nodes(call: Call, search: SearchNodes) -> ApiResult<KnowledgeGraph> {
    let all = graph(Graph::new(call, "search_nodes").tagged(TAG.to_owned()).await?);
    let part = fold_name(&search.query.0);
    let has = |text: &String| fold_name(text).contains(&part);
    Ok(all.part(|entity| {
        has(&entity.name) || has(&entity.entity_type) || entity.observations.iter().any(has)
    }))
}

pub(super) async fn open_nodes(call: Call, open: OpenNodes) -> ApiResult<KnowledgeGraph> {
    let of_caller = Graph::new(call, "open_nodes");
    let names: BTreeSet<_> = open.names.0.into_iter().map(|name| name.0).collect();
    let (mut records, mut bytes) = (BTreeMap::new(), 0);
    for name in &names {
        let of_entity = of_caller.tagged(of_caller.tag_of(name)).await?;
        bytes += of_entity.iter().map(|it| it.memory.stored_bytes() as usize).sum::<usize>();
        if bytes > TEXT_BYTES_MAX {
            let message = "there is too much for one response: open fewer entities at a time";
            return Err(ApiError::new(ErrorKind::TooLarge, "too_large", message));
        }
        records.extend(of_entity.into_iter().map(|record| (record.id, record)));
    }
    let found = graph(records.into_values().collect());
    Ok(found.part(|entity| names.contains(&entity.name)))
}
