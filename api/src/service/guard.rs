//! The guard at the door: new texts are examined before anything else sees them: before they are embedded, and
//! before they are in a command. The command has the version of the rules. The leader rejects another one.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use storage::command::RecordActivity;
use storage::model::details::{Details, MetadataEntry};
use storage::model::duplicate::same_words;
use storage::model::guard::{Guard, GuardMark, GuardRule};
use storage::model::id::MemoryId;
use storage::model::journal::AgentActivity;
use storage::model::memory::Memory;
use storage::model::tombstone::ValueHash;
use storage::model::vector::Vector;
use storage::{ImportedMemory, MemoryPatch, NewMemory};

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::guard::{CompiledGuard, Detections, Detector};
use crate::service::Session;
use crate::service::writes::WriteResult;

/// What a guard did with texts.
fn accepted(detections: Detections) -> ApiResult<GuardMark> {
    let Some(name) = detections.blocked else { return Ok(detections.mark) };
    let message = format!("the guard of this namespace rejects the text: {name} found");
    Err(guarded(message))
}

fn guarded(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::Unprocessable, "guarded", message)
}

/// Replaces a text by what the detector leaves of it. Returns whether it differs.
fn examine_text(detector: &Detector, text: &mut String, detections: &mut Detections) -> bool {
    let clean = detector.examine(text, detections).into_owned();
    let differs = clean != *text;
    *text = clean;
    differs
}

fn examine_tags(detector: &Detector, tags: &mut [String], detections: &mut Detections) {
    for tag in tags {
        examine_text(detector, tag, detections);
    }
}

/// Examines names and texts of metadata. A value that is no text is examined as JSON shows it.
fn examine_metadata(detector: &Detector, all: &mut [MetadataEntry], detections: &mut Detections) {
    for (name, json) in all {
        // Stored values are valid JSON.
        let mut value: Value = serde_json::from_str(json).unwrap_or_default();
        examine_value(detector, name, &mut value, detections);
        *json = value.to_string();
        examine_text(detector, name, detections);
    }
}

