//! The interface as OpenAPI 3.1: what all operations have in common. The rest is documented
//! beside each handler.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Deprecated, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder,
};
use utoipa::{IntoResponses, OpenApi, PartialSchema, ToSchema};

use crate::requests::fields::IdempotencyKey;
use crate::responses::Error;

/// How the names of nullable schemas begin (see `responses::Nullable`).
const NULLABLE: &str = "Option_";
/// How the names of schemas begin that stand in place of references: of values, whose name is
/// JSON, and of nullable ones.
const VALUES: [&str; 2] = ["{", NULLABLE];

/// The document without its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hearth",
        description = "A replicated memory service for software agents: memories with decaying heat, semantic search, triggers.",
    ),
    servers((url = "/")),
    components(schemas(Error)),
    security(("key" = [])),
)]
struct Common;

/// The status of writes that accept an `Idempotency-Key`.
const KEY_REUSED: &str = "422";

type Responses = std::collections::BTreeMap<String, RefOr<Response>>;

/// Defines sets of errors: a status and its meaning each, and those of a smaller set.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $(with $smaller:ident)?: $($status:literal => $text:literal,)+)+) => {
        $($(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> Responses {
                let own = errors([$(($status, $text)),+]);
                own.into_iter()$(.chain($smaller::responses()))?.collect()
            }
        })+
    };
}

errors! {
    /// Errors of every operation that requires a key.
    ReadErrors:
        400 => "The request is invalid: `field` names the field at fault.",
        401 => "No valid key.",
        403 => "The key has no permission, or no access to this namespace.",
        429 => "Too many requests of this key in progress, or too many `Idempotency-Key`s.",
        503 => "Nothing happened: retry after `Retry-After`.",
    /// Errors of operations that take a body as well.
    BodyErrors with ReadErrors:
        408 => "The body took too long to arrive.",
        413 => "The body, or the write that it requests, is too large.",
    /// Errors of writes.
    WriteErrors with BodyErrors:
        409 => "The present state does not permit this.",
        422 => "The `Idempotency-Key` belongs to another request.",
        504 => "The write may or may not have happened: repeat it if it has an `Idempotency-Key`, else check first.",
    /// Errors of writes that accept no `Idempotency-Key`.
    UnrepeatedErrors with BodyErrors:
        409 => "The present state does not permit this.",
        504 => "The write may or may not have happened: check first.",
    /// The error of operations on something that may not exist.
    NotFound:
        404 => "It does not exist, or this key has no access to it.",
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

/// The whole document: `operations`, what they have in common, and `aliases`, which are further
/// paths of operations.
pub(crate) fn complete(operations: Document, aliases: &[(&str, &str)]) -> Value {
    let mut document = Common::openapi().merge_from(operations);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    document.components.get_or_insert_default().add_security_scheme("key", bearer);
    for item in document.paths.paths.values_mut() {
        for operation in each(item) {
            let responses = &mut operation.responses.responses;
            responses.insert("431".to_owned(), RefOr::T(too_long()));
            responses.iter_mut().for_each(describe);
            if responses.contains_key(KEY_REUSED) {
                operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
            }
        }
    }
    for (path, alias) in aliases {
        let Some(mut item) = document.paths.paths.get(*path).cloned() else { continue };
        for operation in each(&mut item) {
            let name = operation.operation_id.take().unwrap_or_default();
            operation.operation_id = Some(format!("{name}_alias"));
            operation.deprecated = Some(Deprecated::True);
        }
        document.paths.paths.insert((*alias).to_owned(), item);
    }
    let document = serde_json::to_value(&document);
    let mut document = document.expect("the document has text for names, and no infinite number");
    let schemas = document["components"]["schemas"].clone();
    simplify(&mut document, &schemas);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.retain(|name, _| !VALUES.iter().any(|start| name.starts_with(start)));
    }
    document
}

