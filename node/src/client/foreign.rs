//! Exports of other products as lines that an import reads. The id of a memory is a hash of where it
//! comes from, so the same export twice adds nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use storage::model::id::MemoryId;
use storage::model::knowledge_graph::GraphMemory;
use storage::model::memory::LABEL_BYTES_MAX;

use crate::error::{text, unusable};
use crate::failure::Failure;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Source {
    /// A file of `hearth export`
    Hearth,
    /// Memories of mem0, as its interface lists them: an array, or an object with `results`
    Mem0,
    /// The file memory.jsonl of the reference memory server of MCP
    KnowledgeGraph,
    /// conversations.json of an export of ChatGPT: what the user wrote
    Chatgpt,
    /// conversations.json of an export of Claude: what the user wrote
    Claude,
    /// A folder with Markdown files, one memory each. Its subfolders are not read
    Markdown,
}

/// A memory that is not of a Hearth export.
#[derive(Default)]
struct Found {
    /// What distinguishes it from all others of its source.
    key: Vec<String>,
    label: String,
    memory_type: &'static str,
    namespace: Option<String>,
    tags: Vec<String>,
    metadata: Map<String, Value>,
    created_at: Option<String>,
}

/// Writes the memories of `source` as lines of an import, in `namespace` unless they name one. Returns
/// how many there are.
pub(super) fn convert(
    source: Source,
    path: &Path,
    namespace: &str,
    out: &mut impl Write,
) -> Result<usize, Failure> {
    let found = match source {
        Source::Hearth => return Err("the file needs no conversion".into()),
        Source::Mem0 => mem0(read(path)?)?,
        Source::KnowledgeGraph => return knowledge_graph(path, namespace, out),
        Source::Chatgpt => chatgpt(read(path)?)?,
        Source::Claude => claude(read(path)?)?,
        Source::Markdown => markdown(path)?,
    };
    let mut count = 0;
    for one in found {
        for line in one.into_lines(namespace) {
            writeln!(out, "{line}").map_err(text)?;
            count += 1;
        }
    }
    Ok(count)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let file = std::fs::File::open(path).map_err(unusable(path))?;
    Ok(serde_json::from_reader(BufReader::new(file)).map_err(unusable(path))?)
}

impl Found {
    /// The lines of the memory: of several memories, if its text is too long for one.
    fn into_lines(self, namespace: &str) -> Vec<Value> {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let line = |(part, label): (usize, &str)| {
            let part = part.to_string();
            let key = [namespace].into_iter().chain(self.key.iter().map(String::as_str));
            let id = MemoryId::of_parts(key.chain([part.as_str()]));
            let mut memory = json!({
                "id": id.to_string(), "label": label, "memory_type": self.memory_type,
                "namespace": namespace, "tags": self.tags, "metadata": self.metadata,
            });
            if let Some(time) = &self.created_at {
                memory["created_at"] = time.as_str().into();
            }
            json!({ "memory": memory })
        };
        split(&self.label).into_iter().enumerate().map(line).collect()
    }
}

/// Parts of a text that are not longer than a memory may be, and not blank.
fn split(label: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), label.trim());
    while rest.len() > LABEL_BYTES_MAX {
        let (part, others) = rest.split_at(rest.floor_char_boundary(LABEL_BYTES_MAX));
        parts.push(part);
        rest = others;
    }
    parts.push(rest);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}

fn mem0(all: Value) -> Result<Vec<Found>, Failure> {
    let list = if all.is_array() { &all } else { &all["results"] };
    let list = list.as_array().ok_or("the file has no list of memories")?;
    let memory = |one: &Value| {
        let id = string(&one["id"]).or_else(|| Some(one["id"].as_u64()?.to_string()))?;
        let categories = one["categories"].as_array().into_iter().flatten().filter_map(string);
        Some(Found {
            key: vec!["mem0".into(), id],
            label: string(&one["memory"])?,
            memory_type: "semantic",
            namespace: string(&one["user_id"]).or_else(|| string(&one["agent_id"])),
            tags: categories.collect(),
            metadata: one["metadata"].as_object().cloned().unwrap_or_default(),
            created_at: time(&one["created_at"]),
        })
    };
    let whole = |(at, one)| {
        memory(one).ok_or_else(|| format!("entry {} has no `id` or no `memory`", at + 1).into())
    };
    list.iter().enumerate().map(whole).collect()
}

