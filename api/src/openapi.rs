//! The interface as OpenAPI 3.1: what all operations have in common. The rest is documented
//! beside each handler.

use std::collections::HashSet;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Deprecated, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder,
};
use utoipa::{IntoResponses, OpenApi, PartialSchema, ToSchema};

use crate::requests::fields::IdempotencyKey;
use crate::requests::values::AnyWord;
use crate::responses::Error;

/// How the names of nullable schemas begin (see `responses::Nullable`).
const NULLABLE: &str = "Option_";
/// What the name of a schema contains that is the path of a type.
const PATH: &str = "::";

/// Components that nothing refers to.
const SECURITY: &str = "securitySchemes";

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

/// The document of the operator's listener without its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hearth, for operators",
        description = "The cluster, its tenants, and its audit log, on the operator's listener of each node.",
    ),
    servers((url = "/")),
    components(schemas(Error)),
    security(("key" = [])),
)]
struct OperatorCommon;

/// The status of writes that accept an `Idempotency-Key`.
const KEY_REUSED: &str = "422";
/// The status of a write whose resource is not what `If-Match` requires.
const CONDITION_FAILED: &str = "412";

type Responses = std::collections::BTreeMap<String, RefOr<Response>>;

/// Defines sets of errors: a status and its meaning each, and those of a smaller set. The document names
/// each of them once, by its set and status.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $(with $smaller:ident)?: $($status:literal => $text:literal,)+)+) => {
        $($(#[$doc])*
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> Responses {
                let own = [$($status),+].map(|status| {
                    let name = error_name(stringify!($name), status);
                    (status.to_string(), RefOr::Ref(Ref::from_response_name(name)))
                });
                own.into_iter()$(.chain($smaller::responses()))?.collect()
            }
        })+

        /// Set, status and meaning of each error.
        const ERRORS: &[(&str, u16, &str)] = &[$($((stringify!($name), $status, $text)),+),+];
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
        412 => "The resource has another `ETag` than `If-Match` requires, or none.",
        422 => "The `Idempotency-Key` belongs to another request.",
        504 => "The write may or may not have happened: repeat it if it has an `Idempotency-Key`, else check first.",
    /// Errors of writes that accept no `Idempotency-Key`.
    UnrepeatedErrors with BodyErrors:
        409 => "The present state does not permit this.",
        412 => "The resource has another `ETag` than `If-Match` requires, or none.",
        504 => "The write may or may not have happened: check first.",
    /// Errors of every operation of the operator.
    OperatorReadErrors:
        400 => "The request is invalid: `field` names the field at fault.",
        401 => "No valid operator key.",
        403 => "This node has no operator key, or the request is for another host.",
        429 => "Too many requests with a wrong key.",
        503 => "Nothing happened: retry after `Retry-After`.",
        504 => "The operation may or may not have happened: check first.",
    /// Errors of operations of the operator that change something.
    OperatorErrors with OperatorReadErrors:
        408 => "The body took too long to arrive.",
        409 => "The present state does not permit this.",
        413 => "The body is too large.",
    /// The error of operations on something that may not exist.
    NotFound:
        404 => "It does not exist, or this key has no access to it.",
    /// The error of every operation.
    EachError:
        431 => "The headers are too long, or too many. Over HTTP/2, beyond 16 KiB, there is no body.",
}

fn error_name(set: &str, status: u16) -> String {
    format!("{set}{status}")
}

/// A response with the body of an error.
fn error_response(text: &str) -> Response {
    let schema = Ref::from_schema_name("Error");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(text).content("application/json", content).build()
}

/// The whole document of the public listener. `aliases` are further paths of operations.
pub(crate) fn public(operations: Document, aliases: &[(&str, &str)]) -> Value {
    complete(Common::openapi().merge_from(operations), aliases, true)
}

/// The whole document of the operator's listener.
pub(crate) fn operator(operations: Document) -> Value {
    complete(OperatorCommon::openapi().merge_from(operations), &[], false)
}

fn complete(mut document: Document, aliases: &[(&str, &str)], is_public: bool) -> Value {
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("key", bearer);
    for (set, status, text) in ERRORS {
        components.responses.insert(error_name(set, *status), error_response(text).into());
    }
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.patch, &mut item.put, &mut item.delete].into_iter().flatten() {
            if operation.responses.responses.contains_key(CONDITION_FAILED) {
                operation.parameters.get_or_insert_default().push(RefOr::T(if_match()));
            }
        }
        for operation in each(item) {
            let responses = &mut operation.responses.responses;
            responses.extend(EachError::responses());
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
    add_headers(&mut document, is_public);
    let text = document.to_string();
    let references =
        text.split("\"#/components/").skip(1).filter_map(|rest| rest.split('"').next());
    let references: HashSet<&str> = references.collect();
    for (kind, parts) in fields(&mut document["components"]).filter(|(kind, _)| *kind != SECURITY) {
        let is_used = |name: &str| references.contains(&*format!("{kind}/{name}"));
        if let Some(parts) = parts.as_object_mut() {
            parts.retain(|name, _| is_used(name) && !is_inline(name));
        }
    }
    document
}

/// Headers of responses: name, what it says, and the type of its schema.
const HEADERS: [(&str, &str, &str); 10] = [
    ("X-Request-Id", "The id of the request: that of its `X-Request-Id`, or a new one.", "string"),
    ("X-Hearth-Node", "The node that responded.", "integer"),
    (
        "X-Hearth-Index",
        "The log index that the response reflects: see `X-Hearth-Min-Index`.",
        "integer",
    ),
    ("X-Hearth-Consistency", "`local` or `linearizable`.", "string"),
    (
        "X-Hearth-Staleness-Ms",
        "Milliseconds by which the response may be older than the cluster.",
        "integer",
    ),
    ("X-RateLimit-Limit", "Requests per minute of the tenant, if it has a limit.", "integer"),
    ("X-RateLimit-Remaining", "Requests that have room now.", "integer"),
    ("X-RateLimit-Reset", "Seconds until there is room again.", "integer"),
    ("WWW-Authenticate", "`Bearer`.", "string"),
    ("Retry-After", "Seconds after which a repetition may succeed.", "integer"),
];