/// The schema of a type by itself, with all that it refers to in place.
pub(crate) fn standalone<T: ToSchema>() -> Map<String, Value> {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let value = |schema: &_| serde_json::to_value(schema).expect("a schema has text for names");
    let named: Map<_, _> = named.iter().map(|(name, it)| (name.clone(), value(it))).collect();
    let mut schema = value(&T::schema());
    let named = Value::Object(named);
    inline(&mut schema, &named);
    simplify(&mut schema, &named);
    schema.as_object().cloned().unwrap_or_default()
}

/// Puts the named schemas in place of the references to them.
fn inline(value: &mut Value, named: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, named)),
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            let name = name.and_then(|it| it.strip_prefix("#/components/schemas/"));
            let found = name.and_then(|name| named[name].as_object().cloned());
            if let Some(schema) = found {
                fields.remove("$ref");
                add(fields, schema);
            }
            fields.values_mut().for_each(|field| inline(field, named));
        }
        _ => {}
    }
}

/// The header of every write that can be repeated.
fn idempotency_key() -> Parameter {
    let text = "Repeated within a day, the request changes nothing and returns what the first did.";
    let schema = IdempotencyKey::schema();
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(text))
        .schema(Some(schema))
        .build()
}

/// The response of every operation to a long path or long headers.
fn too_long() -> Response {
    let text =
        "The headers are too long, or too many. Over HTTP/2, beyond 16 KiB, there is no body.";
    let schema = Ref::from_schema_name("Error");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(text).content("application/json", content).build()
}

/// Describes a response, if the attributes of its handler do not.
fn describe((status, response): (&String, &mut RefOr<Response>)) {
    let RefOr::T(response) = response else { return };
    if response.description.is_empty() {
        let status = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        let reason = status.and_then(|status| status.canonical_reason());
        response.description = reason.unwrap_or_default().to_owned();
    }
}

/// Simplifies what the derives generate: the schema of a value stands in place of a reference to
/// it, a choice between a schema and null becomes one schema with both types, and a parameter has
/// no null.
fn simplify(value: &mut Value, schemas: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, schemas)),
        Value::Object(fields) => {
            if let Some(schema) = value_schema(fields, schemas) {
                fields.remove("$ref");
                add(fields, schema);
            }
            fields.values_mut().for_each(|field| simplify(field, schemas));
            if let Some(mut schema) = take_nullable(fields) {
                schema["type"] = json!([schema["type"], "null"]);
                if let Some(Value::Array(words)) = schema.get_mut("enum") {
                    words.push(Value::Null);
                }
                add(fields, schema);
            }
            if fields.contains_key("in") && fields.contains_key("schema") {
                remove_null(&mut fields["schema"]);
            }
        }
        _ => {}
    }
}

/// Adds a schema to the fields of another one, which come first: they are more special.
fn add(fields: &mut Map<String, Value>, schema: Map<String, Value>) {
    for (key, value) in schema {
        fields.entry(key).or_insert(value);
    }
}

/// The schema of the value that `fields` refer to.
fn value_schema(fields: &Map<String, Value>, schemas: &Value) -> Option<Map<String, Value>> {
    let name = fields.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")?;
    match name.starts_with(NULLABLE) {
        true => schemas[name].as_object().cloned(),
        false => serde_json::from_str(name).ok(),
    }
}

/// Takes the schema out of a choice between it and null. A reference stays: it has no type.
fn take_nullable(fields: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let choice = fields.get_mut("oneOf")?.as_array_mut()?;
    let null = choice.iter().position(|schema| schema["type"] == "null")?;
    let null = choice.remove(null);
    choice.push(null);
    match choice.as_slice() {
        [Value::Object(schema), _] if schema.contains_key("type") => {
            let schema = schema.clone();
            fields.remove("oneOf");
            Some(schema)
        }
        _ => None,
    }
}

fn remove_null(schema: &mut Value) {
    if let Some([name, _]) = schema["type"].as_array().map(Vec::as_slice) {
        schema["type"] = name.clone();
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
    }
}

fn each(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .flatten()
}
