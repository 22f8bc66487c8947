//! `hearth backup` and `hearth restore`: backups of a cluster in a folder or a bucket.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use raft::Until;
use reqwest::Method;
use serde_json::{Value, json};
use storage::backup::CopiedState;
use storage::model::id::Timestamp;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::backup::{Choice, FileOf, Manifest, Plan, Pruned, Store, examine, plain, restore};
use crate::cli::drill::Drill;
use crate::cli::operator::{OperatorAccess, OperatorClient};
use crate::cli::outset::{Outset, bar, print_faults, temporary};
use crate::config::Config;
use crate::failure::Failure;
use crate::process::stop_request;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `hearth backup`.
#[derive(Args)]
pub(crate) struct Backup {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Subcommand)]
enum BackupCommand {
    /// Let a node create a backup, and wait for it
    Create {
        /// A folder, s3://bucket/path or az://container/path, as the node sees it
        place: String,
        #[command(flatten)]
        access: OperatorAccess,
    },
    /// List the backups in a place
    List {
        /// A folder or a URL, as this machine sees it
        place: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that all files of a backup exist, and the log after it
    Check {
        /// A folder or a URL, as this machine sees it
        place: String,
        #[command(flatten)]
        chosen: Chosen,
        /// Read all bytes, and check their hashes and the rows of the state, in a temporary folder
        #[arg(long)]
        data: bool,
        /// Remove damaged files from the place, so that the next backup uploads them again
        #[arg(long, requires = "data")]
        remove_damaged: bool,
        /// Where the temporary folder is created; by default in the folder for temporary files
        #[arg(long, requires = "data")]
        folder: Option<PathBuf>,
    },
    /// Restore the newest backup with its log into a temporary node, compare it, and remove it
    Drill(Drill),
    /// Remove all but the newest backups of each cluster
    Prune {
        /// A folder or a URL, as this machine sees it
        place: String,
        /// Number of backups that stay
        #[arg(long)]
        keep: NonZeroUsize,
    },
}

/// Names a backup in a place.
#[derive(Args)]
struct Chosen {
    /// Id of the backup; by default the newest one
    #[arg(long)]
    id: Option<String>,
    /// Id of the cluster, if the place has backups of several
    #[arg(long, conflicts_with = "id")]
    cluster: Option<String>,
}

impl Chosen {
    fn choice(&self, until: Until) -> Choice<'_> {
        match &self.id {
            Some(id) => Choice::Id(id),
            None => Choice::Last(self.cluster.as_deref(), until),
        }
    }
}

/// Arguments of `hearth restore`.
#[derive(Args)]
pub(crate) struct Restore {
    /// The place of the backups: a folder or a URL
    place: String,
    /// Configuration of the node that becomes the new cluster. Its data folder must be empty
    #[arg(long)]
    config: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
    /// Last entry or time to restore, as 1234 or 2026-05-04T12:00:00Z. By default the log is applied to
    /// its end, or not at all with --id
    #[arg(long, conflicts_with = "id", value_parser = until)]
    at: Option<Until>,
    #[command(flatten)]
    outset: Outset,
}

impl Backup {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        match self.command {
            BackupCommand::Create { place, access } => {
                create(&access.open(environment)?, &place).await
            }
            BackupCommand::List { place, json } => list(&Store::open(&place)?, json).await,
            BackupCommand::Check { place, chosen, data, remove_damaged, folder } => {
                let store = Store::open(&place)?;
                let manifest = store.manifest(chosen.choice(Until::End)).await?;
                // It is removed if the command is interrupted, too.
                let state = if data { Some(temporary(folder.as_deref())?) } else { None };
                let checked = async {
                    let state = state.as_ref().map(TempDir::path);
                    check(&store, &manifest, state, remove_damaged).await?;
                    check_log(&store, &manifest, data).await
                };
                tokio::select! {
                    checked = checked => checked,
                    () = stop_request(false)? => Err("it was interrupted".into()),
                }
            }
            BackupCommand::Drill(drill) => tokio::select! {
                done = drill.run(environment) => done,
                () = stop_request(false)? => Err("it was interrupted".into()),
            },
            BackupCommand::Prune { place, keep } => {
                let Pruned { backups, segments, files } = Store::open(&place)?.prune(keep).await?;
                println!(
                    "Removed {backups} backups, {segments} segments of the log and {files} files."
                );
                Ok(())
            }
        }
    }
}

/// Starts a backup on a node, and shows its progress until it ends.
#[expect(clippy::print_stdout, reason = "the output of the command")]
async fn create(operator: &OperatorClient, place: &str) -> Result<(), Failure> {
    let path = "/cluster/backups";
    operator.request(Method::POST, path, Some(json!({"url": place}))).await?;
    let bar = bar(0);
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let status = operator.request(Method::GET, path, None).await?;
        if let Some(running) = status["running"].as_object() {
            bar.set_length(running["total_bytes"].as_u64().unwrap_or(0));
            bar.set_position(running["done_bytes"].as_u64().unwrap_or(0));
            continue;
        }
        bar.finish_and_clear();
        if let Some(error) = status["error"].as_str() {
            return Err(format!("the backup failed: {error}").into());
        }
        let last = &status["last"];
        println!(
            "Backup {} of index {}: {}, of which {} were uploaded.",
            last["id"].as_str().unwrap_or_default(),
            last["index"],
            mebibytes(&last["bytes"]),
            mebibytes(&last["uploaded_bytes"]),
        );
        return Ok(());
    }
}

