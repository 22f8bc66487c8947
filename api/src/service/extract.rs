//! Facts from what was said: an extractor that the operator names reads a turn once it has ended, and names what is
//! worth knowing later. It runs after the response of the hook, so no agent and no write waits for it.
//!
//! The turns that wait are bounded: for all, for a tenant, and for a key. What exceeds that, or waits too long, is
//! counted and not extracted. The captured turns stay all the same.

use std::sync::Arc;

use storage::model::details::{Details, MetadataEntry};
use storage::model::duplicate::OnDuplicate;
use storage::model::guard::GuardMark;
use storage::model::id::MemoryId;
use storage::model::memory::{DecayClass, MemoryRecord, Origin};
use storage::model::tenant::Role;
use storage::model::times::Times;
use storage::model::vector::Vector;
use storage::{Condition, Filter, ListRequest, NewMemory, Order, SearchRequest, Sort};
use uuid::Uuid;

use crate::error::ApiResult;
use crate::limits::{EXTRACTED_BYTES_MAX, EXTRACTED_MAX, KNOWN_FACTS};
use crate::service::Session;
use crate::service::capture::{CAPTURED, Project, clean, session_entry};
use crate::service::node::{ExtractedFact, Extractor};

/// The tag of extracted facts.
const EXTRACTED: &str = "extracted";

/// A turn that has ended.
struct EndedTurn {
    project: Project,
    session: MetadataEntry,
    /// What the agent said last, without secrets.
    said: String,
}

impl Session {
    /// Extracts facts from the turn of a session that has ended with this text, after the response.
    pub(crate) fn extract_later(&self, project: Project, session_id: &str, said: &str) {
        let Some(extractions) = self.service.extractions.get().cloned() else { return };
        if self.caller.role < Role::Agent || !self.caller.access.allows(&project.base) {
            return;
        }
        let place = extractions.waiting.take(Some(self.key_of_tenant()), 1);
        let background = Self { request: Arc::new(self.request.detached()), ..self.clone() };
        let turn = EndedTurn { project, session: session_entry(session_id), said: clean(said) };
        tokio::spawn(async move {
            let turns = extractions.running.acquire(background.key_of_tenant());
            let (Ok(_place), Some(_turn)) = (place, turns.await) else {
                extractions.extractor.count_dropped();
                return;
            };
            if let Err(error) = background.extract(&*extractions.extractor, turn).await {
                tracing::debug!(code = error.code, "the facts of a turn are not extracted");
            }
        });
    }

    async fn extract(&self, extractor: &dyn Extractor, turn: EndedTurn) -> ApiResult<()> {
        // Another node may have captured the prompt.
        self.service.await_linearizable().await?;
        let Some(prompt) = self.last_prompt(&turn).await? else { return Ok(()) };
        let known = self.known_facts(&turn.project, &prompt.memory.label).await?;
        let texts = known.iter().map(|record| record.memory.label.clone()).collect();
        let said = format!("User: {}\n\nAgent: {}", prompt.memory.label, turn.said);
        let facts = extractor.facts(said, texts).await.unwrap_or_default();
        for fact in facts.into_iter().take(EXTRACTED_MAX) {
            let new = self.fact(fact, &turn, prompt.id, &known);
            // Each by itself: a guard may reject one, and a client may have rejected its text before.
            if let Err(error) = self.create_memories(vec![new]).await {
                tracing::debug!(code = error.code, "an extracted fact is not stored");
            }
        }
        Ok(())
    }

    /// The prompt of the turn, as it was captured.
    async fn last_prompt(&self, turn: &EndedTurn) -> ApiResult<Option<MemoryRecord>> {
        let tags = [CAPTURED, "user"].map(str::to_owned).into();
        let metadata = vec![turn.session.clone()];
        let filter = Filter {
            namespace: Some(turn.project.namespace.clone()),
            access: self.caller.access.clone(),
            details: Details { tags, metadata },
            ..Filter::default()
        };
        let (sort, order) = (Sort::CreatedAt, Order::Descending);
        let newest = ListRequest { filter, sort, order, limit: 1, ..ListRequest::default() };
        Ok(self.list(newest).await?.memories.into_iter().next())
    }

    /// What is known of the subject of a prompt, and holds now.
    async fn known_facts(&self, project: &Project, prompt: &str) -> ApiResult<Vec<MemoryRecord>> {
        let captured = Condition::Tag(CAPTURED.to_owned());
        let filter = Filter {
            namespace: Some(project.base.clone()),
            access: self.caller.access.clone(),
            condition: Some(Condition::Not(Box::new(captured))),
            valid_at: Some(self.now()),
            ..Filter::default()
        };
        let request = SearchRequest {
            query: prompt.to_owned(),
            filter,
            limit: KNOWN_FACTS,
            ..SearchRequest::default()
        };
        // An extraction is no use of a memory: it warms none.
        let found = self.find_hits(request).await?;
        Ok(found.hits.into_iter().map(|hit| hit.record).collect())
    }

    /// The memory for a fact: with its source, and in place of what it replaces.
    fn fact(
        &self,
        fact: ExtractedFact,
        turn: &EndedTurn,
        source: MemoryId,
        known: &[MemoryRecord],
    ) -> NewMemory {
        let end = fact.text.floor_char_boundary(EXTRACTED_BYTES_MAX);
        let label = fact.text[..end].trim().to_owned();
        let namespace = turn.project.base.clone();
        let source = serde_json::Value::from(source.to_string()).to_string();
        let metadata = vec![turn.session.clone(), ("source".to_owned(), source)];
        let origin = Origin {
            key: Some(self.caller.key),
            agent: Some(self.caller.name.clone()),
            client: None,
            tool: Some("extractor".to_owned()),
        };
        NewMemory {
            id: MemoryId(Uuid::now_v7().into_bytes()),
            unless_rejected: vec![self.value_hash(&namespace, &label)],
            label,
            memory_type: fact.memory_type,
            namespace,
            decay_class: DecayClass::Normal,
            is_pinned: false,
            min_heat: 0.0,
            initial_heat: 1.0,
            key_points: Vec::new(),
            vector: Vector::default(),
            suggestions: Vec::new(),
            supersedes: fact.replaces.and_then(|at| known.get(at)).map(|record| record.id),
            on_duplicate: Some(OnDuplicate::Merge),
            origin,
            folds: Vec::new(),
            details: Details { tags: vec![EXTRACTED.to_owned()], metadata }.some(),
            times: Times::default(),
            external_id: None,
            guard: GuardMark::default(),
        }
    }
}
