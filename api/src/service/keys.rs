//! Creation of API keys.

use storage::Action;
use storage::model::id::Timestamp;
use storage::model::tenant::{ApiKey, KeyId, KeyText, Role};

use crate::random::random_bytes;
use crate::service::Session;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

impl Session {
    /// Creates a key. Its text exists in the result only, outside of its owner.
    pub(crate) async fn create_key(
        &self,
        name: String,
        role: Role,
        namespace: Option<String>,
    ) -> ApiResult<(Done<(KeyId, ApiKey)>, KeyText)> {
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
        Ok((self.submit(Action::CreateKey(id, key)).await?, text))
    }
}
