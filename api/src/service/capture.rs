//! What the hooks of coding agents do without the decision of a model: a prompt recalls what is known, and the
//! turns of a session are captured for a while.
//!
//! Captured turns are memories of a namespace for each project, with a tag, below that of the key. They end
//! after two weeks without a recall. Other projects do not recall them.

use std::sync::LazyLock;

use jiff::tz::TimeZone;
use storage::model::details::{Details, MetadataEntry};
use storage::model::duplicate::OnDuplicate;
use storage::model::guard::{GuardAction, GuardRule};
use storage::model::id::MemoryId;
use storage::model::memory::{MemoryRecord, Origin};
use storage::model::tenant::Role;
use storage::model::times::Times;
use storage::text::tokenizer::words;
use storage::{Condition, Filter, NewMemory, Touched};
use uuid::Uuid;

use crate::error::ApiResult;
use crate::guard::{Detections, Detector};
use crate::limits::QUERY_BYTES_MAX;
use crate::service::Session;
use crate::service::context::ContextText;

/// Part of the namespaces of captured turns, and their tag.
pub(super) const CAPTURED: &str = "captured";
/// Seconds that a captured turn is kept after its last recall.
const KEPT_SECONDS: u64 = 14 * 86_400;
/// Heat of a captured turn: what an agent stores by itself comes first.
const HEAT: f32 = 0.5;
/// Longest text of a captured turn, in bytes.
const TURN_BYTES_MAX: usize = 4 << 10;
/// Fewest different words of a turn: "yes" and "go on" say nothing later.
const WORDS_MIN: usize = 3;
/// Longest id of a session that is kept, in bytes.
const SESSION_BYTES_MAX: usize = 128;
/// Longest name of a project, in bytes.
const PROJECT_BYTES_MAX: usize = 48;

/// Removes secrets and numbers, whatever the rules of the tenant.
static CAPTURED_TEXTS: LazyLock<Detector> = LazyLock::new(|| {
    Detector::new(GuardRule {
        secrets: GuardAction::Redact,
        numbers: GuardAction::Redact,
        instructions: GuardAction::Off,
        ..GuardRule::default()
    })
});

/// A part of a session of a coding agent.
pub(crate) struct Turn<'a> {
    /// `user` or `assistant`.
    pub(crate) role: &'static str,
    pub(crate) text: &'a str,
    /// The id that the agent gives the session.
    pub(crate) session: Option<String>,
}

/// Where a session works.
#[derive(Clone)]
pub(crate) struct Project {
    /// The namespace of its turns, and that above it in which the key stores.
    pub(super) namespace: String,
    pub(super) base: String,
    /// The namespace whose memories are boosted.
    home: Option<String>,
}

impl Project {
    /// The project of a folder, for a key that stores in `base`. `home` is the namespace of the request.
    pub(crate) fn of(base: &str, folder: Option<&str>, home: Option<String>) -> Self {
        let name = folder.unwrap_or_default().trim_end_matches(['/', '\\']);
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let name: String = name.chars().filter(|char| !char.is_control()).collect();
        let name = &name[..name.floor_char_boundary(PROJECT_BYTES_MAX)];
        let name = if name.is_empty() { "none" } else { name };
        Self { namespace: format!("{base}/{CAPTURED}/{name}"), base: base.to_owned(), home }
    }
}

/// A text of a turn without secrets, and not longer than one that is captured.
pub(super) fn clean(text: &str) -> String {
    let examine = || CAPTURED_TEXTS.examine(text.trim(), &mut Detections::default());
    let text = tokio::task::block_in_place(examine);
    match text.floor_char_boundary(TURN_BYTES_MAX) {
        end if end < text.len() => format!("{}…", &text[..end]),
        _ => text.into_owned(),
    }
}

/// The session of a turn, as metadata have it.
pub(super) fn session_entry(id: &str) -> MetadataEntry {
    let id = &id[..id.floor_char_boundary(SESSION_BYTES_MAX)];
    ("session".to_owned(), serde_json::Value::from(id).to_string())
}

