//! Memories of mem0 and OpenMemory, as their interfaces list them.

use std::iter;

use jiff::Timestamp;
use serde_json::Value;
use storage::model::details::{MEMORY_TAG_BYTES_MAX, TAGS_MAX};
use storage::model::memory::NAMESPACE_BYTES_MAX;

use crate::client::foreign::found::{Found, Read, string, time};
use crate::client::foreign::read::Entry;

/// The memories of a file: its objects, or the elements of their lists.
pub(super) fn entries(values: Vec<Entry>) -> impl Iterator<Item = Entry> {
    values.into_iter().flat_map(|Entry { place, mut value }| {
        let list = ["results", "memories"].into_iter().find_map(|name| match value[name].take() {
            Value::Array(list) => Some(list),
            _ => None,
        });
        // What is left of an object with a list says whether there is more of it.
        let is_page = list.is_some() && string(&value["next"]).is_some();
        let one = (list.is_none() || is_page).then(|| Entry { place: place.clone(), value });
        let of_list = list.into_iter().flatten().enumerate();
        let of_list =
            of_list.map(|(at, value)| Entry { place: format!("entry {}", at + 1), value });
        iter::chain(one, of_list).collect::<Vec<_>>()
    })
}

pub(super) fn memory(one: &Value) -> Result<Read, String> {
    match string(&one["state"]).as_deref() {
        Some("deleted") => return Ok(Read::Skip("deleted there")),
        Some("archived") => return Ok(Read::Skip("archived there")),
        _ => {}
    }
    let expires = time(&one["expiration_date"])?.and_then(|time| time.parse::<Timestamp>().ok());
    if expires.is_some_and(|at| at < Timestamp::now()) {
        return Ok(Read::Skip("expired"));
    }
    if one.get("next").is_some() && one.get("id").is_none() {
        return Ok(Read::Skip("a further page, which is not in the file"));
    }
    let texts = ["memory", "content", "text", "data"];
    let Some(label) = texts.into_iter().find_map(|name| string(&one[name])) else {
        return Ok(Read::Skip("without text"));
    };
    let id = string(&one["id"]).or_else(|| Some(one["id"].as_u64()?.to_string()));
    let mut metadata = one["metadata"].as_object().cloned().unwrap_or_default();
    let owner = string(&one["user_id"]).or_else(|| string(&one["agent_id"]));
    // The text of an entry without an id tells it from others.
    let key = id.unwrap_or_else(|| label.clone());
    let fits = |name: &String| {
        name.len() <= NAMESPACE_BYTES_MAX && name != "*" && !name.contains(char::is_control)
    };
    let namespace = owner.clone().filter(fits);
    if namespace.is_none()
        && let Some(owner) = owner
    {
        metadata.entry("user_id").or_insert_with(|| owner.into());
    }
    let categories = one["categories"].as_array().into_iter().flatten().filter_map(string);
    let (mut tags, others): (Vec<_>, Vec<_>) =
        categories.partition(|category| category.len() <= MEMORY_TAG_BYTES_MAX);
    let rest = tags.split_off(tags.len().min(TAGS_MAX));
    let others: Vec<_> = others.into_iter().chain(rest).collect();
    if !others.is_empty() {
        metadata.entry("categories").or_insert_with(|| others.join(", ").into());
    }
    Ok(Read::Memory(Found {
        key: vec!["mem0".into(), key],
        label,
        memory_type: "semantic",
        namespace,
        tags,
        metadata,
        created_at: time(&one["created_at"])?,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::foreign::read::read_values;

    fn found(one: &Value) -> Found {
        match memory(one) {
            Ok(Read::Memory(found)) => found,
            Ok(Read::Skip(reason)) => panic!("skipped: {reason}"),
            Err(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn memories_keep_what_they_have() {
        let one = json!({"id": "m1", "memory": "likes tea", "user_id": "anna",
            "categories": ["drinks"], "metadata": {"a": 1}, "created_at": "2024-07-01T12:00:00-07:00"});
        for all in [json!([one]), json!({"results": [one]}), json!({"memories": [one]}), one] {
            let all: Vec<_> = entries(read_values(&all.to_string()).0).collect();
            assert_eq!(all.len(), 1);
            let found = found(&all[0].value);
            assert_eq!(
                (found.namespace.as_deref(), &found.tags[..]),
                (Some("anna"), &["drinks".into()][..])
            );
            assert_eq!(found.created_at.as_deref(), Some("2024-07-01T19:00:00Z"));
            assert_eq!(Value::from(found.metadata), json!({"a": 1}));
        }
    }

    #[test]
    fn times_are_read_in_all_forms() {
        for (written, read) in [
            (json!("2024-07-20T01:30:36.275141"), "2024-07-20T01:30:36.275141Z"),
            (json!("2024-07-20 01:30:36+00:00"), "2024-07-20T01:30:36Z"),
            (json!("2024-07-20"), "2024-07-20T00:00:00Z"),
            (json!("1721460636"), "2024-07-20T07:30:36Z"),
            (json!(1_721_460_636), "2024-07-20T07:30:36Z"),
            (json!(1_721_460_636_000_u64), "2024-07-20T07:30:36Z"),
        ] {
            assert_eq!(time(&written), Ok(Some(read.to_owned())), "{written}");
        }
        assert_eq!(time(&Value::Null), Ok(None));
        assert!(
            memory(&json!({"id": 1, "memory": "x", "created_at": "soon"})).is_err(),
            "never now"
        );
    }

    #[test]
    fn what_does_not_fit_is_kept_as_metadata() {
        let found = found(
            &json!({"id": 1, "memory": "x", "user_id": "*", "categories": ["c".repeat(70), "ok"]}),
        );
        assert_eq!((found.namespace, found.tags), (None, vec!["ok".to_owned()]));
        assert_eq!(found.metadata["user_id"], "*");
        assert_eq!(found.metadata["categories"], "c".repeat(70));
    }
}
