//! API keys, access rules, and the caller's own namespace.

use storage::model::access::{Policy, Rule, Rules};
use storage::model::caller::Caller;
use storage::model::id::Timestamp;
use storage::model::tenant::{ApiKey, KeyId, KeyText, Role};
use storage::{Action, Reply, View};

use crate::random::random_bytes;
use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

/// A key that was created, with its text: the only time that it exists outside of its owner.
pub(crate) struct CreatedKey {
    pub(crate) id: KeyId,
    pub(crate) key: ApiKey,
    pub(crate) text: KeyText,
}

impl Service {
    pub(crate) async fn keys(&self, caller: &Caller) -> ApiResult<Vec<(KeyId, ApiKey)>> {
        let tenant = caller.tenant;
        self.read(move |reader| reader.api_keys(tenant)).await
    }

    pub(crate) async fn create_key(
        &self,
        caller: &Caller,
        name: String,
        role: Role,
        namespace: Option<String>,
    ) -> ApiResult<Done<CreatedKey>> {
        let text = KeyText::from_random(random_bytes());
        let id = KeyText::id_of(text.as_str()).ok_or_else(ApiError::internal)?;
        let key = ApiKey {
            name,
            role,
            hash: KeyText::hash(text.as_str()),
            namespace,
            created_at: Timestamp::default(),
            last_used_at: None,
        };
        let done = self.submit_key(caller, Action::CreateKey(id, key)).await?;
        done.map(|(id, key)| Some(CreatedKey { id, key, text }))
    }

    pub(crate) async fn delete_key(
        &self,
        caller: &Caller,
        id: KeyId,
    ) -> ApiResult<Done<(KeyId, ApiKey)>> {
        self.submit_key(caller, Action::DeleteKey(id)).await
    }

    /// Sets or clears the namespace that the caller's searches boost.
    pub(crate) async fn set_own_namespace(
        &self,
        caller: &Caller,
        namespace: Option<String>,
    ) -> ApiResult<Done<(KeyId, ApiKey)>> {
        self.submit_key(caller, Action::SetKeyNamespace(caller.key, namespace)).await
    }

    async fn submit_key(
        &self,
        caller: &Caller,
        action: Action,
    ) -> ApiResult<Done<(KeyId, ApiKey)>> {
        self.submit(caller, None, action).await?.map(|reply| match reply {
            Reply::ApiKey(id, key) => Some((id, key)),
            _ => None,
        })
    }

    pub(crate) async fn access_rules(&self, caller: &Caller) -> ApiResult<Rules> {
        let tenant = caller.tenant;
        self.read(move |reader| reader.access_rules(tenant)).await
    }

    /// Replaces the rule for an agent and a namespace; `None` deletes it.
    pub(crate) async fn put_rule(
        &self,
        caller: &Caller,
        agent: String,
        namespace: String,
        policy: Option<Policy>,
    ) -> ApiResult<Done<Rule>> {
        self.submit_rule(caller, Action::PutRule { agent, namespace, policy }).await
    }

    pub(crate) async fn delete_rule(&self, caller: &Caller, number: u64) -> ApiResult<Done<Rule>> {
        self.submit_rule(caller, Action::DeleteRule(number)).await
    }

    async fn submit_rule(&self, caller: &Caller, action: Action) -> ApiResult<Done<Rule>> {
        self.submit(caller, None, action).await?.map(|reply| match reply {
            Reply::Rule(rule) => Some(rule),
            _ => None,
        })
    }
}
