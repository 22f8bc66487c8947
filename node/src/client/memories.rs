//! `hearth add`, `search`, `list`, `get`, `edit`, `forget`, `relate`, `hot` and `context`.

use std::io::{IsTerminal, Read};
use std::process::Command;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::client::access::Client;
use crate::client::connection::{fields, parse};
use crate::client::memory::{Memory, print_memories, print_memory, print_notifications};
use crate::client::print::{harmless, print, print_json};
use crate::error::{cannot, text};
use crate::failure::{Exit, Failure};

/// Store a memory. Its text is that of the arguments, or standard input
#[derive(Args)]
pub(crate) struct Add {
    /// Its text; `-` or nothing reads standard input
    text: Vec<String>,
    /// episodic, semantic, preference, procedural, fact or moment
    #[arg(long = "type")]
    memory_type: Option<String>,
    #[arg(long, short)]
    namespace: Option<String>,
    /// Heat from 0 to 1
    #[arg(long)]
    heat: Option<f64>,
    /// Do not let it cool
    #[arg(long)]
    pin: bool,
    /// Another text under which it is found. May be repeated
    #[arg(long = "key-point")]
    key_points: Vec<String>,
    /// Id of the memory that it replaces
    #[arg(long, value_name = "ID")]
    supersedes: Option<String>,
    #[command(flatten)]
    client: Client,
}

impl Add {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let label = match self.text.join(" ").as_str() {
            "" | "-" => standard_input()?,
            text => text.to_owned(),
        };
        let body = fields([
            ("label", label.into()),
            ("memory_type", self.memory_type.into()),
            ("namespace", connection.namespace(self.namespace).into()),
            ("initial_heat", self.heat.into()),
            ("is_pinned", self.pin.then_some(true).into()),
            ("key_points", json!(self.key_points)),
            ("supersedes", self.supersedes.into()),
        ]);
        let created: Value = connection.write(Method::POST, "/agent/nodes", Some(&body)).await?;
        if self.client.is_json() {
            return print_json(&created);
        }
        let memory: Memory = parse(created.clone())?;
        match memory.duplicate_of {
            Some(first) => print(&format!("{first} has this text already."))?,
            None => print(&memory.id)?,
        }
        print_notifications(&created)
    }
}

fn standard_input() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        eprintln!("hearth: write the text, and end it with Ctrl-D");
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(cannot("read standard input"))?;
    Ok(text.trim_end().to_owned())
}

/// Find memories by meaning
#[derive(Args)]
pub(crate) struct Search {
    /// What to look for
    #[arg(required = true)]
    query: Vec<String>,
    #[arg(long, default_value_t = 10)]
    limit: u32,
    /// Only memories of this type
    #[arg(long = "type")]
    memory_type: Option<String>,
    #[arg(long, short)]
    namespace: Option<String>,
    /// Archived memories too
    #[arg(long)]
    archived: bool,
    /// Print every factor of each score, as JSON
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    client: Client,
}

impl Search {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let body = fields([
            ("query", self.query.join(" ").into()),
            ("limit", self.limit.into()),
            ("memory_type", self.memory_type.into()),
            ("namespace", connection.namespace(self.namespace).into()),
            ("tier", self.archived.then_some("all").into()),
            ("explain", self.explain.then_some(true).into()),
        ]);
        let (headers, found) = connection.search(&body).await?;
        if self.client.is_json() || self.explain {
            return print_json(&found);
        }
        print_memories(&found)?;
        let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if header("x-hearth-evidence") == Some("none") && found != json!([]) {
            eprintln!("hearth: none of them seems to answer the query");
        }
        match header("x-hearth-cold-matches") {
            None | Some("0") => {}
            Some(count) => {
                eprintln!("hearth: archived memories that match: {count}; add --archived");
            }
        }
        Ok(())
    }
}

/// List memories, the hottest first. Marks are P pinned, L locked, C cold, F flagged for review
#[derive(Args)]
pub(crate) struct List {
    /// Only memories that contain these words
    words: Vec<String>,
    /// Most memories, of all pages
    #[arg(long, default_value_t = 25, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    limit: usize,
    /// Only memories of this type
    #[arg(long = "type")]
    memory_type: Option<String>,
    #[arg(long, short)]
    namespace: Option<String>,
    /// Only pinned memories
    #[arg(long)]
    pinned: bool,
    /// Only memories that feedback `wrong` flagged
    #[arg(long)]
    flagged: bool,
    /// hot, cold or all
    #[arg(long, default_value = "all")]
    tier: String,
    /// heat, updated_at, created_at or memory_type
    #[arg(long, default_value = "heat")]
    sort: String,
    /// The lowest first
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    client: Client,
}