fn examine_value(detector: &Detector, name: &str, value: &mut Value, detections: &mut Detections) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| examine_value(detector, name, item, detections));
        }
        Value::Object(fields) => {
            for (name, mut field) in std::mem::take(fields) {
                examine_value(detector, &name, &mut field, detections);
                fields.insert(detector.examine(&name, detections).into_owned(), field);
            }
        }
        Value::String(text) => {
            *text = detector.examine_named(name, text, detections).into_owned();
        }
        Value::Number(number) => {
            let text = number.to_string();
            let clean = detector.examine(&text, detections);
            if *clean != text {
                *value = clean.into_owned().into();
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn examine_details(
    detector: &Detector,
    details: Option<&mut Box<Details>>,
    detections: &mut Detections,
) {
    if let Some(details) = details {
        examine_tags(detector, &mut details.tags, detections);
        examine_metadata(detector, &mut details.metadata, detections);
    }
}

/// An id of a client is a name: it cannot be redacted.
fn examine_id(detector: &Detector, id: Option<&str>, detections: &mut Detections) {
    let mut clean = id.unwrap_or_default().to_owned();
    if examine_text(detector, &mut clean, detections) {
        detections.blocked.get_or_insert_with(|| "secret in its external_id".to_owned());
    }
}

impl Session {
    /// The rules of the caller's tenant, as this node has them.
    pub(crate) fn guard(&self) -> Arc<CompiledGuard> {
        let tenant = self.caller.tenant;
        self.service.guards.of(tenant, self.service.reader.guard(tenant))
    }

    /// Examines all texts of a new memory.
    pub(super) fn examine_new(guard: &CompiledGuard, new: &mut NewMemory) -> ApiResult<()> {
        let detector = guard.detector(&new.namespace);
        let mut detections = Detections::default();
        examine_text(detector, &mut new.label, &mut detections);
        examine_tags(detector, &mut new.key_points, &mut detections);
        examine_details(detector, new.details.as_mut(), &mut detections);
        examine_id(detector, new.external_id.as_deref(), &mut detections);
        for name in [&mut new.origin.client, &mut new.origin.tool].into_iter().flatten() {
            examine_text(detector, name, &mut detections);
        }
        new.guard = accepted(detections)?;
        Ok(())
    }

    /// Examines all texts of a memory that is imported. A vector of a text that differs is dropped.
    pub(super) fn examine_imported(
        guard: &CompiledGuard,
        one: &mut ImportedMemory,
    ) -> ApiResult<()> {
        let ImportedMemory { memory, vector, .. } = one;
        let detector = guard.detector(&memory.namespace);
        let mut detections = Detections::default();
        if examine_text(detector, &mut memory.label, &mut detections) {
            *vector = Vector::default();
        }
        examine_tags(detector, &mut memory.key_points, &mut detections);
        examine_details(detector, memory.details.as_mut(), &mut detections);
        examine_id(detector, memory.external_id.as_deref(), &mut detections);
        let mark = accepted(detections)?;
        // An admin who has reviewed it elsewhere decides here too.
        let mark = if memory.guard.is_reviewed() { mark.reviewed() } else { mark };
        memory.guard = memory.guard.and(mark);
        memory.is_flagged |= memory.guard.is_flagged();
        if memory.guard.is_quarantined() {
            memory.archived_at = memory.archived_at.or(Some(memory.updated_at));
        }
        Ok(())
    }

    /// Examines the new texts of a patch, and all texts of a memory that it moves. `present` is the memory;
    /// without it, all rules apply, the strictest first.
    pub(super) fn examine_patch(
        guard: &CompiledGuard,
        patch: &mut MemoryPatch,
        present: Option<&Memory>,
    ) -> ApiResult<()> {
        let mut detections = Detections::default();
        let namespace = patch.namespace.as_ref().or(present.map(|present| &present.namespace));
        let detectors: Vec<_> = match namespace {
            Some(namespace) => vec![guard.detector(namespace)],
            None => guard.detectors().collect(),
        };
        if let Some(present) = present.filter(|present| namespace != Some(&present.namespace)) {
            let detector = detectors[0];
            let mut moved = present.clone();
            let label =
                patch.label.is_none() && examine_text(detector, &mut moved.label, &mut detections);
            if label {
                patch.label = Some((moved.label, Vector::default()));
            }
            examine_details(detector, moved.details.as_mut(), &mut detections);
            if moved.details != present.details
                && let Some(Details { tags, metadata }) = moved.details.map(|details| *details)
            {
                patch.details.tags.get_or_insert(tags);
                patch.details.metadata.get_or_insert(metadata);
            }
            examine_tags(detector, &mut moved.key_points, &mut detections);
            if moved.key_points != present.key_points {
                detections.blocked.get_or_insert_with(|| "secret in its key points".to_owned());
            }
        }
        for detector in detectors {
            if let Some((label, _)) = &mut patch.label {
                examine_text(detector, label, &mut detections);
            }
            let details = &mut patch.details;
            examine_tags(
                detector,
                details.tags.as_deref_mut().unwrap_or_default(),
                &mut detections,
            );
            examine_tags(detector, &mut details.add_tags, &mut detections);
            let metadata = details.metadata.as_deref_mut().unwrap_or_default();
            examine_metadata(detector, metadata, &mut detections);
        }
        patch.guard = accepted(detections)?;
        if patch.guard.is_quarantined() {
            let message = "the guard quarantines such a text: a change cannot wait there";
            return Err(guarded(message));
        }
        Ok(())
    }

    /// What rules would do with a text: these, or those of the tenant.
    pub(crate) fn try_guard(
        &self,
        namespace: &str,
        text: &str,
        rules: Option<Vec<GuardRule>>,
    ) -> (String, Detections) {
        let guard = match rules {
            Some(rules) => Arc::new(CompiledGuard::new(Guard { version: 0, rules })),
            None => self.guard(),
        };
        let mut detections = Detections::default();
        let examine = || guard.detector(namespace).examine(text, &mut detections).into_owned();
        (tokio::task::block_in_place(examine), detections)
    }

    /// Records an activity of an agent, whose texts obey all rules: it has no namespace.
    pub(crate) async fn record_activity(
        &self,
        mut activity: AgentActivity,
    ) -> ApiResult<WriteResult<()>> {
        let (guard, mut detections) = (self.guard(), Detections::default());
        for detector in guard.detectors() {
            if let Some(label) = &mut activity.target_label {
                examine_text(detector, label, &mut detections);
            }
            let mut metadata = serde_json::from_str(&activity.metadata).unwrap_or_default();
            examine_value(detector, "", &mut metadata, &mut detections);
            activity.metadata = metadata.to_string();
        }
        if accepted(detections)?.is_quarantined() {
            return Err(guarded("a guard quarantines such a text: an activity cannot wait there"));
        }
        self.submit_examined(RecordActivity(activity), Some(guard.version)).await
    }

    /// The keyed hash of a value: of a namespace, and of the words of a text.
    pub(crate) fn value_hash(&self, namespace: &str, label: &str) -> ValueHash {
        let digest = Sha256::new()
            .chain_update(self.caller.tenant.0.to_be_bytes())
            .chain_update(namespace)
            .chain_update([0])
            .chain_update(same_words(label))
            .finalize();
        let [hash @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
            self.service.hooks.blind(digest.into());
        hash
    }

    /// The hashes of the values of these memories, which are to be rejected.
    pub(crate) async fn rejected_values(
        &self,
        ids: Vec<MemoryId>,
    ) -> ApiResult<Vec<(MemoryId, ValueHash)>> {
        let found = self.existing_memories(ids).await?;
        let hash = |memory: &Memory| self.value_hash(&memory.namespace, &memory.label);
        Ok(found.iter().map(|record| (record.id, hash(&record.memory))).collect())
    }
}
