//! What the tools do: each reads its arguments, calls the service, and builds its result. A call has the
//! caller, and what the headers of the request say.

use std::sync::Arc;

use jiff::tz::TimeZone;
use storage::command::{CreateEdge, DeleteTrigger, GiveFeedback};
use storage::model::id::MemoryId;
use storage::model::memory::MemoryRecord;
use storage::model::tenant::Role;
use storage::model::trigger::TriggerActionKind;
use storage::{
    EdgeReply, Filter, HotRequest, ListRequest, Rejection, SearchRequest, TierFilter, Touched,
    TouchedMemories, TriggerReply,
};
use url::Url;

use crate::app::VERSION;
use crate::error::{ApiResult, ErrorKind};
use crate::mcp::arguments::*;
use crate::mcp::results::*;
use crate::prelude::*;
use crate::requests::context::{ContextRequest, LoadedContext};
use crate::requests::fields::Namespace;
use crate::requests::headers::{NamespaceHeader, RequestOrigin};
use crate::requests::memories::{MemoryChanges, NewMemory, Relation};
use crate::requests::numbers::Heat;
use crate::requests::triggers;
use crate::requests::triggers::{TriggerView, notifications};
use crate::requests::values::Text;
use crate::responses::memory::{SearchSummary, metadata};
use crate::responses::type_counts;
use crate::service::Session;
use crate::service::freshness::Freshness;
use crate::service::writes::WriteResult;

/// Neighbours of a memory that is read.
const READ_NEIGHBOURS: usize = 10;
/// Most triggers of a list.
const TRIGGERS_MAX: usize = 100;

pub(super) async fn remember(call: Call, new: Remember) -> ApiResult<Changed> {
    let new = NewMemory {
        label: Some(Text(new.content.0)),
        memory_type: new.memory_type.or(Some(OneOf(MemoryType::Semantic))),
        initial_heat: new.heat.map(Heat::from),
        namespace: new.namespace,
        key_points: new.key_points,
        tags: new.tags,
        metadata: new.metadata,
        supersedes: new.supersedes,
        occurred_at: new.occurred_at,
        valid_from: new.valid_from,
        valid_until: new.valid_until,
        ttl_seconds: new.ttl_seconds,
        ..NewMemory::default()
    };
    let origin = call.origin.of_tool(&call.session.caller, "sulcus_remember");
    let new = new.into_memory(&call.store_namespace(), origin)?;
    let done = call.session.create_memories(vec![new]).await?;
    call.session.request.set_created(done.value.created());
    first_changed(done)
}

fn first_changed(done: WriteResult<TouchedMemories>) -> ApiResult<Changed> {
    let first = done.value.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    let memory = match first.now {
        Touched::Memory(record) => Some(MemoryView::new(&record, None)),
        Touched::Deleted | Touched::TooLong => None,
    };
    Ok(Changed {
        memory_id: Id(first.id),
        memory,
        is_duplicate: first.is_duplicate,
        notifications: notifications(&done.notifications),
    })
}

pub(super) async fn search(call: Call, mut search: SearchFor) -> ApiResult<Memories> {
    let (filter, namespace) = search.take_filters(&call.zone)?;
    let archived = search.include_archived.unwrap_or(false);
    let tier = if archived { TierFilter::All } else { TierFilter::Hot };
    let request = SearchRequest {
        query: search.query.0,
        filter: call.readable(Filter { tier, ..filter }, namespace)?,
        home_namespace: call.home(),
        limit: search.limit.get(),
        zone: Some(call.zone.clone()),
        ..SearchRequest::default()
    };
    let found = call.session.search(request).await?;
    let memories = found.hits.iter().map(|hit| MemoryView::new(&hit.record, Some(hit.score)));
    let memories = memories.collect();
    let SearchSummary { evidence, cold_matches } = SearchSummary::new(&found);
    Ok(Memories { evidence, cold_matches: Some(cold_matches), ..Memories::new(memories) })
}

pub(super) async fn list(call: Call, mut list: ListPage) -> ApiResult<Memories> {
    let (page, limit, offset) = list.paging();
    let (filter, namespace) = list.take_filters(&call.zone)?;
    let filter = Filter { pinned: list.pinned, tier: TierFilter::All, ..filter };
    let filter = call.readable(filter, namespace)?;
    let request = ListRequest { filter, offset, limit, ..ListRequest::default() };
    let found = call.session.list(request).await?;
    let memories = found.memories.iter().map(|record| MemoryView::new(record, None)).collect();
    let total = u64::try_from(found.total).ok();
    Ok(Memories { total, page: Some(page), ..Memories::new(memories) })
}

