//! `hearth recover`: a new cluster of what the disks of a lost one hold.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use raft::{RemainingDisks, Remains};
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

impl Recover {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let opened: Result<Vec<_>, String> = self.data.iter().map(|data| open(data)).collect();
        // The locks keep the nodes from starting.
        let (disks, _locks): (Vec<_>, Vec<_>) = opened?.into_iter().unzip();
        let disks = RemainingDisks::new(disks);
        disks.all().iter().for_each(print);
        let best = disks.best().map_err(text)?;
        let data = best.data.display();
        println!("The log of {data} goes furthest: it has all that the others have.");
        if best.is_short && !self.accept_loss {
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
        let state = recover(best, &to)?;
        println!(
            "Recovered entry {} as a new cluster of node {}, in {}.",
            state.position.index,
            to.node,
            to.data.display()
        );
        match disks.are_majority(&state.position).map_err(text)? {
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

/// Examines the data folder of a stopped node. While its lock exists, the node cannot start; a folder that
/// cannot be written has none.
fn open(data: &Path) -> Result<((u64, Remains), Option<File>), String> {
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
    Ok(((node, remains), lock))
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print((node, remains): &(u64, Remains)) {
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
    match cluster {
        Some(cluster) => println!("  node {node} of cluster {}", hex::encode(cluster)),
        None => println!("  not used: node {node} was not yet a member of a cluster"),
    }
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
