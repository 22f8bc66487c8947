//! Conversations with ChatGPT and Claude: what a person wrote and said, and what was attached.

use std::collections::HashSet;

use serde_json::Value;

use crate::client::foreign::found::{Entries, Found, Read, string, time};
use crate::client::foreign::read::Entry;

/// The conversations of a file: its objects, or the elements of `conversations`.
pub(super) fn conversations(values: Vec<Entry>) -> impl Iterator<Item = Entry> {
    let all =
        values.into_iter().flat_map(|Entry { place, mut value }| {
            match value["conversations"].take() {
                Value::Array(list) => {
                    list.into_iter().map(|value| (place.clone(), value)).collect()
                }
                _ => vec![(place, value)],
            }
        });
    all.enumerate().map(|(at, (place, value))| {
        let title = string(&value["title"]).or_else(|| string(&value["name"]));
        let title = title.map_or_else(String::new, |title| format!(" ({title})"));
        Entry { place: format!("{place}, conversation {}{title}", at + 1), value }
    })
}

/// The messages of the user in the thread that ends in `current_node`. Others were replaced by these.
pub(super) fn chatgpt(conversation: &Value) -> Result<Entries, String> {
    let mapping = conversation["mapping"].as_object().ok_or("the conversation has no `mapping`")?;
    let mut thread = HashSet::new();
    let mut next = string(&conversation["current_node"]).filter(|id| mapping.contains_key(id));
    // Parents that form a circle end the thread.
    while let Some(id) = next.filter(|id| !thread.contains(id)) {
        next = string(&mapping[&id]["parent"]).filter(|id| mapping.contains_key(id));
        thread.insert(id);
    }
    let title = string(&conversation["title"]);
    let messages = mapping.iter().filter(|(_, node)| node["message"]["author"]["role"] == "user");
    Ok(messages
        .map(|(id, node)| {
            let message = &node["message"];
            let read = match is_hidden(message) {
                _ if !thread.is_empty() && !thread.contains(id) => {
                    Ok(Read::Skip("replaced by another message"))
                }
                true => Ok(Read::Skip("hidden")),
                false => of_message("chatgpt", id, said(message), &title, &message["create_time"]),
            };
            (id.clone(), read)
        })
        .collect())
}

/// Whether a message is a setting that people do not see.
fn is_hidden(message: &Value) -> bool {
    message["metadata"]["is_visually_hidden_from_conversation"] == true
        || message["content"]["content_type"] == "user_editable_context"
}

/// Texts of a message, and transcripts of what was said.
fn said(message: &Value) -> String {
    let parts = message["content"]["parts"].as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| string(part).or_else(|| string(&part["text"])));
    parts.collect::<Vec<_>>().join("\n")
}

/// The messages of the user, and the texts of their attachments.
pub(super) fn claude(conversation: &Value) -> Result<Entries, String> {
    let messages = conversation["chat_messages"].as_array();
    let messages = messages.ok_or("the conversation has no `chat_messages`")?;
    let title = string(&conversation["name"]);
    let mut found = Vec::new();
    for message in messages.iter().filter(|message| message["sender"] == "human") {
        let Some(id) = string(&message["uuid"]) else {
            found.push(("without an id".into(), Err("a message has a `uuid`".into())));
            continue;
        };
        let created_at = &message["created_at"];
        found.push((id.clone(), of_message("claude", &id, text_of(message), &title, created_at)));
        let attachments = message["attachments"].as_array().into_iter().flatten().enumerate();
        for (at, attachment) in attachments {
            let Some(text) = string(&attachment["extracted_content"]) else { continue };
            let id = format!("{id}, attachment {}", at + 1);
            let mut read = of_message("claude", &id, text, &title, created_at);
            if let (Ok(Read::Memory(found)), Some(name)) =
                (&mut read, string(&attachment["file_name"]))
            {
                found.metadata.insert("file".into(), name.into());
            }
            found.push((id, read));
        }
    }
    Ok(found)
}

/// The text of a message: its own, or that of its parts.
fn text_of(message: &Value) -> String {
    let parts = message["content"].as_array().into_iter().flatten();
    let parts: Vec<_> = parts.filter_map(|part| string(&part["text"])).collect();
    string(&message["text"]).unwrap_or_else(|| parts.join("\n"))
}

/// What a person wrote in a conversation.
fn of_message(
    source: &str,
    id: &str,
    label: String,
    title: &Option<String>,
    created_at: &Value,
) -> Result<Read, String> {
    let metadata = title.iter().map(|title| ("conversation".to_owned(), title.as_str().into()));
    Ok(Read::Memory(Found {
        key: vec![source.to_owned(), id.to_owned()],
        // No text of a memory has this character.
        label: label.replace('\0', " "),
        memory_type: "episodic",
        tags: vec![source.to_owned()],
        metadata: metadata.collect(),
        created_at: time(created_at)?,
        ..Found::default()
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Labels of what comes in, and reasons of what does not.
    fn texts(messages: Entries) -> (Vec<String>, Vec<&'static str>) {
        let (mut labels, mut skipped) = (Vec::new(), Vec::new());
        for (id, read) in messages {
            match read.unwrap_or_else(|reason| panic!("{id}: {reason}")) {
                Read::Memory(found) => labels.push(found.label),
                Read::Skip(reason) => skipped.push(reason),
            }
        }
        (labels, skipped)
    }

    fn node(role: &str, parent: &str, parts: Value) -> Value {
        json!({"parent": parent, "message": {"author": {"role": role}, "create_time": 1_700_000_000.5,
            "content": {"content_type": "text", "parts": parts}}})
    }

    #[test]
    fn thread_of_the_current_node_comes_in() {
        let said = json!([{"content_type": "audio_transcription", "text": "said aloud"}]);
        let mut hidden = node("user", "", json!(["be brief"]));
        hidden["message"]["metadata"] = json!({"is_visually_hidden_from_conversation": true});
        let conversation = json!({"title": "Trip", "current_node": "n4", "mapping": {
            "n0": hidden, "n1": node("user", "n0", json!(["my train leaves at nine"])),
            "n2": node("assistant", "n1", json!(["noted"])), "n3": node("user", "n1", json!(["an old try"])),
            "n4": node("user", "n2", said), "n5": {"message": null}}});
        let (labels, skipped) = texts(chatgpt(&conversation).unwrap());
        assert_eq!(labels, ["my train leaves at nine", "said aloud"]);
        assert_eq!(skipped, ["hidden", "replaced by another message"]);
        assert!(chatgpt(&json!({})).is_err());
    }

    #[test]
    fn attachments_are_memories_of_their_own() {
        let messages = json!([
            {"uuid": "u1", "text": "I prefer metric units", "sender": "human",
                "attachments": [{"file_name": "letter.txt", "extracted_content": "Dear Ann"}]},
            {"uuid": "u2", "text": "noted", "sender": "assistant"},
            {"uuid": "u3", "text": "", "sender": "human",
                "content": [{"type": "text", "text": "and"}, {"type": "text", "text": "tea"}]},
        ]);
        let (labels, _) =
            texts(claude(&json!({"name": "Units", "chat_messages": messages})).unwrap());
        assert_eq!(labels, ["I prefer metric units", "Dear Ann", "and\ntea"]);
    }
}
