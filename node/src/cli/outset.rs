//! What the commands that make a new cluster of old data share: how it begins, and what they print.

use std::path::Path;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use storage::RowFaults;
use tempfile::TempDir;

use crate::backup::Restoration;
use crate::config::Config;
use crate::embed::Embedders;
use crate::error::cannot;
use crate::join::configured_id;
use crate::webhooks::Webhooks;

/// How a new cluster begins with old data.
#[derive(Args)]
pub(crate) struct Outset {
    /// Whether pending deliveries of webhooks wait until `hearth cluster release-webhooks`, or go out
    #[arg(long, default_value = "hold", value_parser = ["hold", "send"])]
    pub(crate) webhooks: String,
    /// Remove all API keys, since some may be revoked by now. `hearth tenant key` creates new ones
    #[arg(long)]
    pub(crate) rotate_keys: bool,
}

impl Outset {
    /// What the configured node needs to become the new cluster.
    pub(crate) fn restoration(&self, config: &Config) -> Result<Restoration, String> {
        Ok(Restoration {
            data: config.node.data.clone(),
            node: configured_id(config)?,
            address: config.peer.advertised_address(),
            model: hex::encode(Embedders::start(&config.embedder)?.model().id.0),
            cluster_key: Webhooks::new(&config.webhooks)?.key_fingerprint(),
            hold_webhooks: self.webhooks == "hold",
            keeps_keys: !self.rotate_keys,
        })
    }

    /// Prints what the operator does next.
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) fn print_next(&self, config: &Path, data: Option<&Path>) {
        if self.rotate_keys {
            println!("No API key works. Create an admin key with `hearth tenant key 1`.");
        }
        if self.webhooks == "hold" {
            println!("Deliveries wait until `hearth cluster release-webhooks`.");
        }
        if let Some(data) = data {
            println!("Set node.data to {}.", data.display());
        }
        println!("Start it with `hearth serve --config {}`,", config.display());
        println!("then add the other nodes, empty, with `hearth cluster add`.");
    }
}

/// Prints rows that cannot be, and returns their number.
#[expect(clippy::print_stdout, reason = "the output of the command")]
pub(crate) fn print_faults(faults: &RowFaults) -> u64 {
    for fault in &faults.first {
        println!("  {fault}");
    }
    if faults.count > 0 {
        println!("{} rows of the state cannot be. They were there before.", faults.count);
    }
    faults.count
}

/// A new folder for a copy of the data, which is removed in the end.
pub(crate) fn temporary(parent: Option<&Path>) -> Result<TempDir, String> {
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("hearth-");
    let created = parent.map_or_else(|| folder.tempdir(), |parent| folder.tempdir_in(parent));
    created.map_err(cannot("create a folder"))
}

/// A progress bar of bytes.
pub(crate) fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