/// Most memories of a page.
const PAGE_MAX: usize = 100;

impl List {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let words = Some(self.words.join(" ")).filter(|words| !words.is_empty());
        let query = [
            ("search", words),
            ("memory_type", self.memory_type),
            ("namespace", connection.namespace(self.namespace)),
            ("pinned", self.pinned.then(|| "true".into())),
            ("flagged", self.flagged.then(|| "true".into())),
            ("tier", Some(self.tier)),
            ("sort", Some(self.sort)),
            ("order", self.reverse.then(|| "asc".into())),
            ("page_size", Some(self.limit.min(PAGE_MAX).to_string())),
        ];
        let path = "/agent/nodes";
        let (items, last) = connection.first(path, "items", &query, self.limit).await?;
        let total = last["total"].as_u64().unwrap_or(0);
        let shown = items.len() as u64;
        if self.client.is_json() {
            return print_json(&json!({"items": items, "total": total}));
        }
        print_memories(&items.into())?;
        if total > shown {
            print(&format!("{shown} of {total} memories: --limit shows more."))?;
        }
        Ok(())
    }
}

/// Show memories
#[derive(Args)]
pub(crate) struct Get {
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    client: Client,
}

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        for (at, id) in self.ids.iter().enumerate() {
            let memory: Value = connection.get(&path(id)?, &[]).await?;
            if self.client.is_json() {
                print_json(&memory)?;
                continue;
            }
            if at > 0 {
                print("")?;
            }
            print_memory(memory)?;
        }
        Ok(())
    }
}

/// The path of a memory. An id has no characters of other parts of a URL.
fn path(id: &str) -> Result<String, Failure> {
    match id.parse::<uuid::Uuid>() {
        Ok(id) => Ok(format!("/agent/nodes/{id}")),
        Err(_) => Err(Failure::new(Exit::NotFound, format!("{id:?} is no id of a memory"))),
    }
}

/// Change a memory. Without options, its text opens in $EDITOR
#[derive(Args)]
pub(crate) struct Edit {
    id: String,
    /// Its new text; `-` reads standard input
    #[arg(long)]
    label: Option<String>,
    #[arg(long = "type")]
    memory_type: Option<String>,
    /// Move it to another namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// Heat from 0 to 1
    #[arg(long)]
    heat: Option<f64>,
    /// volatile, normal, persistent or permanent
    #[arg(long)]
    decay_class: Option<String>,
    /// Heat that it never cools below
    #[arg(long)]
    min_heat: Option<f64>,
    /// true: do not let it cool
    #[arg(long)]
    pinned: Option<bool>,
    /// true: do not let it be deleted
    #[arg(long)]
    locked: Option<bool>,
    /// false: it is flagged no more
    #[arg(long)]
    flagged: Option<bool>,
    /// true: an admin has reviewed it, so it also leaves the quarantine
    #[arg(long)]
    reviewed: Option<bool>,
    #[command(flatten)]
    client: Client,
}

impl Edit {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let path = path(&self.id)?;
        let label = match self.label.as_deref() {
            Some("-") => Some(standard_input()?),
            label => label.map(str::to_owned),
        };
        let mut body = fields([
            ("label", label.into()),
            ("memory_type", self.memory_type.into()),
            ("namespace", self.namespace.into()),
            ("current_heat", self.heat.into()),
            ("decay_class", self.decay_class.into()),
            ("min_heat", self.min_heat.into()),
            ("is_pinned", self.pinned.into()),
            ("is_locked", self.locked.into()),
            ("flagged_for_review", self.flagged.into()),
            ("reviewed", self.reviewed.into()),
        ]);
        let mut file = None;
        if body.as_object().is_some_and(Map::is_empty) {
            let memory: Memory = connection.get(&path, &[]).await?;
            let (edited, at) = in_editor(&memory.label)?;
            file = Some(at);
            if edited == memory.label {
                return print("Nothing changed.");
            }
            body = json!({ "label": edited });
        }
        let changed: Result<Value, _> = connection.write(Method::PATCH, &path, Some(&body)).await;
        if let (Err(_), Some(file)) = (&changed, file) {
            let (_, path) = file.keep().map_err(text)?;
            eprintln!("The text that was not saved is in {}.", path.display());
        }
        let changed = changed?;
        match self.client.is_json() {
            true => print_json(&changed),
            false => {
                print_memory(changed.clone())?;
                print_notifications(&changed)
            }
        }
    }
}

