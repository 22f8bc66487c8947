//! `hearth recover`: a new cluster of what the disks of a lost one hold.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use raft::Remains;
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::backup::recover;
use crate::cli::outset::{Outset, print_faults};
use crate::config::Config;
use crate::error::{cannot, text};
use crate::failure::Failure;
use crate::identity;

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

/// The data folder of a stopped node.
struct Disk {
    node: u64,
    remains: Remains,
    /// Keeps the node from starting.
    _lock: Option<File>,
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
        let clusters: BTreeSet<_> = disks.iter().map(|disk| disk.remains.cluster).collect();
        if clusters.len() > 1 {
            return Err("these are disks of several clusters".into());
        }
        disks.retain(|disk| disk.remains.quarantined.is_none());
        let best = disks.first().ok_or("each of these nodes was quarantined")?;
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
        self.outset.print_next(path, self.out.as_deref());
        Ok(())
    }
}

/// Examines a data folder, and keeps its node from starting.
fn open(data: &Path) -> Result<Disk, String> {
    let node = identity::node_of(data)?;
    let path = data.join("log/LOCK");
    let lock = match File::options().write(true).open(&path) {
        Ok(lock) => Some(lock),
        // No node runs on it.
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => None,
        Err(error) => return Err(cannot("lock the data folder")(error)),
    };
    let is_free = |lock| fcntl_lock(lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !lock.as_ref().is_none_or(is_free) {
        return Err(format!("a process uses {}: stop the node", data.display()));
    }
    let remains = raft::examine_remains(data).map_err(text)?;
    Ok(Disk { node, remains, _lock: lock })
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print(Disk { node, remains, .. }: &Disk) {
    let Remains {
        data,
        last: (term, index),
        applied,
        mark,
        is_short,
        cluster,
        faults,
        quarantined,
    } = remains;
    println!("{}", data.display());
    println!("  node {node} of cluster {}", hex::encode(cluster));
    println!("  the log ends at entry {index} of term {term}; {applied} is applied");
    println!("  synced: {mark}");
    print_faults(faults);
    if *is_short {
        println!("  the disk lost the end of the log");
    }
    if let Some(reason) = quarantined {
        println!("  not used: {reason}");
    }
}
