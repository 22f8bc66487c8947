//! `hearth audit` and `hearth cluster audit`: export the audit log of a tenant or of the operator as
//! lines of JSON, and verify its hash chains.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use storage::model::audit::{Fields, Hash, hash, hashed_texts};

use crate::client::access::Access;
use crate::error::{text, unusable};
use crate::failure::Failure;

/// Entries of a page.
const PAGE: usize = 100;

/// Arguments of `hearth audit`.
#[derive(Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    access: Access,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
pub(super) enum AuditCommand {
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
        /// An entry that must be in a chain, as verify printed it: CHAIN:NUMBER:HASH. May be repeated
        #[arg(long = "head", value_parser = parse_head)]
        heads: Vec<Head>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Chain {
    /// Acts of administrators and of the operator
    Administration,
    /// Deletions, bulk operations, triggers, new kinds of use of a key
    Data,
}

/// An entry that must be in a chain.
#[derive(Debug, Clone)]
pub(super) struct Head {
    chain: Chain,
    number: u64,
    hash: String,
}

fn parse_head(text: &str) -> Result<Head, String> {
    let fault = "must be CHAIN:NUMBER:HASH, such as administration:41:9f3c…";
    let [chain, number, hash] =
        text.split(':').collect::<Vec<_>>().try_into().map_err(|_| fault.to_owned())?;
    let chain = <Chain as ValueEnum>::from_str(chain, false).map_err(|_| fault.to_owned())?;
    let number = number.parse().map_err(|_| fault.to_owned())?;
    Ok(Head { chain, number, hash: hash.to_owned() })
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
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if let AuditCommand::Verify { file: Some(path), heads } = self.command {
            return Ok(verify_file(&path, heads)?);
        }
        let connection = self.access.connect()?;
        let get = async |query| connection.get(&format!("/admin/audit?{query}"), &[]).await;
        run(self.command, get).await
    }
}

/// Runs the command on pages that `get` returns for a query.
pub(super) async fn run(
    command: AuditCommand,
    mut get: impl AsyncFnMut(String) -> Result<Page, Failure>,
) -> Result<(), Failure> {
    match command {
        AuditCommand::Export { chain, after } => export(chain, after, &mut get).await,
        AuditCommand::Verify { file: Some(path), heads } => Ok(verify_file(&path, heads)?),
        AuditCommand::Verify { file: None, heads } => {
            for chain in [Chain::Administration, Chain::Data] {
                let heads = heads.iter().filter(|head| head.chain == chain).cloned().collect();
                verify(chain, heads, &mut get).await?;
            }
            Ok(())
        }
    }
}

async fn export(
    chain: Chain,
    mut after: Option<u64>,
    get: &mut impl AsyncFnMut(String) -> Result<Page, Failure>,
) -> Result<(), Failure> {
    loop {
        let page = get(query(chain, after)).await?;
        page.items.iter().for_each(|item| println!("{item}"));
        let Some(next) = page.next_cursor else { return Ok(()) };
        after = Some(next.parse().map_err(text)?);
    }
}

async fn verify(
    chain: Chain,
    heads: Vec<Head>,
    get: &mut impl AsyncFnMut(String) -> Result<Page, Failure>,
) -> Result<(), Failure> {
    let mut page = get(query(chain, None)).await?;
    let mut verifier = Verifier::new(page.first, page.anchor.clone(), heads);
    loop {
        if page.first > verifier.next {
            let fault = "retention has removed entries meanwhile: verify again";
            return Err(format!("{}: {fault}", chain.name()).into());
        }
        let (last, head) = (page.last, page.head);
        for item in page.items {
            verifier.verify(item).map_err(|fault| format!("{}: {fault}", chain.name()))?;
        }
        let Some(next) = page.next_cursor else {
            // Entries may have been added since the page was read.
            if verifier.next != last + 1 || verifier.previous != head {
                return Err(format!("{}: entries before {last} are missing", chain.name()).into());
            }
            break;
        };
        page = get(query(chain, Some(next.parse().map_err(text)?))).await?;
    }
    println!("{}", verifier.finish(chain.name())?);
    Ok(())
}

fn verify_file(path: &Path, heads: Vec<Head>) -> Result<(), String> {
    let content = std::fs::read_to_string(path).map_err(unusable(path))?;
    let items: Result<Vec<Value>, _> = content.lines().map(serde_json::from_str).collect();
    let items = items.map_err(text)?;
    let first = items.first().ok_or("the file has no entry")?;
    let first: Entry = serde_json::from_value(first.clone()).map_err(text)?;
    let mut verifier = Verifier::new(first.number, first.previous_hash, heads);
    items.into_iter().try_for_each(|item| verifier.verify(item))?;
    println!("{}", verifier.finish("file")?);
    Ok(())
}

fn query(chain: Chain, after: Option<u64>) -> String {
    let cursor = after.map(|after| format!("&cursor={after}")).unwrap_or_default();
    let chain = chain.name();
    format!("chain={chain}&order=asc&limit={PAGE}&consistency=linearizable{cursor}")
}

/// Follows a chain.
struct Verifier {
    first: u64,
    next: u64,
    previous: String,
    /// Entries that must be in the chain, and were not found yet.
    heads: Vec<Head>,
}

impl Verifier {
    fn new(first: u64, previous: String, heads: Vec<Head>) -> Self {
        Self { first, next: first, previous, heads }
    }

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
        self.heads.retain(|head| head.number != number || head.hash != entry.hash);
        (self.next, self.previous) = (number + 1, entry.hash);
        Ok(())
    }

    fn finish(self, name: &str) -> Result<String, String> {
        match self.heads.first() {
            Some(Head { number, .. }) if *number < self.first => {
                Err(format!("{name}: entry {number} was removed, as retention does with old ones"))
            }
            Some(Head { number, hash, .. }) => {
                Err(format!("{name}: the entry {number}:{hash} is not in the chain"))
            }
            None => {
                let (first, last) = (self.first, self.next - 1);
                let head = format!("{name}:{last}:{}", self.previous);
                Ok(format!("{name}: intact, entries {first} to {last}, head {head}"))
            }
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
