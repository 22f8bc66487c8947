//! The guard at the door: new texts are examined before anything else sees them: before they are embedded, and
//! before they are in a command. The command has the version of the rules. The leader rejects another one.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use storage::command::RecordActivity;
use storage::model::details::{
    Details, DetailsPatch, MEMORY_TAG_BYTES_MAX, METADATA_BYTES_MAX, MetadataEntry,
};
use storage::model::duplicate::same_words;
use storage::model::guard::{Guard, GuardMark, GuardRule};
use storage::model::id::MemoryId;
use storage::model::journal::AgentActivity;
use storage::model::memory::{KEY_POINT_BYTES_MAX, LABEL_BYTES_MAX, Memory};
use storage::model::tombstone::ValueHash;
use storage::model::vector::Vector;
use storage::{Etag, ImportedMemory, MemoryPatch, NewMemory};

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

/// Examines tags or key points. Those that are equal afterwards are one.
fn examine_tags(detector: &Detector, tags: &mut Vec<String>, detections: &mut Detections) {
    for tag in &mut *tags {
        examine_text(detector, tag, detections);
    }
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
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
            let clean = detector.examine_named(name, &text, detections);
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

/// A name, such as an id of a client, cannot be redacted: where that is the rule, it is blocked.
fn examine_name(detector: &Detector, name: &str, what: &str, detections: &mut Detections) {
    if *detector.examine(name, detections) != *name {
        detections.blocked.get_or_insert_with(|| format!("what is to be removed from {what}"));
    }
}

/// What is left of texts may be longer than they were: each removed part becomes its name.
fn check_sizes(label: &str, key_points: &[String], details: Option<&Details>) -> ApiResult<()> {
    let (tags, metadata) =
        details.map_or((&[][..], &[][..]), |details| (&details.tags[..], &details.metadata[..]));
    let is_long = |texts: &[String], max: usize| texts.iter().any(|text| text.len() > max);
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    let names: HashSet<_> = metadata.iter().map(|(name, _)| name).collect();
    let fits = label.len() <= LABEL_BYTES_MAX
        && !is_long(key_points, KEY_POINT_BYTES_MAX)
        && !is_long(tags, MEMORY_TAG_BYTES_MAX)
        && bytes <= METADATA_BYTES_MAX
        && names.len() == metadata.len();
    match fits {
        true => Ok(()),
        false => {
            Err(guarded("without what the guard removes, texts are too long, or names are equal"))
        }
    }
}

impl Session {
    /// The rules of the caller's tenant, as this node has them.
    pub(crate) fn guard(&self) -> Arc<CompiledGuard> {
        let tenant = self.caller.tenant;
        self.service.guards.of(tenant, |known| self.service.reader.guard(tenant, known))
    }

    /// Examines all texts of a new memory.
    pub(super) fn examine_new(guard: &CompiledGuard, new: &mut NewMemory) -> ApiResult<()> {
        let detector = guard.detector(&new.namespace);
        let mut detections = Detections::default();
        examine_text(detector, &mut new.label, &mut detections);
        examine_tags(detector, &mut new.key_points, &mut detections);
        examine_details(detector, new.details.as_mut(), &mut detections);
        examine_name(detector, &new.namespace, "its namespace", &mut detections);
        let external_id = new.external_id.as_deref().unwrap_or_default();
        examine_name(detector, external_id, "its external_id", &mut detections);
        for name in [&mut new.origin.client, &mut new.origin.tool].into_iter().flatten() {
            examine_text(detector, name, &mut detections);
        }
        new.guard = accepted(detections)?;
        check_sizes(&new.label, &new.key_points, new.details.as_deref())
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
        examine_name(detector, &memory.namespace, "its namespace", &mut detections);
        let external_id = memory.external_id.as_deref().unwrap_or_default();
        examine_name(detector, external_id, "its external_id", &mut detections);
        let mark = accepted(detections)?;
        // An admin who has reviewed it elsewhere decides here too.
        let mark = if memory.guard.is_reviewed() { mark.reviewed() } else { mark };
        memory.guard = memory.guard.and(mark);
        memory.is_flagged |= memory.guard.is_flagged();
        if memory.guard.is_quarantined() {
            memory.archived_at = memory.archived_at.or(Some(memory.updated_at));
        }
        check_sizes(&memory.label, &memory.key_points, memory.details.as_deref())
    }

    /// Examines the new texts of a patch of a memory; if the patch moves it to a namespace with rules, all texts that
    /// it then has. What the memory says already is no new text.
    pub(super) fn examine_patch(
        guard: &CompiledGuard,
        patch: &mut MemoryPatch,
        present: &Memory,
    ) -> ApiResult<()> {
        if !guard.rules.is_empty() {
            patch.examined_in = vec![present.namespace.clone()];
        }
        let namespace = patch.namespace.as_ref().unwrap_or(&present.namespace);
        let detector = guard.detector(namespace);
        if *namespace != present.namespace && guard.rules.iter().any(|it| it.covers(namespace)) {
            return Self::examine_moved(detector, patch, present);
        }
        let none = Details::default();
        let known = present.details.as_deref().unwrap_or(&none);
        let mut detections = Detections::default();
        if let Some((label, _)) = patch.label.as_mut().filter(|(label, _)| *label != present.label)
        {
            examine_text(detector, label, &mut detections);
        }
        let details = &mut patch.details;
        for tags in [details.tags.as_mut(), Some(&mut details.add_tags)].into_iter().flatten() {
            let (old, mut new): (Vec<_>, Vec<_>) =
                std::mem::take(tags).into_iter().partition(|tag| known.tags.contains(tag));
            examine_tags(detector, &mut new, &mut detections);
            *tags = [old, new].concat();
        }
        if let Some(metadata) = &mut details.metadata {
            let (old, mut new): (Vec<_>, Vec<_>) = std::mem::take(metadata)
                .into_iter()
                .partition(|entry| known.metadata.contains(entry));
            examine_metadata(detector, &mut new, &mut detections);
            *metadata = [old, new].concat();
            metadata.sort();
        }
        let after = patch.details.applied_to(present.details.as_deref());
        Self::marked(patch, detections, after.as_deref())
    }

    /// Examines what a memory says once a patch has moved it.
    fn examine_moved(
        detector: &Detector,
        patch: &mut MemoryPatch,
        present: &Memory,
    ) -> ApiResult<()> {
        patch.moved = Some(Etag::of(present));
        let mut detections = Detections::default();
        let mut label = patch.label.as_ref().map_or(&present.label, |(label, _)| label).clone();
        examine_text(detector, &mut label, &mut detections);
        if patch.label.is_some() || label != present.label {
            patch.label = Some((label, Vector::default()));
        }
        let mut after = patch.details.applied_to(present.details.as_deref());
        examine_details(detector, after.as_mut(), &mut detections);
        if after != present.details {
            let Details { tags, metadata } = after.as_deref().cloned().unwrap_or_default();
            patch.details = DetailsPatch {
                tags: Some(tags),
                metadata: Some(metadata),
                ..DetailsPatch::default()
            };
        }
        for key_point in &present.key_points {
            examine_name(detector, key_point, "its key points", &mut detections);
        }
        for (name, what) in [
            (patch.namespace.as_deref(), "its namespace"),
            (present.external_id.as_deref(), "its external_id"),
        ] {
            examine_name(detector, name.unwrap_or_default(), what, &mut detections);
        }
        Self::marked(patch, detections, after.as_deref())
    }

    /// What becomes of a patch in each of these namespaces, which may have different rules.
    pub(super) fn examine_for(
        guard: &CompiledGuard,
        patch: &MemoryPatch,
        namespaces: BTreeSet<String>,
    ) -> ApiResult<Vec<MemoryPatch>> {
        let mut patches: Vec<(*const Detector, MemoryPatch)> = Vec::new();
        for namespace in namespaces {
            let detector = guard.detector(&namespace);
            if let Some((_, same)) = patches.iter_mut().find(|(of, _)| std::ptr::eq(*of, detector))
            {
                same.examined_in.push(namespace);
                continue;
            }
            let mut patch = patch.clone();
            patch.examined_in = vec![namespace];
            Self::examine_texts(detector, &mut patch)?;
            patches.push((detector, patch));
        }
        Ok(patches.into_iter().map(|(_, patch)| patch).collect())
    }

    /// Examines all texts of a patch.
    pub(super) fn examine_texts(detector: &Detector, patch: &mut MemoryPatch) -> ApiResult<()> {
        let mut detections = Detections::default();
        if let Some((label, _)) = &mut patch.label {
            examine_text(detector, label, &mut detections);
        }
        let details = &mut patch.details;
        for tags in [details.tags.as_mut(), Some(&mut details.add_tags)].into_iter().flatten() {
            examine_tags(detector, tags, &mut detections);
        }
        if let Some(metadata) = &mut details.metadata {
            examine_metadata(detector, metadata, &mut detections);
        }
        let after = patch.details.applied_to(None);
        Self::marked(patch, detections, after.as_deref())
    }

    /// Marks a patch with what was found in it. `after` is what the memory then has.
    fn marked(
        patch: &mut MemoryPatch,
        detections: Detections,
        after: Option<&Details>,
    ) -> ApiResult<()> {
        patch.guard = accepted(detections)?;
        if patch.is_reviewed {
            // An admin reviews the text that it becomes.
            patch.guard = patch.guard.reviewed();
        } else if patch.guard.is_quarantined() {
            return Err(guarded("the guard quarantines such a text: a change cannot wait there"));
        }
        check_sizes(patch.label.as_ref().map_or("", |(label, _)| label), &[], after)
    }

    /// What the guard leaves of a text that is to be stored in a namespace.
    pub(crate) fn examined(&self, namespace: &str, text: &str) -> ApiResult<(String, GuardMark)> {
        let (guard, mut detections) = (self.guard(), Detections::default());
        let examine = || guard.detector(namespace).examine(text, &mut detections).into_owned();
        let clean = tokio::task::block_in_place(examine);
        Ok((clean, accepted(detections)?))
    }

    /// The same, of a name that must stay as it is.
    pub(crate) fn check_name(&self, namespace: &str, name: &str) -> ApiResult<()> {
        match self.examined(namespace, name)?.0 == name {
            true => Ok(()),
            false => Err(guarded("the guard of this namespace redacts the name: use another one")),
        }
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
            examine_name(detector, &activity.action, "its action", &mut detections);
            let target_id = activity.target_id.as_deref().unwrap_or_default();
            examine_name(detector, target_id, "its target_id", &mut detections);
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
