//! Questions about chats of people with an agent: BEAM (Tavakoli et al., 2025), whose authors state no
//! licence. So nothing fetches it: HEARTH_CHATS names a file, gzipped lines of JSON: messages `{chat, id, role, text}`
//! and questions `{chat, question, evidence}`, which are the ids of the messages that answer it.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use tests::{array, string};

use crate::{Question, Set};

/// Each message is a memory, and each chat a namespace. `None` without a file.
pub(crate) fn messages() -> Option<Set> {
    let path = std::env::var_os("HEARTH_CHATS")?;
    let unpacked = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip runs");
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let text = String::from_utf8(unpacked.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    let (questions, messages): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line["question"].is_string());
    let mut set = Set::default();
    let mut numbers = HashMap::new();
    for message in &messages {
        numbers.insert((chat(message), message["id"].as_u64()), set.memories.len());
        let text = format!("{}: {}", string(&message["role"]), string(&message["text"]));
        set.memories.push((format!("chat-{}", chat(message)), text));
    }
    for question in &questions {
        let chat = chat(question);
        let ids = array(&question["evidence"]).iter().map(|id| (chat, id.as_u64()));
        set.questions.push(Question {
            kind: "agent chats",
            is_test: chat.is_multiple_of(2),
            text: string(&question["question"]).into(),
            namespace: format!("chat-{chat}"),
            answers: ids.map(|id| numbers[&id]).collect(),
        });
    }
    Some(set)
}

fn chat(line: &Value) -> u64 {
    line["chat"].as_u64().expect("a number")
}
