//! A call of a tool: who calls, and what the headers of the request say.

use std::sync::Arc;

use storage::Filter;

use crate::error::ApiResult;
use crate::requests::fields::Namespace;
use crate::requests::headers::{NamespaceHeader, RequestOrigin};
use crate::service::Session;

/// A call of a tool: who calls, and what the headers of the request say.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) session: Session,
    pub(super) home: NamespaceHeader,
    pub(super) origin: Arc<RequestOrigin>,
}

impl Call {
    /// The memories that a read may return.
    pub(super) fn filter(&self, namespace: Option<Namespace>) -> ApiResult<Filter> {
        self.home.filter(&self.session, namespace)
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
