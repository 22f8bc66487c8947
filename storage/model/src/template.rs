//! Message templates of `notify` triggers.
//!
//! Placeholders: `{node_id}`, `{label}`, `{heat}`, `{namespace}`, `{memory_type}` and
//! `{event}`. `{heat:.2f}` is the heat with two decimals; 0 to 6 are allowed. Unknown
//! placeholders stay as they are. Inserted values are not expanded again.

use crate::id::MemoryId;
use crate::memory::Memory;
use crate::score::rounded;
use crate::trigger::TriggerEvent;

/// Longest message in bytes. Longer messages are truncated.
pub const MESSAGE_BYTES_MAX: usize = 4_096;
/// Longest name of a placeholder, in bytes.
const NAME_BYTES_MAX: usize = 16;
/// Template of triggers without one.
const DEFAULT_TEMPLATE: &str = "{event}: {label}";

/// The values of the placeholders.
#[derive(Clone, Copy)]
pub struct TemplateContext<'a> {
    /// The event.
    pub event: TriggerEvent,
    /// Id of the memory.
    pub id: MemoryId,
    /// Its text row.
    pub memory: &'a Memory,
    /// Its heat.
    pub heat: f64,
}

impl TemplateContext<'_> {
    /// Renders `template`, or the default template.
    pub fn render(&self, template: Option<&str>) -> String {
        let mut rest = template.unwrap_or(DEFAULT_TEMPLATE);
        let mut message = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            message.push_str(before);
            let name = &after[..after.floor_char_boundary(NAME_BYTES_MAX)];
            let name = name.split_once('}').map(|(name, _)| name);
            let known = name.and_then(|name| Some((self.value(name)?, &after[name.len() + 1..])));
            let value;
            (value, rest) = known.unwrap_or_else(|| ("{".to_owned(), after));
            message.push_str(&value);
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
        let context = TemplateContext {
            event: TriggerEvent::Store,
            id: MemoryId([0; 16]),
            memory: &memory,
            heat: 0.5,
        };
        context.render(template)
    }

    #[test]
    fn placeholders_are_expanded_once() {
        let template = "{memory_type} {node_id} in {namespace} at {heat:.2f} ({heat}): {label}";
        let expected = "episodic 00000000-0000-0000-0000-000000000000 in default at 0.50 (0.5): Prefers {heat} tea";
        assert_eq!(message(Some(template)), expected);
        assert_eq!(message(None), "on_store: Prefers {heat} tea");
    }

    #[test]
    fn unknown_placeholders_stay() {
        for text in ["{", "}{", "{unknown}", "{heat:.9f}", "{heat:.f}", "{{heat", "{}", "a {b"] {
            assert_eq!(message(Some(text)), text);
        }
        assert_eq!(message(Some("{{heat}}")), "{0.5}");
    }

    #[test]
    fn message_is_truncated_between_characters() {
        let long = message(Some(&"é{label}".repeat(1_000)));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.len() > MESSAGE_BYTES_MAX - 4);
    }
}
