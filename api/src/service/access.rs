//! Callers: authentication by API key, keys, access rules, and the caller's own namespace. Random bytes for
//! secrets come from the operating system's generator.

use std::sync::Arc;

use raft::SubmitError;
use ring::rand::{SecureRandom, SystemRandom};
use storage::command::{CreateKey, RotateKey, SetKeyNamespace};
use storage::model::access::{Access, Rules};
use storage::model::api_key::{ApiKey, KeyText, NewApiKey};
use storage::model::id::{KeyId, Timestamp};
use storage::model::memory::NAMESPACE_DEFAULT;
use storage::model::tenant::Role;
use storage::model::trigger::Trigger;
use storage::{Filter, KeyReply, Rejection, View};

use crate::admission::rates::RateStatus;
use crate::admission::request::RequestContext;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::service::freshness::Freshness;
use crate::service::writes::WriteResult;
use crate::service::{PageOf, Service, Session};

impl Service {
    /// A request of the caller with this key.
    pub(crate) fn authenticate(
        self: &Arc<Self>,
        key: &str,
        request: &Arc<RequestContext>,
    ) -> ApiResult<Session> {
        match self.reader.authenticate(key) {
            Some(caller) if caller.is_suspended => Err(Rejection::TenantSuspended.into()),
            Some(caller) => {
                let (service, request) = (Arc::clone(self), Arc::clone(request));
                Ok(Session { service, caller, request })
            }
            // A node without contact to its cluster cannot distinguish a wrong key from a new one.
            None => Err(match self.raft.status().quarantine {
                Some(_) => SubmitError::Quarantined.into(),
                None if self.is_in_contact() => ApiError::unauthorized(),
                None => SubmitError::NoLeader.into(),
            }),
        }
    }
}

impl Session {
    /// Counts the request against the limit of its tenant, if that has one, and for the turns of
    /// tenants.
    pub(crate) async fn accept(&self) -> ApiResult<()> {
        let (service, tenant) = (&self.service, self.caller.tenant);
        if let Some(limit) = self.caller.requests_per_minute {
            let accepted = service.rates.accept(&service.raft, tenant, limit).await;
            let (Ok(rate_status) | Err(rate_status)) = accepted;
            self.request.set_rate_status(rate_status);
            accepted.map_err(RateStatus::error)?;
        }
        service.raft.record_use(tenant);
        Ok(())
    }

    /// The namespace that a read is restricted to; `None` is all of them. `named` comes from the
    /// request, `home` from its header.
    pub(crate) fn read_namespace(
        &self,
        named: Option<String>,
        home: Option<String>,
    ) -> ApiResult<Option<String>> {
        let namespace = named.or(home).filter(|name| name != "*");
        namespace.as_deref().map(|name| check_access(&self.caller.access, name)).transpose()?;
        Ok(namespace)
    }

