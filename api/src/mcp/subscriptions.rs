//! Subscriptions of the revision 2026-07-28: a client learns in a stream that a memory or the context
//! changed. Older revisions need sessions for them.

use std::collections::BTreeSet;

use rmcp::model::{
    Notification, ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter,
};
use rmcp::service::SubscriptionContext;
use storage::model::journal::{Cursor, EventKind, EventName};

use crate::app::App;
use crate::error::ApiResult;
use crate::following::{Followed, follow};
use crate::limits::MCP_SUBSCRIPTIONS_MAX;
use crate::mcp::calls::Call;
use crate::mcp::resources::{CONTEXT, memory_at};
use crate::mcp::results::MEMORY;

/// Events that change what a resource contains.
const KINDS: [EventName; 8] = [
    EventName::Created,
    EventName::Updated,
    EventName::Feedback,
    EventName::Warmed,
    EventName::Cooled,
    EventName::Archived,
    EventName::Restored,
    EventName::Deleted,
];

/// The part of a subscription that is served: changes of memories, of the context and of the list of
/// memories. What a key may do changes seldom: clients list tools and prompts again.
pub(super) fn accepted(requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
    let mut accepted = SubscriptionFilter::new();
    accepted.resources_list_changed = requested.resources_list_changed;
    let uris = requested.resource_subscriptions.iter().flatten();
    let uris = uris.filter(|uri| *uri == CONTEXT || memory_at(uri).is_some());
    let uris: Vec<_> = uris.take(MCP_SUBSCRIPTIONS_MAX).cloned().collect();
    accepted.resource_subscriptions = Some(uris).filter(|uris| !uris.is_empty());
    Some(accepted)
}

/// Sends notifications until the client is gone, its key is deleted, or this node shuts down: the client
/// then subscribes again elsewhere.
pub(super) async fn listen(
    app: &App,
    call: &Call,
    subscription: SubscriptionContext,
) -> ApiResult<()> {
    let accepted = subscription.accepted();
    let follows_list = accepted.resources_list_changed == Some(true);
    let uris: BTreeSet<_> = accepted.resource_subscriptions.iter().flatten().cloned().collect();
    let namespace = call.session.read_namespace(None, call.home.namespace())?;
    let after = Cursor::after(call.freshness.index);
    let mut followed = follow(app, &call.session, KINDS.to_vec(), namespace, after)?;
    loop {
        let event = tokio::select! {
            followed = followed.recv() => match followed {
                Some(Followed::Event(view)) => view.event,
                Some(Followed::Marker(..)) => continue,
                None => return Ok(()),
            },
            () = subscription.cancelled() => return Ok(()),
        };
        let memory = event.subject.map(|id| format!("{MEMORY}{id}"));
        let changed = [Some(CONTEXT.to_owned()), memory].into_iter().flatten();
        let mut notifications: Vec<_> =
            changed.filter(|uri| uris.contains(uri)).map(updated).collect();
        let is_listed = matches!(event.kind, EventKind::Created | EventKind::Deleted(_));
        if follows_list && is_listed {
            let changed = ServerNotification::ResourceListChangedNotification(Default::default());
            notifications.push(changed);
        }
        for notification in notifications {
            if subscription.sink().send(notification).await.is_err() {
                return Ok(());
            }
        }
    }
}

fn updated(uri: String) -> ServerNotification {
    let param = ResourceUpdatedNotificationParam::new(uri);
    ServerNotification::ResourceUpdatedNotification(Notification::new(param))
}
