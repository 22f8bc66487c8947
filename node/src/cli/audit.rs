//! `hearth audit` and `hearth cluster audit`: export the audit log of a tenant or of the operator as
//! lines of JSON, and verify its hash chains.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use storage::model::audit::{Fields, Hash, hash, hashed_texts};

use crate::cli::api_client::Address;
use crate::error::{text, unusable};

/// Entries of a page.
const PAGE: usize = 100;

/// Arguments of `hearth audit`.
#[derive(Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    address: Address,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Print the entries of a chain, the oldest first, one line of JSON each
    Export {
        /// Which chain
        #[arg(long, value_enum, default_value_t = Chain::Administration)]
        chain: Chain,
        /// Begin after the entry with this number
        #[arg(long)]
        after: Option<u64>,
    },
    /// Compute the hashes of all entries again, and compare them
    Verify {
        /// Verify an exported file in place of the cluster
        #[arg(long)]
        file: Option<PathBuf>,
        /// An entry that must be in the chain of administration, as verify printed it: NUMBER:HASH
        #[arg(long)]
        head: Option<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Chain {
    /// Acts of administrators and of the operator
    Administration,
    /// Deletions, bulk operations, triggers, new kinds of use of a key
    Data,
}

/// A page of a chain, as a node sends it.
#[derive(Deserialize)]
pub(super) struct Page {
    first: u64,
    anchor: String,
    last: u64,
    head: String,
    items: Vec<Value>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    number: u64,
    at: String,
    actor: Actor,
    source: Option<String>,
    action: String,
    target: String,
    before: Fields,
    after: Fields,
    previous_hash: String,
    hash: String,
}

#[derive(Deserialize)]
struct Actor {
    kind: String,
    key_id: String,
    name: String,
    role: String,
}

impl Chain {
    fn name(self) -> &'static str {
        match self {
            Self::Administration => "administration",
            Self::Data => "data",
        }
    }
}

impl Audit {
    pub(crate) async fn run(self) -> Result<(), String> {
        if let Command::Verify { file: Some(path), head } = self.command {
            return verify_file(&path, head.as_deref());
        }
        let client = self.address.client()?;
        run(self.command, async |query| client.get(&format!("/admin/audit?{query}")).await).await
    }
}

/// Runs the command on pages that `get` returns for a query.
pub(super) async fn run(
    command: Command,
    mut get: impl AsyncFnMut(String) -> Result<Page, String>,
) -> Result<(), String> {
    match command {
        Command::Export { chain, after } => export(chain, after, &mut get).await,
        Command::Verify { file: Some(path), head } => verify_file(&path, head.as_deref()),
        Command::Verify { file: None, head } => {
            for chain in [Chain::Administration, Chain::Data] {
                let head = head.as_deref().filter(|_| chain == Chain::Administration);
                verify(chain, head, &mut get).await?;
            }
            Ok(())
        }
    }
}

async fn export(
    chain: Chain,
    mut after: Option<u64>,
    get: &mut impl AsyncFnMut(String) -> Result<Page, String>,
) -> Result<(), String> {
    loop {
        let page = get(query(chain, after)).await?;
        page.items.iter().for_each(|item| println!("{item}"));
        let Some(next) = page.next_cursor else { return Ok(()) };
        after = Some(next.parse().map_err(text)?);
    }
}

async fn verify(
    chain: Chain,
    head: Option<&str>,
    get: &mut impl AsyncFnMut(String) -> Result<Page, String>,
) -> Result<(), String> {
    let mut page = get(query(chain, None)).await?;
    let mut verifier = Verifier { next: page.first, previous: page.anchor.clone(), head };
    loop {
        let (last, head) = (page.last, page.head);
        for item in page.items {
            verifier.verify(item).map_err(|fault| format!("{}: {fault}", chain.name()))?;
        }
        let Some(next) = page.next_cursor else {
            // Entries may have been added since the page was read.
            if verifier.next != last + 1 || verifier.previous != head {
                return Err(format!("{}: entries before {last} are missing", chain.name()));
            }
            break;
        };
        page = get(query(chain, Some(next.parse().map_err(text)?))).await?;
    }
    println!("{}", verifier.finish(chain.name())?);
    Ok(())
}

fn verify_file(path: &Path, head: Option<&str>) -> Result<(), String> {
    let content = std::fs::read_to_string(path).map_err(unusable(path))?;
    let mut verifier: Option<Verifier<'_>> = None;
    for line in content.lines() {
        let item: Value = serde_json::from_str(line).map_err(text)?;
        let entry: Entry = serde_json::from_value(item.clone()).map_err(text)?;
        verifier
            .get_or_insert(Verifier { next: entry.number, previous: entry.previous_hash, head })
            .verify(item)?;
    }
    let verifier = verifier.ok_or("the file has no entry")?;
    println!("{}", verifier.finish("file")?);
    Ok(())
}

fn query(chain: Chain, after: Option<u64>) -> String {
    let cursor = after.map(|after| format!("&cursor={after}")).unwrap_or_default();
    let chain = chain.name();
    format!("chain={chain}&order=asc&limit={PAGE}&consistency=linearizable{cursor}")
}

/// Follows a chain.
struct Verifier<'a> {
    next: u64,
    previous: String,
    /// An entry that must be in the chain.
    head: Option<&'a str>,
}

impl Verifier<'_> {
    fn verify(&mut self, item: Value) -> Result<(), String> {
        let entry: Entry = serde_json::from_value(item).map_err(text)?;
        let number = entry.number;
        if number != self.next {
            return Err(format!("entry {} is missing", self.next));
        }
        if entry.previous_hash != self.previous {
            return Err(format!("entry {number} does not follow the one before"));
        }
        if hex::encode(entry.computed_hash()?) != entry.hash {
            return Err(format!("entry {number} was changed: its hash is another one"));
        }
        let end = format!("{number}:{}", entry.hash);
        self.head = self.head.filter(|head| *head != end);
        (self.next, self.previous) = (number + 1, entry.hash);
        Ok(())
    }

    fn finish(self, name: &str) -> Result<String, String> {
        match self.head {
            Some(head) => Err(format!("{name}: the entry {head} is not in the chain")),
            None => Ok(format!("{name}: intact, head {}:{}", self.next - 1, self.previous)),
        }
    }
}

impl Entry {
    fn computed_hash(&self) -> Result<Hash, String> {
        let mut previous = Hash::default();
        hex::decode_to_slice(&self.previous_hash, &mut previous).map_err(text)?;
        let (number, actor) = (self.number.to_string(), &self.actor);
        let head = [
            &number,
            &self.at,
            &actor.kind,
            &actor.key_id,
            &actor.name,
            &actor.role,
            self.source.as_deref().unwrap_or_default(),
            &self.action,
            &self.target,
        ];
        Ok(hash(previous, &hashed_texts(head, &self.before, &self.after)))
    }
}
