//! The interface as OpenAPI 3.1: what all operations have in common. Each says the rest
//! of itself beside its handler.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};

/// What a caller is told when something does not work.
#[derive(Serialize, ToSchema)]
pub(crate) struct Error {
    /// A stable code.
    pub(crate) error: &'static str,
    /// For people.
    pub(crate) message: String,
    pub(crate) request_id: String,
    /// The field at fault, of `invalid_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// The id after which an event stream may begin, of `events_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest: Option<String>,
}

/// The document without its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hearth",
        description = "Memories that cool, found by meaning, kept by every node of a cluster.",
    ),
    servers((url = "/")),
    components(schemas(Error)),
    security(("key" = [])),
    modifiers(&Keys),
)]
struct Common;

struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", bearer);
    }
}

/// Errors of every operation that takes a key.
pub(crate) struct Reading;

/// Errors of those that take a body as well.
pub(crate) struct Asking;

/// Errors of those that change something.
pub(crate) struct Writing;

/// Errors of those that take an `Idempotency-Key`.
pub(crate) struct WritingOnce;

/// The error of those that name something that may not be there.
pub(crate) struct Missing;

type Responses = std::collections::BTreeMap<String, RefOr<Response>>;

impl IntoResponses for Reading {
    fn responses() -> Responses {
        errors([
            (400, "Something of the request is not as it must be: `field` says what."),
            (401, "No key, or an unknown one."),
            (403, "The key may not do this, or not in this namespace."),
            (503, "Nothing happened: try again after `Retry-After`."),
        ])
    }
}

impl IntoResponses for Asking {
    fn responses() -> Responses {
        let own = errors([
            (408, "The body took too long to arrive."),
            (413, "The body is too large, or what it asks for."),
        ]);
        own.into_iter().chain(Reading::responses()).collect()
    }
}

impl IntoResponses for Writing {
    fn responses() -> Responses {
        let own = errors([
            (409, "What there is does not permit this."),
            (
                504,
                "It may have happened, or not: with an `Idempotency-Key` repeat it, without one look first.",
            ),
        ]);
        own.into_iter().chain(Asking::responses()).collect()
    }
}

impl IntoResponses for WritingOnce {
    fn responses() -> Responses {
        let own = errors([
            (422, "The `Idempotency-Key` belongs to another request."),
            (429, "Too many `Idempotency-Key`s."),
        ]);
        own.into_iter().chain(Writing::responses()).collect()
    }
}

impl IntoResponses for Missing {
    fn responses() -> Responses {
        errors([(404, "There is no such thing, for this key.")])
    }
}

fn errors<const N: usize>(errors: [(u16, &str); N]) -> Responses {
    let error = |(status, description): (u16, &str)| {
        let schema = Ref::from_schema_name("Error");
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response =
            ResponseBuilder::new().description(description).content("application/json", content);
        (status.to_string(), RefOr::T(response.build()))
    };
    errors.into_iter().map(error).collect()
}

/// The whole document: `operations`, what they have in common, and `aliases`: another path
/// of what is at a path.
pub(crate) fn complete(operations: Document, aliases: &[(&str, &str)]) -> Document {
    let mut document = Common::openapi().merge_from(operations);
    for item in document.paths.paths.values_mut() {
        for operation in each(item) {
            fill(operation);
        }
    }
    for (path, alias) in aliases {
        let Some(mut item) = document.paths.paths.get(*path).cloned() else { continue };
        for operation in each(&mut item) {
            let name = operation.operation_id.take().unwrap_or_default();
            operation.operation_id = Some(format!("{name}_alias"));
        }
        document.paths.paths.insert((*alias).to_owned(), item);
    }
    document
}

/// What the attributes of a handler leave out.
fn fill(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if response.description.is_empty() {
            let status = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
            let reason = status.and_then(|status| status.canonical_reason());
            response.description = reason.unwrap_or_default().to_owned();
        }
    }
    // Absent is absent: a parameter has no null.
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { continue };
        if let SchemaType::Array(types) = &schema.schema_type
            && let Some(schema_type) = types.iter().find(|schema_type| **schema_type != Type::Null)
        {
            schema.schema_type = SchemaType::Type(schema_type.clone());
        }
    }
}

fn each(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .flatten()
}
