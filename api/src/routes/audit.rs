//! The audit log: of a tenant for its admins, of the cluster for its operator.

use std::net::IpAddr;

use axum::Json;
use serde::Deserialize;
use storage::model::audit::{AuditActor, AuditChain, AuditEntry, Fields};
use storage::{AuditPage, AuditRequest, Order};
use utoipa::IntoParams;

use crate::openapi::OperatorReadErrors;
use crate::prelude::*;
use crate::requests::values::{Id, OneOf};
use crate::service::Operator;

/// Which acts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// By default `administration`.
    chain: Option<AuditChainWord>,
    #[serde(default)]
    #[param(inline)]
    limit: ActivityLimit,
    /// By default `desc`, the latest first.
    #[param(inline)]
    order: Option<AuditOrder>,
    /// The `next_cursor` of the page before, or a number: the page begins after it.
    #[param(inline)]
    cursor: Option<AuditNumber>,
    /// Only such acts.
    action: Option<AuditActionWord>,
    /// Only acts of this key.
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    key_id: Option<KeyIdText>,
}

impl AuditQuery {
    pub(crate) fn chain(&self) -> AuditChain {
        self.chain.as_ref().map_or(AuditChain::Administration, |OneOf(chain)| *chain)
    }

    pub(crate) fn request(&self) -> AuditRequest {
        AuditRequest {
            is_ascending: self
                .order
                .as_ref()
                .is_some_and(|OneOf(order)| *order == Order::Ascending),
            after: self.cursor.as_ref().map(|number| number.0),
            limit: self.limit.get(),
            action: self.action.as_ref().map(|OneOf(action)| *action),
            key: self.key_id.as_ref().map(|Id(key)| *key),
        }
    }
}

/// A page of a chain of the audit log.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditLogPage {
    chain: AuditChainWord,
    /// Number of the first entry that is kept, from 1.
    first: u64,
    /// SHA-256 of the entry before it: 64 hexadecimal digits, zeros if it is the first of all.
    anchor: String,
    /// Number of the last entry; 0 without one.
    last: u64,
    /// Its SHA-256.
    head: String,
    items: Vec<AuditItem>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// An act.
#[derive(Serialize, ToSchema)]
struct AuditItem {
    number: u64,
    at: Time,
    actor: ActorView,
    /// Address of the request; null for the service itself.
    #[schema(required, value_type = Option<String>)]
    source: Option<IpAddr>,
    action: AuditActionWord,
    /// What was changed: its kind and its id.
    target: String,
    /// Values before, if they differ afterwards.
    #[schema(value_type = BTreeMap<String, String>)]
    before: Fields,
    /// Values afterwards, if they were different before.
    #[schema(value_type = BTreeMap<String, String>)]
    after: Fields,
    /// SHA-256 of the entry before.
    previous_hash: String,
    /// SHA-256 of this entry.
    hash: String,
}

/// Who acted.
#[derive(Serialize, ToSchema)]
struct ActorView {
    /// `key`, `operator` or `service`.
    kind: String,
    /// Of a key, as at that time; empty for others.
    key_id: String,
    name: String,
    role: String,
}

/// List the acts of a chain of the audit log, the latest first.
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "access", params(AuditQuery, ReadHeaders),
    responses((status = OK, body = AuditLogPage), ReadErrors))]
pub(crate) async fn list_audit_entries(
    AdminRead(session, freshness): AdminRead,
    ValidQuery(query): ValidQuery<AuditQuery>,
) -> ApiResponse<AuditLogPage> {
    let page = session.audit(query.chain(), query.request()).await?;
    Ok(Success::ok(freshness, page_of(&query, page)))
}

/// List entries of a chain of the operator's audit log.
#[utoipa::path(get, path = "/cluster/audit", tag = "cluster", params(AuditQuery),
    responses((status = OK, body = AuditLogPage), OperatorReadErrors))]
pub(crate) async fn list_operator_audit_entries(
    operator: Operator,
    ValidQuery(query): ValidQuery<AuditQuery>,
) -> ApiResult<Json<AuditLogPage>> {
    let request: AuditRequest = query.request();
    let page = operator.audit(query.chain(), request).await?;
    Ok(Json(page_of(&query, page)))
}

fn page_of(query: &AuditQuery, page: AuditPage) -> AuditLogPage {
    let AuditPage { ends, entries, next } = page;
    AuditLogPage {
        chain: OneOf(query.chain()),
        first: ends.first,
        anchor: hex::encode(ends.anchor),
        last: ends.last,
        head: hex::encode(ends.head),
        items: entries.into_iter().map(AuditItem::from).collect(),
        next_cursor: next.map(|number| number.to_string()),
    }
}

impl From<AuditEntry> for AuditItem {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, act, previous, hash } = entry;
        Self {
            number,
            at: Time(act.at),
            actor: (&act.actor).into(),
            source: act.source,
            action: OneOf(act.action),
            target: act.target,
            before: act.before,
            after: act.after,
            previous_hash: hex::encode(previous),
            hash: hex::encode(hash),
        }
    }
}

impl From<&AuditActor> for ActorView {
    fn from(actor: &AuditActor) -> Self {
        let [kind, key_id, name, role] = actor.texts();
        Self { kind, key_id, name, role }
    }
}
