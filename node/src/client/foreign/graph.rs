//! Knowledge graphs of the reference memory server of MCP and its relatives, in the form that the tools of
//! `mcp.profile = "knowledge-graph"` use.

use std::io::Write;

use serde_json::{Map, Value, json};
use storage::model::knowledge_graph::GraphMemory;

use crate::client::foreign::found::{Conversion, split, string, time};
use crate::client::foreign::read::Entry;
use crate::failure::Failure;

/// A part of a graph.
enum Part {
    Entity { name: String, entity_type: String, observations: Vec<(String, Option<String>)> },
    Relation { from: String, to: String, relation_type: String },
}

/// Type of an entity that has none.
const UNTYPED: &str = "thing";

/// Writes the parts of a graph.
pub(super) fn convert(
    values: Vec<Entry>,
    namespace: &str,
    conversion: &mut Conversion,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for (order, Entry { place, value }) in values.into_iter().flat_map(parts).enumerate() {
        let read = part(&value).and_then(|part| Ok((part, time_of(&value)?)));
        let (part, created_at) = match read {
            Ok(read) => read,
            Err(reason) => {
                conversion.reject(place, reason, value);
                continue;
            }
        };
        let mut write = |memory: GraphMemory, created_at: &Option<String>| {
            let line = line(&memory, namespace, created_at);
            conversion.write(memory.id, line, &place, out)
        };
        match part {
            Part::Entity { name, entity_type, observations } => {
                write(GraphMemory::entity(namespace, &name, &entity_type, order), &created_at)?;
                for (at, (statement, time)) in observations.iter().enumerate() {
                    // A text that is too long for a memory becomes several.
                    for statement in split(statement) {
                        let memory = GraphMemory::observation(namespace, &name, statement, at);
                        write(memory, if time.is_some() { time } else { &created_at })?;
                    }
                }
            }
            Part::Relation { from, to, relation_type } => {
                let memory = GraphMemory::relation(namespace, &from, &to, &relation_type, order);
                write(memory, &created_at)?;
            }
        }
    }
    Ok(())
}

/// The parts of an object with the lists `entities` and `relations`, or the object itself.
fn parts(Entry { place, mut value }: Entry) -> Vec<Entry> {
    let lists = ["entities", "relations"].map(|name| (name, value[name].take()));
    if lists.iter().all(|(_, list)| !list.is_array()) {
        return vec![Entry { place, value }];
    }
    let part = |name: &str, at: usize, mut value: Value| {
        let kind = if name == "entities" { "entity" } else { "relation" };
        if let Some(part) = value.as_object_mut() {
            part.entry("type").or_insert_with(|| kind.into());
        }
        Entry { place: format!("{name}, entry {}", at + 1), value }
    };
    let of_list = |(name, list): (&'static str, Value)| {
        let list = if let Value::Array(list) = list { list } else { Vec::new() };
        list.into_iter().enumerate().map(move |(at, value)| part(name, at, value))
    };
    lists.into_iter().flat_map(of_list).collect()
}

fn part(value: &Value) -> Result<Part, String> {
    let any = |names: &[&str]| names.iter().find_map(|name| string(&value[*name]));
    let (from, to) = (any(&["from", "from_entity"]), any(&["to", "to_entity"]));
    let written = any(&["type", "_type"]).map(|kind| kind.to_lowercase());
    let kind = written.as_deref().or(match (&from, any(&["name"])) {
        (Some(_), _) => Some("relation"),
        (None, Some(_)) => Some("entity"),
        (None, None) => None,
    });
    match kind {
        Some("entity") => {
            let name = any(&["name"]).ok_or("an entity has a `name`")?;
            let entity_type = any(&["entityType", "entity_type"]).unwrap_or_else(|| UNTYPED.into());
            Ok(Part::Entity { name, entity_type, observations: observations(value)? })
        }
        Some("relation") => Ok(Part::Relation {
            from: from.ok_or("a relation has `from`")?,
            to: to.ok_or("a relation has `to`")?,
            relation_type: any(&["relationType", "relation_type"])
                .ok_or("a relation has a `relationType`")?,
        }),
        Some(other) => Err(format!("the type {other:?} is none of a graph")),
        None => Err("it is no part of a graph".into()),
    }
}

