//! What most handlers use.

pub(crate) use axum::extract::State;
pub(crate) use axum::http::StatusCode;
pub(crate) use serde::Serialize;
pub(crate) use storage::Filter;
pub(crate) use storage::model::memory::MemoryType;
pub(crate) use storage::model::score::rounded;
pub(crate) use utoipa::ToSchema;

pub(crate) use crate::app::App;
pub(crate) use crate::auth::{Admin, AdminRead, Agent, ReaderRead};
pub(crate) use crate::error::{ApiError, ApiResult};
pub(crate) use crate::openapi::{BodyErrors, NotFound, ReadErrors, UnrepeatedErrors, WriteErrors};
pub(crate) use crate::requests::fields::*;
pub(crate) use crate::requests::headers::{KeyPath, MemoryPath, RulePath, TriggerPath};
pub(crate) use crate::requests::headers::{
    NamespaceHeader, OriginHeaders, ReadHeaders, RequestOrigin, ZoneHeader,
};
pub(crate) use crate::requests::memories::named_namespace;
pub(crate) use crate::requests::triggers::WithNotifications;
pub(crate) use crate::requests::values::{Id, OneOf};
pub(crate) use crate::requests::{ValidJson, ValidQuery};
pub(crate) use crate::responses::{ApiResponse, Nullable, Success, Time};
pub(crate) use crate::service::Session;
pub(crate) use crate::service::freshness::Freshness;