    /// Where a memory is stored that names no namespace: that of the request's header, else the key's
    /// own, else the only one that it may use.
    pub(crate) fn store_namespace(&self, header: Option<String>) -> String {
        let own = || self.caller.namespace.clone();
        let only = || self.caller.access.only().map(str::to_owned);
        let named = header.or_else(own).or_else(only);
        named.unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned())
    }

    /// The memories that a read may return: see [`Self::read_namespace`].
    pub(crate) fn filter(&self, named: Option<String>, home: Option<String>) -> ApiResult<Filter> {
        let (namespace, access) = (self.read_namespace(named, home)?, self.caller.access.clone());
        Ok(Filter { namespace, access, ..Filter::default() })
    }

    /// Rejects a caller with less rights than those of a role.
    pub(crate) fn check_role(&self, role: Role) -> ApiResult<()> {
        if self.caller.role >= role {
            return Ok(());
        }
        let message = format!("this key may {} only", permission(self.caller.role));
        Err(ApiError::new(ErrorKind::Forbidden, "forbidden", message))
    }

    /// Rejects a caller to which a namespace is closed: the request covers all namespaces.
    pub(super) fn check_unrestricted(&self) -> ApiResult<()> {
        if self.caller.access.is_unrestricted() {
            return Ok(());
        }
        let message = "this covers all namespaces, and some are closed to this key";
        Err(ApiError::new(ErrorKind::Forbidden, "namespace_forbidden", message))
    }

    /// When the key of the caller ends, if it does.
    pub(crate) async fn key_end(&self) -> ApiResult<Option<Timestamp>> {
        let key = self.read(|reader, caller| reader.api_key(caller.tenant, caller.key)).await?;
        Ok(key.and_then(|key| key.expires_at))
    }

    /// How fresh the state of this node is.
    pub(crate) fn present_freshness(&self) -> Freshness {
        self.service.present()
    }

    /// The cluster time.
    pub(crate) fn now(&self) -> Timestamp {
        self.service.reader.clock()
    }

    /// Number of keys of the tenant.
    pub(crate) async fn key_count(&self) -> ApiResult<u64> {
        self.read(|reader, caller| reader.key_count(caller.tenant)).await
    }

    /// Keys after `after` in the order of their ids, each with the time of its last use.
    pub(crate) async fn keys_after(
        &self,
        after: Option<KeyId>,
        limit: usize,
    ) -> ApiResult<PageOf<(KeyId, ApiKey, Option<Timestamp>), KeyId>> {
        self.read(move |reader, caller| {
            let keys = reader.keys_after(caller.tenant, after, limit + 1)?;
            Ok(PageOf::first(keys, limit, |(id, ..)| *id))
        })
        .await
    }

    /// Creates a key, made by `new` of its text. The text exists in the result only, outside of its
    /// owner.
    pub(crate) async fn create_key(
        &self,
        new: impl FnOnce(&KeyText) -> NewApiKey,
    ) -> ApiResult<(WriteResult<KeyReply>, KeyText)> {
        self.request.check_not_once()?;
        let (id, text) = KeyText::from_random(random_bytes());
        let key = new(&text);
        Ok((self.submit(CreateKey { id, key }).await?, text))
    }

    /// Gives a key another text. The present one stays valid for `overlap_seconds`.
    pub(crate) async fn rotate_key(
        &self,
        id: KeyId,
        overlap_seconds: u64,
    ) -> ApiResult<(WriteResult<KeyReply>, KeyText)> {
        self.request.check_not_once()?;
        let text = KeyText::of(id, random_bytes());
        let hash = KeyText::hash(text.as_str());
        Ok((self.submit(RotateKey { id, hash, overlap_seconds }).await?, text))
    }

    /// Sets the caller's own namespace, which its searches boost.
    pub(crate) async fn set_own_namespace(
        &self,
        namespace: Option<String>,
    ) -> ApiResult<WriteResult<KeyReply>> {
        self.submit(SetKeyNamespace { id: self.caller.key, namespace }).await
    }

    pub(crate) async fn rules(&self) -> ApiResult<Rules> {
        self.read(|reader, caller| reader.access_rules(caller.tenant)).await
    }
}

/// Whether a key may see a trigger. Keys with restricted access see their own only.
pub(super) fn may_see_trigger(access: &Access, key: KeyId, trigger: &Trigger) -> bool {
    access.is_unrestricted() || trigger.owner == Some(key)
}

/// Rejects a namespace that a request names, if the caller may not access it.
pub(super) fn check_access(access: &Access, namespace: &str) -> ApiResult<()> {
    match access.allows(namespace) {
        true => Ok(()),
        false => Err(Rejection::NamespaceForbidden(namespace.to_owned()).into()),
    }
}

/// Returns `N` bytes that are fit for keys and other secrets.
///
/// # Panics
/// When the operating system has no randomness. No secret can be made then.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the operating system returns random bytes");
    bytes
}

fn permission(role: Role) -> &'static str {
    match role {
        Role::Reader => "read",
        Role::Agent => "read and write memories",
        Role::Admin | Role::Operator => "administer its tenant",
    }
}