pub(super) async fn read(call: Call, memory: OneMemory) -> ApiResult<MemoryRead> {
    let id = memory.memory_id.0;
    let memory = MemoryView::whole(&call.session.memory(id).await?);
    let found = call.session.neighbours(id, 1, READ_NEIGHBOURS).await?;
    Ok(MemoryRead { memory, neighbors: found.iter().map(NeighbourView::new).collect() })
}

pub(super) async fn traverse(call: Call, from: Traverse) -> ApiResult<Neighbours> {
    let (depth, limit) = (from.depth.get() as u32, from.limit.get());
    let found = call.session.neighbours(from.memory_id.0, depth, limit).await?;
    Ok(Neighbours { neighbors: found.iter().map(NeighbourView::new).collect() })
}

/// The search of [`search`], for programs that require this form.
pub(super) async fn find(call: Call, find: FindQuery) -> ApiResult<Documents> {
    let request = SearchRequest {
        query: find.query.0,
        filter: call.filter(None)?,
        home_namespace: call.home(),
        limit: ToolLimit::default().get(),
        zone: Some(call.zone.clone()),
        ..SearchRequest::default()
    };
    let found = call.session.search(request).await?;
    Ok(Documents { results: found.hits.iter().map(|hit| document_title(&hit.record)).collect() })
}

pub(super) async fn fetch(call: Call, one: OneDocument) -> ApiResult<Document> {
    let record = call.session.memory(one.id.0).await?;
    let head = document_title(&record);
    let metadata = record.memory.details.as_deref().map(metadata).unwrap_or_default();
    Ok(Document { head, text: record.memory.label, metadata })
}

fn document_title(record: &MemoryRecord) -> DocumentTitle {
    DocumentTitle { id: Id(record.id), title: title(record), url: format!("{MEMORY}{}", record.id) }
}

pub(super) async fn update(call: Call, update: Update) -> ApiResult<Changed> {
    let changes = MemoryChanges {
        label: update.label,
        memory_type: update.memory_type,
        is_pinned: update.is_pinned,
        current_heat: update.heat.map(Heat::from),
        tags: update.tags,
        metadata: update.metadata,
        ..MemoryChanges::default()
    };
    let patch = changes.into_patch()?;
    first_changed(call.session.update_memory(update.memory_id.0, patch).await?)
}

async fn set_pinned(call: Call, id: MemoryId, is_pinned: bool) -> ApiResult<Changed> {
    let changes = MemoryChanges { is_pinned: Some(is_pinned), ..MemoryChanges::default() };
    first_changed(call.session.update_memory(id, changes.into_patch()?).await?)
}

pub(super) async fn pin(call: Call, memory: OneMemory) -> ApiResult<Changed> {
    set_pinned(call, memory.memory_id.0, true).await
}

pub(super) async fn unpin(call: Call, memory: OneMemory) -> ApiResult<Changed> {
    set_pinned(call, memory.memory_id.0, false).await
}

pub(super) async fn forget(call: Call, forget: Forget) -> ApiResult<Forgotten> {
    let is_wrong = forget.is_wrong.unwrap_or(false);
    call.session.delete_memory(forget.memory_id.0, is_wrong).await?;
    Ok(Forgotten { memory_id: forget.memory_id, deleted: true })
}

pub(super) async fn relate(call: Call, relation: Relation) -> ApiResult<Related> {
    let EdgeReply { edge, is_new } =
        call.session.submit(CreateEdge(relation.into_edge()?)).await?.value;
    let (source_id, target_id) = (Id(edge.source), Id(edge.target));
    Ok(Related { source_id, target_id, relation: edge.relation, is_new })
}

pub(super) async fn load_context(call: Call, load: ContextRequest) -> ApiResult<LoadedContext> {
    load.load(&call.session, &call.home, call.zone.clone()).await
}

pub(super) async fn hottest(call: Call, hottest: Hottest) -> ApiResult<Memories> {
    let filter = call.filter(hottest.namespace)?;
    let request = HotRequest { filter, limit: hottest.limit.get(), ..HotRequest::default() };
    let found = call.session.hottest(request).await?;
    Ok(Memories::new(found.iter().map(|record| MemoryView::new(record, None)).collect()))
}

pub(super) async fn feedback(call: Call, feedback: Feedback) -> ApiResult<FeedbackGiven> {
    let (id, signal) = (feedback.memory_id.0, feedback.signal.0);
    let effect = call.session.submit(GiveFeedback { id, signal }).await?.value;
    let (before, after) = (percent(effect.heat_before), percent(effect.heat_after));
    let (memory_id, tier) = (feedback.memory_id, OneOf(effect.tier));
    Ok(FeedbackGiven { memory_id, heat_before: before, heat_after: after, tier })
}