/// The text after the user's editor has ended, and its file.
fn in_editor(label: &str) -> Result<(String, NamedTempFile), Failure> {
    let file = tempfile::Builder::new().prefix("hearth-").suffix(".md").tempfile();
    let file = file.map_err(cannot("create a temporary file"))?;
    std::fs::write(file.path(), label).map_err(cannot("write a temporary file"))?;
    let variable = |name| std::env::var(name).ok().filter(|editor| !editor.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".into());
    // As git does: the variable may contain arguments.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file.path());
    let status = command.status().map_err(cannot("start the editor"))?;
    if !status.success() {
        return Err(format!("{editor} ended with {status}: nothing changed").into());
    }
    let edited = std::fs::read_to_string(file.path()).map_err(text)?;
    Ok((edited.trim_end().to_owned(), file))
}

/// Delete memories for good
#[derive(Args)]
pub(crate) struct Forget {
    #[arg(required = true)]
    ids: Vec<String>,
    /// The texts are wrong: captures and imports do not bring them back
    #[arg(long)]
    reject: bool,
    #[command(flatten)]
    client: Client,
}

impl Forget {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        for id in &self.ids {
            let path = format!("{}?reject={}", path(id)?, self.reject);
            let deleted: Value = connection.write(Method::DELETE, &path, None).await?;
            match self.client.is_json() {
                true => print_json(&deleted)?,
                false => print(&format!("{id} is deleted."))?,
            }
        }
        Ok(())
    }
}

/// Create an edge from one memory to another
#[derive(Args)]
pub(crate) struct Relate {
    /// Id of the memory that the edge begins at
    source: String,
    /// Id of the memory that it leads to
    target: String,
    #[arg(long, default_value = "related_to")]
    relation: String,
    /// Delete the edge
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    client: Client,
}

impl Relate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let body = json!({
            "source_id": self.source, "target_id": self.target, "relation": self.relation
        });
        let path = "/agent/graph/relate";
        let edge: Value = match self.delete {
            true => connection.write_once(Method::DELETE, path, Some(&body)).await?,
            // An edge that exists stays the same.
            false => connection.set(Method::POST, path, &body).await?,
        };
        if self.client.is_json() {
            return print_json(&edge);
        }
        let Self { source, relation, target, .. } = &self;
        let end = if self.delete { ": deleted" } else { "" };
        print(&harmless(&format!("{source} -{relation}-> {target}{end}")))?;
        print_notifications(&edge)
    }
}

/// List the hottest memories
#[derive(Args)]
pub(crate) struct Hot {
    #[arg(long, default_value_t = 20)]
    limit: u32,
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    client: Client,
}

impl Hot {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let query = [
            ("limit", Some(self.limit.to_string())),
            ("namespace", connection.namespace(self.namespace)),
        ];
        let found: Value = connection.get("/agent/hot_nodes", &query).await?;
        match self.client.is_json() {
            true => print_json(&found),
            false => print_memories(&found),
        }
    }
}

/// Print a context for an agent's turn: what matches a query, then pinned and hot memories
#[derive(Args)]
pub(crate) struct Context {
    /// What the turn is about
    prompt: Vec<String>,
    /// Tokens that it may have, about four characters each
    #[arg(long, default_value_t = 2_000)]
    tokens: u32,
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    client: Client,
}

impl Context {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let connection = self.client.connect()?;
        let body = fields([
            ("prompt", self.prompt.join(" ").into()),
            ("token_budget", self.tokens.into()),
            ("namespace", connection.namespace(self.namespace).into()),
        ]);
        let loaded: Value = connection.ask("/agent/context", &body).await?;
        match self.client.is_json() {
            true => print_json(&loaded),
            false => print(harmless(loaded["context"].as_str().unwrap_or_default()).trim_end()),
        }
    }
}