fn fields(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// Names the headers of each response, as references to components.
fn add_headers(document: &mut Value, is_public: bool) {
    let component = |(name, text, kind): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({ "description": text, "schema": { "type": kind } }))
    };
    document["components"]["headers"] = HEADERS.iter().map(component).collect::<Map<_, _>>().into();
    for (name, response) in fields(&mut document["components"]["responses"]) {
        let status = &name[name.len() - 3..];
        name_headers(response, status, is_public && status == "429");
    }
    for (_, item) in fields(&mut document["paths"]) {
        for (_, operation) in fields(item) {
            let counts = is_public && operation.get("security").is_none();
            for (status, response) in fields(&mut operation["responses"]) {
                if response.get("$ref").is_none() {
                    name_headers(response, status, counts && status.starts_with('2'));
                }
            }
        }
    }
}

/// Names the headers of a response with a status. One that `counts` does so against the requests per
/// minute; a success also reflects a log index.
fn name_headers(response: &mut Value, status: &str, counts: bool) {
    for (name, ..) in HEADERS {
        let has = match name {
            "X-Request-Id" | "X-Hearth-Node" => true,
            "WWW-Authenticate" => status == "401",
            "Retry-After" => ["429", "503"].contains(&status),
            name if name.starts_with("X-RateLimit") => counts,
            _ => counts && status.starts_with('2'),
        };
        if has {
            response["headers"][name] = json!({ "$ref": format!("#/components/headers/{name}") });
        }
    }
}

/// The schema of a type by itself, with all that it refers to in place.
fn standalone<T: ToSchema>() -> Map<String, Value> {
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

/// The schema of the arguments of a tool, where an absent field does what null does: strict clients accept no
/// choice of null.
pub(crate) fn argument_schema<T: ToSchema>() -> Map<String, Value> {
    let mut schema = Value::Object(standalone::<T>());
    each_schema(&mut schema, &remove_null);
    schema.as_object().cloned().unwrap_or_default()
}

/// The schema of the result of a tool: its fields and their types, and no null, since such a field is left out.
/// Agents pay for each word, and read the results themselves.
pub(crate) fn result_schema<T: ToSchema>() -> Map<String, Value> {
    let mut schema = Value::Object(standalone::<T>());
    each_schema(&mut schema, &|schema| {
        let Some(fields) = schema.as_object_mut().filter(|it| it.get("type").is_some_and(is_type))
        else {
            return;
        };
        let keeps = |name: &str| matches!(name, "type" | "properties" | "items" | "required");
        fields.retain(|name, _| keeps(name));
        let nullable: Vec<_> = fields
            .get_mut("properties")
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
            .filter(|(_, field)| field["type"].is_array() || field["oneOf"].is_array())
            .map(|(name, field)| {
                remove_null(field);
                name.clone()
            })
            .collect();
        if let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !nullable.iter().any(|other| name == other));
        }
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Whether this is the type of a schema. A field may have the name `type`: then it is a schema.
fn is_type(value: &Value) -> bool {
    value.is_string() || value.is_array()
}

fn each_schema(value: &mut Value, change: &impl Fn(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_schema(item, change)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| each_schema(field, change));
            change(value);
        }
        _ => {}
    }
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

/// The header of writes that change what there is.
fn if_match() -> Parameter {
    let text = "`ETag` of the resource as it was read. The write happens only while it has that: else 412. `*` \
                requires that it exists; `If-None-Match: *` that it does not, for creates with an `external_id`.";
    ParameterBuilder::new()
        .name("If-Match")
        .parameter_in(ParameterIn::Header)
        .description(Some(text))
        .schema(Some(AnyWord::schema()))
        .build()
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

/// Describes a response, if the attributes of its handler do not.
fn describe((status, response): (&String, &mut RefOr<Response>)) {
    let RefOr::T(response) = response else { return };
    if response.description.is_empty() {
        let status = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        let reason = status.and_then(|status| status.canonical_reason());
        response.description = reason.unwrap_or_default().to_owned();
    }
}

/// Whether a schema stands in place of references to it: a nullable one, and one without a name of its
/// own.
fn is_inline(name: &str) -> bool {
    name.starts_with(NULLABLE) || name.contains(PATH)
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
            let both = fields.get("allOf").and_then(parts);
            if let Some([Value::Object(inline), Value::Object(rest)]) = both
                && rest.get("type").is_some_and(|it| it == "object")
                && !rest.contains_key("properties")
            {
                // What the derive says of an inline schema, as its default, is beside it.
                let (inline, rest) = (inline.clone(), rest.clone());
                fields.remove("allOf");
                add(fields, inline);
                add(fields, rest);
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

/// The schema that stands in place of the reference in `fields`.
fn value_schema(fields: &Map<String, Value>, schemas: &Value) -> Option<Map<String, Value>> {
    let name = fields.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")?;
    is_inline(name).then(|| schemas[name].as_object().cloned())?
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

fn parts(schemas: &Value) -> Option<&[Value]> {
    schemas.as_array().map(Vec::as_slice)
}

fn remove_null(schema: &mut Value) {
    if let Some([value, _]) = schema.get("oneOf").and_then(parts) {
        *schema = value.clone();
    }
    if let Some([name, _]) = schema.get("type").and_then(parts) {
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