pub(super) async fn status(call: Call, _: Nothing) -> ApiResult<StatusView> {
    let (caller, access) = (&call.session.caller, call.session.caller.access.clone());
    let filter = Filter { access, tier: TierFilter::All, ..Filter::default() };
    let found = call.session.overviews(vec![filter]).await?;
    let [all] = &found[..] else { return Err(ApiError::internal()) };
    Ok(StatusView {
        memories: all.hot + all.cold,
        archived: all.cold,
        average_heat: percent(all.average_heat),
        memory_types: type_counts(all),
        agent: caller.name.clone(),
        role: OneOf(caller.role),
        namespace: call.store_namespace(),
        version: VERSION,
    })
}

pub(super) async fn triggers(call: Call, _: Nothing) -> ApiResult<Triggers> {
    let page = call.session.triggers(None, None, TRIGGERS_MAX).await?;
    let view = |(compiled, firings): &(Arc<storage::CompiledTrigger>, _)| {
        TriggerView::new(&call.session.caller, compiled.id, &compiled.trigger, firings)
    };
    Ok(Triggers { triggers: page.items.iter().map(view).collect(), has_more: page.next.is_some() })
}

pub(super) async fn create_trigger(call: Call, new: NewTrigger) -> ApiResult<TriggerCreated> {
    let new = triggers::NewTrigger {
        event: new.event,
        action: new.action,
        description: None,
        namespace: None,
        enabled: None,
        action_config: new.action_config,
        name: new.name,
        filter_memory_type: new.filter_memory_type,
        filter_namespace: new.filter_namespace,
        filter_label_pattern: new.filter_label_pattern,
        filter_heat_below: new.filter_heat_below.map(Heat::from),
        filter_heat_above: new.filter_heat_above.map(Heat::from),
        max_fires: new.max_fires,
        cooldown_seconds: new.cooldown_seconds,
    };
    let (kind, settings) = (new.action.0, new.action_settings()?);
    if kind == TriggerActionKind::Webhook {
        check_receiver(&call, settings.url.as_deref()).await?;
    }
    let build = |action| new.into_trigger(action);
    let TriggerReply { id, now } = call.session.create_trigger(kind, settings, build).await?.value;
    // A repetition may find it deleted.
    let (trigger, firings) = now.ok_or_else(|| Rejection::NoSuch("trigger".into()))?;
    let trigger = TriggerView::new(&call.session.caller, id, &trigger, &firings);
    Ok(TriggerCreated { trigger })
}

/// Rejects a webhook that an agent directs to a host which no admin has allowed: the text of a memory
/// may have led the agent to it.
async fn check_receiver(call: &Call, url: Option<&str>) -> ApiResult<()> {
    if call.session.caller.role >= Role::Admin {
        return Ok(());
    }
    let host = url.and_then(|url| Some(Url::parse(url).ok()?.host_str()?.to_lowercase()));
    let allowed = call.session.tenant().await?.webhook_hosts;
    if host.is_some_and(|host| allowed.contains(&host)) {
        return Ok(());
    }
    let message = "the tools direct webhooks only to the hosts in `webhook_hosts` of the tenant, unless \
                   the key is that of an admin";
    Err(ApiError::new(ErrorKind::Forbidden, "webhook_host_forbidden", message))
}

pub(super) async fn delete_trigger(call: Call, one: OneTrigger) -> ApiResult<TriggerDeleted> {
    call.session.submit(DeleteTrigger(one.trigger_id.0)).await?;
    Ok(TriggerDeleted { trigger_id: one.trigger_id, deleted: true })
}

/// A call of a tool: who calls, and what the headers of the request say.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) session: Session,
    /// Of what its reads return, at least.
    pub(super) freshness: Freshness,
    pub(super) home: NamespaceHeader,
    pub(super) zone: TimeZone,
    pub(super) origin: Arc<RequestOrigin>,
}

impl Call {
    /// The memories that a read may return.
    pub(super) fn filter(&self, namespace: Option<Namespace>) -> ApiResult<Filter> {
        self.home.filter(&self.session, namespace)
    }

    /// Those of them that pass a filter too.
    fn readable(&self, filter: Filter, namespace: Option<Namespace>) -> ApiResult<Filter> {
        let Filter { access, namespace, .. } = self.filter(namespace)?;
        Ok(Filter { access, namespace, now: self.session.now(), ..filter })
    }

    /// Where memories are stored that name no namespace.
    pub(super) fn store_namespace(&self) -> String {
        self.session.store_namespace(self.home.namespace())
    }

    /// The namespace whose memories searches boost.
    pub(super) fn home(&self) -> Option<String> {
        self.home.namespace().or(self.session.caller.namespace.clone())
    }
}
