//! Memories as people read them: a table of several, or one with all its fields.

use serde::Deserialize;
use serde_json::Value;

use crate::client::connection::parse;
use crate::client::print::{Cell, Table, age, harmless, print, print_fields};
use crate::failure::Failure;

const NOTHING: &str = "No memory matches.";

/// A memory, as far as people read it.
#[derive(Deserialize)]
pub(super) struct Memory {
    pub(super) id: String,
    pub(super) label: String,
    memory_type: String,
    namespace: String,
    heat: f64,
    stability: f64,
    decay_class: String,
    tier: String,
    is_pinned: bool,
    is_locked: bool,
    flagged_for_review: bool,
    recall_count: u64,
    last_recalled_at: Option<String>,
    created_at: String,
    updated_at: String,
    #[serde(default)]
    key_points: Vec<String>,
    superseded_by: Option<String>,
    pub(super) duplicate_of: Option<String>,
    score: Option<f64>,
}

impl Memory {
    /// Its marks: P pinned, L locked, C cold, F flagged for review.
    fn marks(&self) -> String {
        let marks = [
            (self.is_pinned, 'P'),
            (self.is_locked, 'L'),
            (self.tier == "cold", 'C'),
            (self.flagged_for_review, 'F'),
        ];
        marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| mark).collect()
    }
}

/// Prints memories as a table, in the order of the response.
pub(super) fn print_memories(list: &Value) -> Result<(), Failure> {
    let memories: Vec<Memory> = parse(list.clone())?;
    let is_scored = memories.iter().any(|memory| memory.score.is_some());
    let mut titles = vec!["HEAT", "MARKS", "TYPE", "NAMESPACE", "CHANGED", "ID", "TEXT"];
    if is_scored {
        titles.insert(0, "SCORE");
    }
    let mut table = Table::new(&titles);
    for memory in &memories {
        let cells = [
            Cell::heat(memory.heat),
            memory.marks().into(),
            memory.memory_type.as_str().into(),
            memory.namespace.as_str().into(),
            age(&memory.updated_at).into(),
            Cell::dim(memory.id.as_str()),
            memory.label.as_str().into(),
        ];
        match memory.score {
            Some(score) => {
                let [heat, marks, kind, namespace, changed, id, label] = cells;
                let score = format!("{score:.3}").into();
                table.row([score, heat, marks, kind, namespace, changed, id, label]);
            }
            None => table.row(cells),
        }
    }
    table.print(NOTHING)
}

pub(super) fn print_memory(memory: Value) -> Result<(), Failure> {
    let memory: Memory = parse(memory)?;
    print(&harmless(&memory.label))?;
    let recalls = match &memory.last_recalled_at {
        Some(last) => format!("{}, last {} ago", memory.recall_count, age(last)),
        None => memory.recall_count.to_string(),
    };
    let marks = [
        (memory.is_pinned, "pinned"),
        (memory.is_locked, "locked"),
        (memory.tier == "cold", "archived"),
        (memory.flagged_for_review, "flagged for review"),
    ];
    let marks: Vec<_> = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, it)| *it).collect();
    print_fields(&[
        ("id", memory.id),
        ("type", format!("{}, {}", memory.memory_type, memory.decay_class)),
        ("namespace", memory.namespace),
        ("heat", format!("{:.3}, stability {:.2}", memory.heat, memory.stability)),
        ("marks", marks.join(", ")),
        ("recalls", recalls),
        ("created", memory.created_at),
        ("changed", memory.updated_at),
        ("key points", memory.key_points.join("; ")),
        ("superseded by", memory.superseded_by.unwrap_or_default()),
    ])
}

/// Prints the messages of triggers that fired.
pub(super) fn print_notifications(response: &Value) -> Result<(), Failure> {
    for fired in response["trigger_notifications"].as_array().into_iter().flatten() {
        let texts = ["trigger_name", "message"].map(|it| fired[it].as_str().unwrap_or_default());
        print(&harmless(&format!("trigger {}: {}", texts[0], texts[1])))?;
    }
    Ok(())
}
