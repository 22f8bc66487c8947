//! `hearth recover`: a new cluster of what the disks of a lost one hold, and what every new cluster of
//! old data needs.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use raft::Remains;
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::backup::{Restoration, recover};
use crate::config::Config;
use crate::embed::Embedders;
use crate::error::{cannot, text};
use crate::failure::Failure;
use crate::identity;
use crate::webhooks::Webhooks;

/// Arguments of `hearth recover`.
#[derive(Args)]
pub(crate) struct Recover {
    /// Data folder of a stopped node, or a copy of it; repeat it for each disk that is left
    #[arg(long, required = true)]
    data: Vec<PathBuf>,
    /// Configuration of the node that becomes the new cluster. Without it, nothing is written
    #[arg(long)]
    config: Option<PathBuf>,
    /// The new data folder, absent or empty; by default node.data of the configuration
    #[arg(long, requires = "config")]
    out: Option<PathBuf>,
    /// Use a log that is shorter than what its node had synced
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    outset: Outset,
}

/// How a new cluster begins with old data.
#[derive(Args)]
pub(crate) struct Outset {
    /// Whether pending deliveries of webhooks wait until `hearth cluster release-webhooks`, or go out
    #[arg(long, default_value = "hold", value_parser = ["hold", "send"])]
    webhooks: String,
    /// Remove all API keys, since some may be revoked by now. `hearth tenant key` creates new ones
    #[arg(long)]
    pub(crate) rotate_keys: bool,
}

impl Outset {
    /// What the configured node needs to become the new cluster.
    pub(crate) fn restoration(&self, config: &Config) -> Result<Restoration, String> {
        Ok(Restoration {
            data: config.node.data.clone(),
            node: config.node.id,
            address: config.peer.advertised_address(),
            model: hex::encode(Embedders::start(&config.embedder)?.model().id.0),
            cluster_key: Webhooks::new(&config.webhooks)?.key_fingerprint(),
            hold_webhooks: self.webhooks == "hold",
            keeps_keys: !self.rotate_keys,
        })
    }

    /// Prints what the operator does next.
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) fn print_next(&self, config: &Path) {
        if self.rotate_keys {
            println!("No API key works. Create an admin key with `hearth tenant key 1`.");
        }
        if self.webhooks == "hold" {
            println!("Deliveries wait until `hearth cluster release-webhooks`.");
        }
        println!("Start it with `hearth serve --config {}`,", config.display());
        println!("then add the other nodes, empty, with `hearth cluster add`.");
    }
}

/// The data folder of a stopped node.
struct Disk {
    node: u64,
    remains: Remains,
    /// Keeps the node from starting.
    _lock: File,
}

impl Recover {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let opened: Result<Vec<Disk>, String> = self.data.iter().map(|data| open(data)).collect();
        let mut disks = opened?;
        disks.sort_by_key(|disk| std::cmp::Reverse(disk.remains.last));
        disks.iter().for_each(print);
        let usable = |disk: &&Disk| disk.remains.quarantined.is_none();
        let best = disks.iter().find(usable).ok_or("each of these nodes was quarantined")?;
        let data = best.remains.data.display();
        println!("The log of {data} goes furthest: it has all that the others have.");
        if best.remains.is_short && !self.accept_loss {
            return Err(format!(
                "the log of {data} ends before what its node had synced: acknowledged writes are \
                 missing. Add the data folders of other nodes, or use it with --accept-loss"
            )
            .into());
        }
        let Some(path) = &self.config else {
            println!("Nothing was written. With --config, it becomes a new cluster of one node.");
            return Ok(());
        };
        let config = Config::load(path, environment)?;
        let mut to = self.outset.restoration(&config)?;
        if let Some(out) = &self.out {
            to.data.clone_from(out);
        }
        let state = recover(&best.remains, &to)?;
        println!(
            "Recovered entry {} as a new cluster of node {}, in {}.",
            state.position.index,
            to.node,
            to.data.display()
        );
        // A log that lost its end may lack an entry that its node had confirmed.
        let whole = disks.iter().filter(|disk| !disk.remains.is_short);
        let nodes: BTreeSet<u64> = whole.map(|disk| disk.node).collect();
        match raft::is_majority(&state.position, &nodes).map_err(text)? {
            true => {
                println!("These are the disks of a majority: no acknowledged write is missing.")
            }
            false => println!(
                "These are not the disks of a majority: acknowledged writes of the others may be missing."
            ),
        }
        println!(
            "The old data folders are as they were. Keep them until the new cluster is checked."
        );
        self.outset.print_next(path);
        Ok(())
    }
}

/// Examines a data folder, and keeps its node from starting.
fn open(data: &Path) -> Result<Disk, String> {
    let node = identity::node_of(data)?;
    let path = data.join("log/LOCK");
    let lock = File::options().write(true).open(&path).map_err(cannot("lock the data folder"))?;
    if fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(format!("a process uses {}: stop the node", data.display()));
    }
    let remains = raft::examine_remains(data).map_err(text)?;
    Ok(Disk { node, remains, _lock: lock })
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print(Disk { node, remains, .. }: &Disk) {
    let Remains { data, last: (term, index), applied, mark, is_short, quarantined } = remains;
    println!("{}", data.display());
    println!("  node {node}: the log ends at entry {index} of term {term}; {applied} is applied");
    println!("  synced: {mark}");
    if *is_short {
        println!("  the disk lost the end of the log");
    }
    if let Some(reason) = quarantined {
        println!("  not used: {reason}");
    }
}
