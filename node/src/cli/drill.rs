//! `hearth backup drill`: shows that the backups can be restored. It restores into a temporary node,
//! which it starts and removes.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use raft::Until;
use storage::backup::CopiedState;
use storage::model::cluster::Position;

use crate::backup::{Choice, Manifest, Plan, Store, restore};
use crate::cli::dev_config::{Ports, choose_ports};
use crate::cli::dev_node::Node;
use crate::cli::outset::{Outset, bar, print_faults, temporary};
use crate::config::Config;
use crate::failure::Failure;
use crate::join::configured_id;

/// Arguments of `hearth backup drill`.
#[derive(Args)]
pub(crate) struct Drill {
    /// The place of the backups: a folder or a URL
    place: String,
    /// Configuration of a node. Its data folder is not touched
    #[arg(long)]
    config: PathBuf,
    /// Id of the cluster, if the place has backups of several
    #[arg(long)]
    cluster: Option<String>,
    /// Where the temporary data folder is created; by default in the folder for temporary files
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Drill {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) async fn run(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let config = Config::load(&self.config, environment)?;
        let store = Store::open(&self.place)?;
        let (backup, later) = self.choose(&store).await?;
        let plan = Plan { backup: &backup, until: Some(Until::End), passes: later.as_ref() };
        let folder = temporary(self.folder.as_deref())?;
        // Deliveries wait, so it calls no receiver.
        let held = Outset { webhooks: "hold".into(), rotate_keys: false };
        let mut to = held.restoration(&config)?;
        to.data = folder.path().join("data");
        let (data, started, bar) = (to.data.clone(), Instant::now(), bar(backup.bytes()));
        let restored = restore(&store, &plan, to, |bytes| bar.inc(bytes)).await;
        bar.finish_and_clear();
        let CopiedState { position: Position { index, clock, .. }, faults, .. } = restored?;
        println!(
            "Restored backup {} and the log after it, to entry {index} of {clock}, in {:.1} s.",
            backup.id,
            started.elapsed().as_secs_f64()
        );
        match &later {
            Some(later) => println!(
                "The log led from it to the state of backup {} at entry {}.",
                later.id, later.index
            ),
            None => println!("The place has no two backups with a log between them to compare."),
        }
        let started = Instant::now();
        serve(&config, &self.config, data).await?;
        println!("A node was ready on it in {:.1} s.", started.elapsed().as_secs_f64());
        match print_faults(&faults) {
            0 => Ok(()),
            count => Err(format!("the state has {count} rows that cannot be").into()),
        }
    }

    /// The backup to restore, and the newest one, if the log leads from the first to that.
    async fn choose(&self, store: &Store) -> Result<(Manifest, Option<Manifest>), String> {
        let newest = store.manifest(Choice::Last(self.cluster.as_deref(), Until::End)).await?;
        let mut older = store.backups_of(&newest.cluster).await?;
        older.retain(|backup| backup.index < newest.index);
        if let Some(before) = older.pop() {
            let last = store.check_log(&before.cluster, &before.end(), false).await?;
            if last.is_some_and(|last| last.last.index >= newest.index) {
                return Ok((before, Some(newest)));
            }
        }
        Ok((newest, None))
    }
}

/// Starts a node on the data folder, waits until it is ready, and stops it. It listens on free ports of
/// loopback, and creates no backups.
async fn serve(config: &Config, file: &std::path::Path, data: PathBuf) -> Result<(), String> {
    let ports = choose_ports(0, std::slice::from_ref(&data.join("no file")))?.remove(0);
    let Ports { public, operator, peer } = ports;
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let environment = [
        ("HEARTH__NODE__DATA", data.display().to_string()),
        ("HEARTH__PUBLIC__LISTEN", listen(public)),
        ("HEARTH__OPERATOR__LISTEN", listen(operator)),
        ("HEARTH__PEER__LISTEN", listen(peer)),
        ("HEARTH__BACKUP__URL", String::new()),
        // It is alone. Its certificate names the host of the configured node.
        ("HEARTH__CLUSTER__MEMBERS", String::new()),
        ("HEARTH__PEER__ADDRESS", config.peer.advertised_address()),
    ];
    let mut node = Node::new(configured_id(config)?, data, ports, config.public.plain_http);
    node.start_on(file, &[], &environment)?;
    let ready = node.wait_ready().await;
    node.stop().await;
    ready
}