/// The statements about an entity, each with its time: texts, or objects with one.
fn observations(entity: &Value) -> Result<Vec<(String, Option<String>)>, String> {
    let list = match &entity["observations"] {
        Value::Null => &[][..],
        Value::Array(list) => list,
        one => std::slice::from_ref(one),
    };
    let statement = |one: &Value| {
        let names = ["text", "content", "observation"];
        let text = string(one).or_else(|| names.iter().find_map(|name| string(&one[*name])));
        match text {
            Some(text) => Ok(Some((text, time_of(one)?))),
            None if one.is_null() || one == "" => Ok(None),
            None => Err(format!("an observation has no text: {one}")),
        }
    };
    list.iter().filter_map(|one| statement(one).transpose()).collect()
}

fn time_of(value: &Value) -> Result<Option<String>, String> {
    let names = ["createdAt", "created_at", "timestamp"];
    time(
        names.iter().map(|name| &value[*name]).find(|time| !time.is_null()).unwrap_or(&Value::Null),
    )
}

fn line(memory: &GraphMemory, namespace: &str, created_at: &Option<String>) -> Value {
    let metadata = memory.metadata.iter();
    let metadata = metadata.map(|(name, text)| ((*name).to_owned(), text.as_str().into()));
    let mut line = json!({
        "id": memory.id.to_string(), "label": memory.label, "memory_type": "semantic",
        "namespace": namespace, "tags": memory.tags, "key_points": memory.key_points,
        "metadata": metadata.collect::<Map<_, _>>(),
    });
    if let Some(time) = created_at {
        line["created_at"] = time.as_str().into();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::foreign::read::read_values;

    /// Labels of what comes in, and reasons of what does not.
    fn converted(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut conversion, mut out) = (Conversion::default(), Vec::new());
        convert(read_values(text).0, "here", &mut conversion, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let label = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["memory"]["label"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let reasons = conversion.rejects.into_iter().map(|it| it.reason);
        (lines.lines().map(label).collect(), reasons.collect())
    }

    #[test]
    fn parts_are_read_as_others_write_them() {
        for (text, labels) in [
            (
                r#"{"name":"Zed","entityType":"person","observations":["likes rust"]}"#,
                vec!["Zed (person)", "likes rust"],
            ),
            (
                r#"{"_type":"Entity","name":"Zed","observations":"likes rust"}"#,
                vec!["Zed (thing)", "likes rust"],
            ),
            (
                r#"{"type":"entity","name":"Zed","entityType":"person","observations":null}"#,
                vec!["Zed (person)"],
            ),
            (
                r#"{"type":"entity","name":"Zed","entityType":"person","observations":["",{"text":"x"}]}"#,
                vec!["Zed (person)", "x"],
            ),
            (
                r#"{"from_entity":"Nina","to_entity":"Boat","relationType":"has"}"#,
                vec!["Nina has Boat"],
            ),
            (
                r#"{"entities":[{"name":"Zed","entityType":"person"}],"relations":[{"from":"Zed","to":"Zed","relationType":"is"}]}"#,
                vec!["Zed (person)", "Zed is Zed"],
            ),
        ] {
            assert_eq!(
                converted(text),
                (labels.into_iter().map(String::from).collect(), vec![]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_part_is_named() {
        for (text, reason) in [
            (
                r#"{"type":"observation","entity":"Zed"}"#,
                "the type \"observation\" is none of a graph",
            ),
            (r#"{"type":"relation","from":"Zed"}"#, "a relation has `to`"),
            (r#"{"a":1}"#, "it is no part of a graph"),
        ] {
            assert_eq!(converted(text), (vec![], vec![reason.to_owned()]));
        }
    }
}