/// Whether a text has enough words to be recalled by, or later.
fn says_something(text: &str) -> bool {
    !text.starts_with('/') && words(std::iter::once(text)).len() >= WORDS_MIN
}

impl Session {
    /// What may be recalled in a project: all that the caller may read, but the turns of other projects.
    fn recalled(&self, project: &Project) -> ApiResult<Filter> {
        let others = Condition::Not(Box::new(Condition::Tag(CAPTURED.to_owned())));
        let own = Condition::Below(project.namespace.clone());
        let condition = Some(Condition::Any(vec![others, own]));
        Ok(Filter { condition, now: self.now(), ..self.filter(Some("*".to_owned()), None)? })
    }

    /// What matches a prompt, in at most `room` tokens; without a memory if nothing does.
    pub(crate) async fn recall(
        &self,
        project: &Project,
        prompt: &str,
        zone: TimeZone,
        room: usize,
    ) -> ApiResult<ContextText> {
        if !says_something(prompt) {
            return Ok(ContextText::default());
        }
        let filter = self.recalled(project)?;
        let query = prompt[..prompt.floor_char_boundary(QUERY_BYTES_MAX)].to_owned();
        let home = project.home.clone();
        // An agent takes what is only near for an answer.
        self.evident_context(query, filter, home, zone, room).await
    }

    /// Pinned and hot memories at the beginning of a session.
    pub(crate) async fn recall_present(
        &self,
        project: &Project,
        zone: TimeZone,
        room: usize,
    ) -> ApiResult<ContextText> {
        let filter = self.recalled(project)?;
        self.load_context(None, filter, project.home.clone(), zone, room).await
    }

    /// Stores a turn without its secrets, unless the caller may not, or the text says nothing. The namespace
    /// may be closed to the key: then nothing is captured. Returns the memory of the turn.
    pub(crate) async fn capture(
        &self,
        project: &Project,
        turn: Turn<'_>,
    ) -> ApiResult<Option<MemoryRecord>> {
        let label = clean(turn.text);
        if self.caller.role < Role::Agent
            || !says_something(&label)
            || !self.caller.access.allows(&project.namespace)
        {
            return Ok(None);
        }
        // What the guard leaves of it: by that it may be rejected later.
        let label = match self.examined(&project.namespace, &label) {
            Ok((label, _)) => label,
            Err(_) => return Ok(None),
        };
        let session = turn.session.map(|id| session_entry(&id));
        let namespaces = [&project.namespace, &project.base];
        let unless_rejected =
            namespaces.into_iter().map(|namespace| self.value_hash(namespace, &label)).collect();
        let tags = vec![CAPTURED.to_owned(), turn.role.to_owned()];
        let origin = Origin {
            key: Some(self.caller.key),
            agent: Some(self.caller.name.clone()),
            client: None,
            tool: Some("hook".to_owned()),
        };
        let (id, namespace) = (MemoryId(Uuid::now_v7().into_bytes()), project.namespace.clone());
        let new = NewMemory {
            initial_heat: HEAT,
            on_duplicate: Some(OnDuplicate::Merge),
            details: Details { tags, metadata: session.into_iter().collect() }.some(),
            times: Times {
                ttl_seconds: Some(KEPT_SECONDS),
                refresh_on_read: true,
                ..Times::default()
            },
            unless_rejected,
            ..NewMemory::of_text(id, label, namespace, origin)
        };
        match self.create_memories(vec![new]).await {
            Ok(done) => {
                self.request.set_created(done.value.created());
                Ok(done.value.memories.into_iter().find_map(|touched| match touched.now {
                    Touched::Memory(record) => Some(*record),
                    _ => None,
                }))
            }
            Err(error) if ["guarded", "value_rejected"].contains(&error.code) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A text for an agent; `None` without memories.
pub(crate) fn text_of(context: ContextText) -> Option<String> {
    Some(context.text).filter(|_| !context.ids.is_empty())
}
