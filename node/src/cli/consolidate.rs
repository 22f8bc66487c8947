//! `hearth consolidate`: folds memories with the same words into one, through the public listener of
//! any node. Without `--apply`, it counts them. Run it daily to keep a tenant free of them.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use clap::Args;
use reqwest::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use storage::model::duplicate::has_same_words;

use crate::client::access::Access;
use crate::failure::Failure;

/// Arguments of `hearth consolidate`.
#[derive(Args)]
pub(crate) struct Consolidate {
    #[command(flatten)]
    access: Access,
    /// Fold them; without it, nothing changes
    #[arg(long)]
    apply: bool,
}

/// A page of what can be folded, as the node sends it.
#[derive(Deserialize)]
struct Page {
    groups: Vec<Group>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Group {
    /// The text of the hottest, if the memories say the same.
    label: Option<String>,
    memories: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    id: String,
    label: String,
}

/// Groups and their memories.
#[derive(Default)]
struct Count {
    groups: usize,
    memories: usize,
}

impl Count {
    fn add(&mut self, group: &Group) {
        self.groups += 1;
        self.memories += group.memories.len();
    }
}

impl Group {
    /// The text of a memory that replaces all, if no word is lost.
    fn text(&self) -> Option<&str> {
        let label = self.label.as_deref()?;
        let is_same = |memory: &Candidate| has_same_words(&memory.label, label);
        self.memories.iter().all(is_same).then_some(label)
    }
}

impl Consolidate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.access.connect()?;
        let (mut same, mut others, mut cursor) = (Count::default(), Count::default(), None);
        loop {
            let query = [("limit", Some("100".into())), ("cursor", cursor)];
            let page: Page = connection.get("/agent/consolidation/candidates", &query).await?;
            for group in &page.groups {
                let Some(label) = group.text() else {
                    others.add(group);
                    continue;
                };
                same.add(group);
                if self.apply {
                    let ids: Vec<_> = group.memories.iter().map(|memory| &memory.id).collect();
                    let body = json!({"ids": ids, "label": label});
                    let path = "/agent/consolidation/fold";
                    let _: IgnoredAny =
                        connection.write_once(Method::POST, path, Some(&body)).await?;
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let done = if self.apply { "folded" } else { "would be folded: repeat with --apply" };
        println!(
            "{:>8}  memories with the same words in {} groups, {done}",
            same.memories, same.groups
        );
        println!(
            "{:>8}  near duplicates and cold fragments in {} groups: an agent must write their texts, \
             see GET /agent/consolidation/candidates",
            others.memories, others.groups
        );
        Ok(())
    }
}
