//! Messages with placeholders: what a trigger says of a memory.
//!
//! `{node_id}`, `{label}`, `{heat}`, `{namespace}`, `{memory_type}` and `{event}` stand for
//! what they name; `{heat:.2f}` is a heat with two digits, 0 to 6 of them. Anything else
//! between braces stays as it is.

use crate::model::id::MemoryId;
use crate::model::memory::Memory;
use crate::model::score::rounded;
use crate::model::trigger::TriggerEvent;

/// Longest message in bytes; a longer one is cut.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest name of a placeholder, in bytes.
const NAME_BYTES_MAX: usize = 16;
/// What is said when nobody says what.
const DEFAULT: &str = "{event}: {label}";

/// What a message is about.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// What happened.
    pub event: TriggerEvent,
    /// To which memory.
    pub id: MemoryId,
    /// Its text row.
    pub memory: &'a Memory,
    /// Its heat.
    pub heat: f64,
}

impl About<'_> {
    /// The message that `template` makes; the default one without it.
    pub fn message(&self, template: Option<&str>) -> String {
        let mut rest = template.unwrap_or(DEFAULT);
        let mut message = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            message.push_str(before);
            let name = &after[..after.floor_char_boundary(NAME_BYTES_MAX)];
            let name = name.split_once('}').map(|(name, _)| name);
            let known = name.and_then(|name| Some((self.value(name)?, &after[name.len() + 1..])));
            rest = match known {
                Some((value, after)) => {
                    message.push_str(&value);
                    after
                }
                None => {
                    message.push('{');
                    after
                }
            };
            if message.len() > MESSAGE_BYTES_MAX {
                break;
            }
        }
        message.push_str(rest);
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "node_id" => self.id.to_string(),
            "label" => {
                let label = &self.memory.label;
                label[..label.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
            }
            "heat" => rounded(self.heat).to_string(),
            "namespace" => self.memory.namespace.clone(),
            "memory_type" => self.memory.memory_type.name().to_owned(),
            "event" => self.event.name().to_owned(),
            _ => {
                let digits = name.strip_prefix("heat:.")?.strip_suffix('f')?;
                let digits: usize = digits.parse().ok().filter(|digits| *digits <= 6)?;
                format!("{:.digits$}", self.heat)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(template: Option<&str>) -> String {
        let memory = Memory::example("Prefers {heat} tea");
        let about =
            About { event: TriggerEvent::Store, id: MemoryId([0; 16]), memory: &memory, heat: 0.5 };
        about.message(template)
    }

    #[test]
    fn placeholders_are_filled_in_once() {
        let template = "{memory_type} {node_id} in {namespace} at {heat:.2f} ({heat}): {label}";
        let expected = "episodic 00000000-0000-0000-0000-000000000000 in default at 0.50 (0.5): Prefers {heat} tea";
        assert_eq!(message(Some(template)), expected);
        assert_eq!(message(None), "on_store: Prefers {heat} tea");
    }

    #[test]
    fn what_is_no_placeholder_stays() {
        for text in ["{", "}{", "{unknown}", "{heat:.9f}", "{heat:.f}", "{{heat", "{}", "a {b"] {
            assert_eq!(message(Some(text)), text);
        }
        assert_eq!(message(Some("{{heat}}")), "{0.5}");
    }

    #[test]
    fn a_message_is_cut_at_its_bound_between_characters() {
        let long = message(Some(&"é{label}".repeat(1_000)));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.len() > MESSAGE_BYTES_MAX - 4);
    }
}