/// A time as text, or as seconds since 1970.
fn time(value: &Value) -> Option<String> {
    let time = match value {
        Value::String(text) => text.parse::<Timestamp>().ok(),
        Value::Number(seconds) => {
            Timestamp::from_microsecond((seconds.as_f64()? * 1e6) as i64).ok()
        }
        _ => None,
    };
    time.map(|time| time.to_string())
}

fn chatgpt(all: Value) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for conversation in all.as_array().ok_or("the file has no list of conversations")? {
        let title = string(&conversation["title"]);
        for (id, node) in conversation["mapping"].as_object().into_iter().flatten() {
            let message = &node["message"];
            if message["author"]["role"] != "user" {
                continue;
            }
            let parts = message["content"]["parts"].as_array().into_iter().flatten();
            let label: Vec<_> = parts.filter_map(string).collect();
            found.push(of_message(
                "chatgpt",
                id,
                label.join("\n"),
                &title,
                time(&message["create_time"]),
            ));
        }
    }
    Ok(found)
}

fn claude(all: Value) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for conversation in all.as_array().ok_or("the file has no list of conversations")? {
        let title = string(&conversation["name"]);
        for message in conversation["chat_messages"].as_array().into_iter().flatten() {
            let id = string(&message["uuid"]).filter(|_| message["sender"] == "human");
            let (Some(id), Some(label)) = (id, text_of(message)) else { continue };
            found.push(of_message("claude", &id, label, &title, time(&message["created_at"])));
        }
    }
    Ok(found)
}

/// The text of a message: its own, or that of its parts.
fn text_of(message: &Value) -> Option<String> {
    let parts = message["content"].as_array().into_iter().flatten();
    let parts: Vec<_> = parts.filter_map(|part| string(&part["text"])).collect();
    string(&message["text"]).or_else(|| Some(parts.join("\n"))).filter(|text| !text.is_empty())
}

/// What a person wrote in a conversation.
fn of_message(
    source: &str,
    id: &str,
    label: String,
    title: &Option<String>,
    created_at: Option<String>,
) -> Found {
    let metadata = title.iter().map(|title| ("conversation".to_owned(), title.as_str().into()));
    Found {
        key: vec![source.to_owned(), id.to_owned()],
        label,
        memory_type: "episodic",
        tags: vec![source.to_owned()],
        metadata: metadata.collect(),
        created_at,
        ..Found::default()
    }
}

fn markdown(folder: &Path) -> Result<Vec<Found>, Failure> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .map_err(unusable(folder))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable(folder))?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for path in files.iter().map(std::fs::DirEntry::path) {
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let content =
            std::fs::read_to_string(&path).map_err(unusable(&path))?.replace("\r\n", "\n");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // What precedes the text as front matter is not a part of it.
        let body = content.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
        let label = body.map_or(content.as_str(), |(_, body)| body).to_owned();
        found.push(Found {
            key: vec!["markdown".into(), name.clone()],
            label,
            memory_type: "semantic",
            metadata: [("file".to_owned(), name.into())].into_iter().collect(),
            ..Found::default()
        });
    }
    Ok(found)
}

/// A line of memory.jsonl.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum GraphLine {
    Entity {
        name: String,
        #[serde(rename = "entityType")]
        entity_type: String,
        observations: Vec<String>,
    },
    Relation {
        from: String,
        to: String,
        #[serde(rename = "relationType")]
        relation_type: String,
    },
}

