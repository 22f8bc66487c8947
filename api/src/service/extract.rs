//! Facts from what was said: an extractor that the operator names reads a turn once it has ended, and names what is
//! worth knowing later. It runs after the response of the hook, so no agent and no write waits for it.
//!
//! The turns that wait are bounded: for all, for a tenant, and for a key. What exceeds that, or waits too long, is
//! counted and not extracted. The captured turns stay all the same.

use std::sync::Arc;

use storage::model::details::{Details, MetadataEntry};
use storage::model::duplicate::OnDuplicate;
use storage::model::id::{KeyId, MemoryId};
use storage::model::memory::{Memory, MemoryRecord, Origin};
use storage::model::tenant::Role;
use storage::{Condition, Filter, NewMemory, SearchRequest};
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
    /// The memory of its prompt.
    prompt: MemoryId,
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
        let open = extractions.prompts.remove(&self.open_turn(session_id));
        let Some((prompt, _)) = open else { return };
        let Some(said) = self.let_in(&project, &clean(said)) else { return };
        let Ok(place) = extractions.waiting.take(Some(self.key_of_tenant()), 1) else {
            return extractions.extractor.count_dropped();
        };
        let background = Self { request: Arc::new(self.request.detached()), ..self.clone() };
        let turn = EndedTurn { project, prompt, session: session_entry(session_id), said };
        tokio::spawn(async move {
            let _place = place;
            let turn_of_key = extractions.running.acquire(background.key_of_tenant()).await;
            let Some(_turn_of_key) = turn_of_key else {
                return extractions.extractor.count_dropped();
            };
            if let Err(error) = background.extract(&*extractions.extractor, turn).await {
                tracing::debug!(code = error.code, "the facts of a turn are not extracted");
            }
        });
    }

    /// What the guard leaves of a text. What it blocks or quarantines goes to no endpoint.
    fn let_in(&self, project: &Project, text: &str) -> Option<String> {
        let (clean, mark) = self.examined(&project.namespace, text).ok()?;
        (!mark.is_quarantined()).then_some(clean)
    }

    /// Keeps the prompt of a turn until that ends; without one, that of the turn before is none of this turn.
    pub(crate) fn remember_prompt(&self, session_id: &str, captured: Option<MemoryRecord>) {
        let Some(extractions) = self.service.extractions.get() else { return };
        let open = self.open_turn(session_id);
        extractions.prompts.invalidate(&open);
        let place = extractions.open.take(Some(self.key_of_tenant()), 1);
        if let (Some(record), Ok(place)) = (captured, place) {
            extractions.prompts.insert(open, (record.id, Arc::new(place)));
        }
    }

    fn open_turn(&self, session_id: &str) -> (KeyId, String) {
        (self.caller.key, session_entry(session_id).1)
    }

    async fn extract(&self, extractor: &dyn Extractor, turn: EndedTurn) -> ApiResult<()> {
        // It may be deleted by now, or the rules may be others.
        let Some(prompt) = self.existing(turn.prompt).await? else { return Ok(()) };
        let label = &prompt.memory.label;
        let Some(prompt) = self.let_in(&turn.project, label) else { return Ok(()) };
        let known = self.known_facts(&turn.project, &prompt).await?;
        let texts = known.iter().map(|record| record.memory.label.clone()).collect();
        let said = format!("User: {prompt}\n\nAgent: {}", turn.said);
        let facts = extractor.facts(said, texts).await.unwrap_or_default();
        for fact in facts.into_iter().take(EXTRACTED_MAX) {
            let Ok(new) = self.fact(fact, &turn, &known) else { continue };
            // Each by itself: a guard may reject one, and a client may have rejected its text before.
            if let Err(error) = self.create_memories(vec![new]).await {
                tracing::debug!(code = error.code, "an extracted fact is not stored");
            }
        }
        Ok(())
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
        known: &[MemoryRecord],
    ) -> ApiResult<NewMemory> {
        let end = fact.text.floor_char_boundary(EXTRACTED_BYTES_MAX);
        let namespace = turn.project.base.clone();
        let (label, _) = self.examined(&namespace, fact.text[..end].trim())?;
        let source = serde_json::Value::from(turn.prompt.to_string()).to_string();
        // What a person has fixed or reviewed is replaced by no model.
        let is_open = |record: &&MemoryRecord| {
            let Memory { is_locked, is_pinned, guard, .. } = record.memory;
            !is_locked && !is_pinned && !guard.is_reviewed()
        };
        let replaced = fact.replaces.and_then(|at| known.get(at)).filter(is_open);
        let metadata = vec![turn.session.clone(), ("source".to_owned(), source)];
        let origin = Origin {
            key: Some(self.caller.key),
            agent: Some(self.caller.name.clone()),
            client: None,
            tool: Some("extractor".to_owned()),
        };
        let id = MemoryId(Uuid::now_v7().into_bytes());
        Ok(NewMemory {
            unless_rejected: vec![self.value_hash(&namespace, &label)],
            memory_type: fact.memory_type,
            supersedes: replaced.map(|record| record.id),
            on_duplicate: Some(OnDuplicate::Merge),
            details: Details { tags: vec![EXTRACTED.to_owned()], metadata }.some(),
            ..NewMemory::of_text(id, label, namespace, origin)
        })
    }
}
