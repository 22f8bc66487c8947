//! Settings of trigger actions, as requests send them.

use serde::Deserialize;
use storage::model::trigger::TAG_BYTES_MAX;
use utoipa::ToSchema;

use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use crate::requests::fields::{Secret, Tag, Template, Url};
use crate::requests::numbers::Strength;
use crate::requests::values::{SecretText, TextOrEmpty, first_text, nullable};
use crate::service::error::{ApiError, ApiResult};

/// Settings of an action. Each action reads its own; the others are validated and ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ActionConfig {
    /// For `notify`: the message, with `{node_id}`, `{label}`, `{heat}`, `{heat:.2f}`,
    /// `{namespace}`, `{memory_type}` and `{event}` as placeholders.
    message: Option<Template>,
    /// Alias of `message`, which comes first.
    #[schema(ignore)]
    template: Option<Template>,
    /// For `boost`.
    #[schema(default = 0.3)]
    strength: Option<Strength>,
    /// Alias of `strength`, which comes first.
    #[schema(ignore)]
    amount: Option<Strength>,
    /// For `tag`: the tag; absent derives one from the memory's label.
    #[schema(schema_with = tag_schema)]
    label: Option<Tag>,
    /// Alias of `label`, which comes first.
    #[schema(ignore)]
    tag: Option<Tag>,
    /// For `webhook`, and required there.
    pub(crate) url: Option<Url>,
    /// For `webhook`: the secret that signs its requests. It is never returned.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(schema_with = secret_schema)]
    webhook_secret: Option<Option<Secret>>,
    /// Alias of `webhook_secret`, which comes first.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(ignore)]
    secret: Option<Option<Secret>>,
}

impl ActionConfig {
    pub(crate) fn template(&self) -> Option<String> {
        first_text(self.message.as_ref(), self.template.as_ref())
    }

    pub(crate) fn strength(&self) -> Option<f64> {
        self.strength.or(self.amount).map(|strength| strength.0)
    }

    /// The tag as one word, without a leading `#`.
    pub(crate) fn tag(&self) -> ApiResult<Option<String>> {
        let tags = [("label", &self.label), ("tag", &self.tag)].map(|(name, tag)| {
            let Some(TextOrEmpty(Some(tag))) = tag else { return Ok(None) };
            let words = tag.trim().trim_start_matches('#').split_whitespace();
            let tag = words.collect::<Vec<_>>().join("-");
            match tag.is_empty() {
                true => Err(ApiError::invalid(name, "must contain more than #")),
                false => Ok(Some(tag)),
            }
        });
        let [label, tag] = tags;
        Ok(label?.or(tag?))
    }

    /// The webhook secret, of at least 8 bytes.
    pub(crate) fn secret(&self) -> ApiResult<Option<String>> {
        let mut found = None;
        for (name, secret) in [("webhook_secret", &self.webhook_secret), ("secret", &self.secret)] {
            let Some(Some(SecretText(secret))) = secret else { continue };
            // An empty secret is an absent one, as published clients send it.
            if !secret.is_empty() && secret.len() < SECRET_BYTES_MIN {
                let message = format!("must have at least {SECRET_BYTES_MIN} bytes");
                return Err(ApiError::invalid(name, message));
            }
            found = found.or(Some(secret.clone()).filter(|secret| !secret.is_empty()));
        }
        Ok(found)
    }

    /// Whether `null` removes the secret.
    pub(crate) fn drops_secret(&self) -> bool {
        self.webhook_secret == Some(None) || self.secret == Some(None)
    }
}

fn tag_schema() -> utoipa::openapi::schema::Object {
    text_schema(1, TAG_BYTES_MAX).pattern(Some(r"[^\s#]")).build()
}

fn secret_schema() -> utoipa::openapi::schema::Object {
    let text_or_null = [utoipa::openapi::Type::String, utoipa::openapi::Type::Null];
    text_schema(SECRET_BYTES_MIN, SECRET_BYTES_MAX)
        .schema_type(utoipa::openapi::schema::SchemaType::from_iter(text_or_null))
        .build()
}

fn text_schema(min: usize, max: usize) -> utoipa::openapi::ObjectBuilder {
    let text = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::Type::String);
    text.min_length(Some(min)).max_length(Some(max))
}