/// Writes a knowledge graph in the form that the tools of `mcp.profile = "knowledge-graph"` use.
fn knowledge_graph(path: &Path, namespace: &str, out: &mut impl Write) -> Result<usize, Failure> {
    let file = BufReader::new(std::fs::File::open(path).map_err(unusable(path))?);
    let mut count = 0;
    let mut write = |part: GraphMemory| {
        let metadata = part.metadata.into_iter().map(|(name, text)| (name.to_owned(), text.into()));
        let memory = json!({
            "id": part.id.to_string(), "label": part.label, "memory_type": "semantic",
            "namespace": namespace, "tags": part.tags, "key_points": part.key_points,
            "metadata": metadata.collect::<Map<_, _>>(),
        });
        count += 1;
        writeln!(out, "{}", json!({ "memory": memory })).map_err(text)
    };
    for (number, line) in file.lines().enumerate() {
        let line = line.map_err(unusable(path))?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |error| format!("line {} is no part of a graph: {error}", number + 1);
        match serde_json::from_str(&line).map_err(wrong)? {
            GraphLine::Entity { name, entity_type, observations } => {
                write(GraphMemory::entity(namespace, &name, &entity_type, number))?;
                for (at, statement) in observations.iter().enumerate() {
                    write(GraphMemory::observation(namespace, &name, statement, at))?;
                }
            }
            GraphLine::Relation { from, to, relation_type } => {
                write(GraphMemory::relation(namespace, &from, &to, &relation_type, number))?;
            }
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(found: Vec<Found>) -> Vec<Value> {
        found
            .into_iter()
            .flat_map(|one| one.into_lines("here"))
            .map(|it| it["memory"].clone())
            .collect()
    }

    #[test]
    fn memories_of_mem0_keep_what_they_have() {
        let list = json!([{"id": "m1", "memory": "likes tea", "user_id": "anna",
            "categories": ["drinks"], "metadata": {"a": 1}, "created_at": "2024-07-01T12:00:00-07:00"}]);
        for all in [list.clone(), json!({"results": list})] {
            let lines = converted(mem0(all).unwrap());
            assert_eq!(lines.len(), 1);
            assert_eq!(
                (&lines[0]["namespace"], &lines[0]["tags"]),
                (&json!("anna"), &json!(["drinks"]))
            );
            assert_eq!(lines[0]["created_at"], "2024-07-01T19:00:00Z");
            assert_eq!(lines[0]["metadata"], json!({"a": 1}));
        }
    }

    #[test]
    fn conversations_give_what_the_user_wrote() {
        let message = |role: &str, text: &str| {
            json!({"message": {"author": {"role": role},
            "content": {"content_type": "text", "parts": [text]}, "create_time": 1_700_000_000.5}})
        };
        let mapping = json!({"n1": message("user", "my train leaves at nine"),
            "n2": message("assistant", "noted"), "n3": {"message": null}});
        let lines = converted(chatgpt(json!([{"title": "Trip", "mapping": mapping}])).unwrap());
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["label"], "my train leaves at nine");
        assert_eq!(lines[0]["created_at"], "2023-11-14T22:13:20.5Z");
        let messages = json!([
            {"uuid": "u1", "text": "I prefer metric units", "sender": "human"},
            {"uuid": "u2", "text": "noted", "sender": "assistant"},
            {"uuid": "u3", "text": "", "sender": "human",
                "content": [{"type": "text", "text": "and"}, {"type": "text", "text": "tea"}]},
        ]);
        let lines =
            converted(claude(json!([{"name": "Units", "chat_messages": messages}])).unwrap());
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["label"], "and\ntea");
        assert_eq!(lines[0]["metadata"], json!({"conversation": "Units"}));
    }

    #[test]
    fn long_texts_become_several_memories() {
        let label = "é".repeat(LABEL_BYTES_MAX);
        let parts = split(&label);
        assert_eq!(parts.concat(), label);
        assert!(parts.len() == 2 && parts.iter().all(|part| part.len() <= LABEL_BYTES_MAX));
        assert!(split(" \n").is_empty());
    }
}
