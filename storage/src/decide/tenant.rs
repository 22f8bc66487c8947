//! Rules for a tenant as a whole: its settings, its name, and activities that agents record.

use crate::change::Change;
use crate::decide::context::Context;
use crate::decide::error::Decided;
use crate::model::journal::{AgentActivity, Event, EventKind};
use crate::model::tenant::Tenant;
use crate::model::thermo::SettingValue;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Changes settings, all or none. Anchors stay as they are: heat is read by the new settings
/// from here on.
pub(super) fn update_settings(
    context: &mut Context<'_, '_>,
    changes: &[(String, SettingValue)],
) -> Decided<Reply> {
    let mut row = existing(context)?;
    let thermo = Box::new(row.thermo.with(changes).map_err(Rejection::Setting)?);
    if thermo != row.thermo {
        row.thermo = thermo.clone();
        context.push(Change::TenantPut(context.tenant, row));
    }
    Ok(Reply::Settings(thermo))
}

pub(super) fn rename(context: &mut Context<'_, '_>, name: &str) -> Decided<Reply> {
    let row = existing(context)?;
    context.push(Change::TenantPut(context.tenant, Tenant { name: name.to_owned(), ..row }));
    Ok(Reply::Done)
}

/// Appends an agent's own activity to the journal.
pub(super) fn record_activity(context: &mut Context<'_, '_>, activity: &AgentActivity) -> Reply {
    let event = Event {
        at: context.now(),
        actor: context.actor,
        subject: None,
        namespace: String::new(),
        kind: EventKind::Activity(activity.clone()),
    };
    context.push(Change::EventAppended(context.tenant, event));
    Reply::Done
}

fn existing(context: &Context<'_, '_>) -> Decided<Tenant> {
    let row = context.draft.tenant(context.tenant)?;
    Ok(row.ok_or_else(|| Rejection::NoSuch("tenant".into()))?)
}