fn mebibytes(bytes: &Value) -> String {
    format!("{:.1} MiB", bytes.as_f64().unwrap_or(0.0) / f64::from(1 << 20))
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
async fn list(store: &Store, as_json: bool) -> Result<(), Failure> {
    for (id, manifest) in store.manifests().await? {
        match manifest {
            Ok(manifest) if as_json => {
                let Manifest { index, clock, version, cluster, state_sha256, .. } = &manifest;
                let line = json!({
                    "id": id, "created_at": manifest.created_at, "index": index, "clock": clock,
                    "bytes": manifest.bytes(), "version": version, "cluster": cluster,
                    "state_sha256": state_sha256,
                });
                println!("{line}");
            }
            Ok(manifest) => println!(
                "{id}  index {}  {}  cluster {}",
                manifest.index,
                mebibytes(&manifest.bytes().into()),
                manifest.cluster
            ),
            Err(error) => println!("{id}  unusable: {error}"),
        }
    }
    Ok(())
}

/// Checks all files of a backup: their lengths, or with an empty folder, into which they are
/// downloaded, their bytes and the rows of the state.
#[expect(clippy::print_stdout, reason = "the output of the command")]
async fn check(
    store: &Store,
    manifest: &Manifest,
    state: Option<&Path>,
    remove_damaged: bool,
) -> Result<(), Failure> {
    let (bar, mut wrong) = (bar(manifest.bytes()), 0);
    for FileOf { name, sha256, bytes, object } in &manifest.files {
        let is_whole = match state {
            Some(state) => {
                let to = state.join(plain(name)?);
                store.download(object, sha256, Some(&to), |bytes| bar.inc(bytes)).await
            }
            None => store.has_file(object, *bytes).await,
        };
        let fault = match is_whole {
            Ok(true) => continue,
            Ok(false) if remove_damaged => {
                store.remove_file(object).await?;
                "it was damaged, and is removed".to_owned()
            }
            Ok(false) => "it is absent or damaged".to_owned(),
            Err(error) => error,
        };
        wrong += 1;
        // Unlike `ProgressBar::println`, this also prints into a pipe.
        bar.suspend(|| println!("{name} ({object}): {fault}"));
    }
    bar.finish_and_clear();
    if wrong > 0 {
        return Err(format!(
            "backup {}: {wrong} files are absent or damaged, so it cannot be restored. The next backup \
             uploads them again, once they are removed: --data --remove-damaged",
            manifest.id
        )
        .into());
    }
    if let Some(state) = state {
        let found = block_in_place(|| examine(manifest, state))?;
        if print_faults(&found.faults) > 0 {
            return Err(format!("the backup has {} rows that cannot be", found.faults.count).into());
        }
    }
    println!("Backup {} is complete: {} files.", manifest.id, manifest.files.len());
    Ok(())
}

/// Checks that the log goes on after a backup without a gap; with `data`, its hashes too.
#[expect(clippy::print_stdout, reason = "the output of the command")]
async fn check_log(store: &Store, manifest: &Manifest, data: bool) -> Result<(), Failure> {
    match store.check_log(&manifest.cluster, &manifest.end(), data).await? {
        Some(last) => {
            println!("The log after it goes to entry {}, of {}.", last.last.index, last.clock)
        }
        None => println!("No log follows it."),
    }
    Ok(())
}

/// An index, or a time.
fn until(text: &str) -> Result<Until, String> {
    if let Ok(index) = text.parse() {
        return Ok(Until::Index(index));
    }
    let time: jiff::Timestamp =
        text.parse().map_err(|error| format!("no index, and no time: {error}"))?;
    Ok(Until::Clock(Timestamp(time.as_microsecond())))
}

impl Restore {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) async fn run(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Failure> {
        let config = Config::load(&self.config, environment)?;
        let store = Store::open(&self.place)?;
        let until = self.at.unwrap_or(Until::End);
        let manifest = store.manifest(self.chosen.choice(until)).await?;
        let until = self.chosen.id.is_none().then_some(until);
        let to = self.outset.restoration(&config)?;
        let bar = bar(manifest.bytes());
        let plan = Plan { backup: &manifest, until, passes: None };
        let CopiedState { position, faults, .. } =
            restore(&store, &plan, to, |bytes| bar.inc(bytes)).await?;
        bar.finish_and_clear();
        println!("Restored backup {} of {}", manifest.id, manifest.clock);
        match position.index == manifest.index {
            true => println!("as a new cluster of node {}.", config.node.id),
            false => println!(
                "and the log after it, to entry {} of {}, as a new cluster of node {}.",
                position.index, position.clock, config.node.id
            ),
        }
        print_faults(&faults);
        println!("What happened after that time is gone, also receipts of idempotency keys.");
        println!("Memories that were deleted after it are back.");
        if !self.outset.rotate_keys {
            println!("Keys that were revoked after it are back; see --rotate-keys.");
        }
        println!("Deliveries that were sent after it are pending again: receivers know their ids.");
        self.outset.print_next(&self.config, None);
        Ok(())
    }
}
