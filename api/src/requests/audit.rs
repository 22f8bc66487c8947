//! Requests about the audit log.

use serde::Deserialize;
use storage::model::audit::AuditChain;
use storage::{AuditRequest, Order};
use utoipa::IntoParams;

use crate::requests::fields::*;
use crate::requests::values::{Id, OneOf};

/// Which acts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// By default `administration`.
    chain: Option<AuditChainWord>,
    #[serde(default)]
    limit: ActivityLimit,
    /// By default `desc`, the latest first.
    order: Option<AuditOrder>,
    /// The `next_cursor` of the page before, or a number: the page begins after it.
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
