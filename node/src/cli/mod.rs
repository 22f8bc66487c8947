//! The command line: `hearth` and its subcommands.

mod audit;
mod backup;
mod certs;
mod cluster;
mod completions;
mod consolidate;
mod debug;
mod demo;
mod dev;
mod dev_config;
mod dev_node;
mod doctor;
mod drill;
mod hygiene;
mod model;
mod operator;
mod outset;
mod recover;
mod tenant;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::check;
use crate::client;
use crate::config::Config;
use crate::error::cannot;
use crate::failure::Failure;
use crate::memory;
use crate::process;
use crate::serve::serve;
use crate::tls;

/// Self-hosted memory for software agents.
#[derive(Parser)]
#[command(name = "hearth", version, about = "Self-hosted memory for software agents")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Client(client::AgentCommand),
    /// Run one node
    Serve {
        /// The node's configuration file
        #[arg(long)]
        config: PathBuf,
        /// Create the cluster of the configured members, unless it exists; for the same command on all
        /// of them, the one with the lowest id does
        #[arg(long)]
        bootstrap: bool,
        /// Examine configuration, certificates, folders, model and members, and end
        #[arg(long, conflicts_with = "bootstrap")]
        check: bool,
        /// Stop when standard input ends
        #[arg(long, hide = true)]
        while_stdin_open: bool,
    },
    /// Examine a node's configuration and the cluster, and say what to mend
    Doctor(doctor::Doctor),
    /// Collect what a report of a fault needs
    #[command(subcommand)]
    Debug(debug::Debug),
    /// Succeed if a node is ready, for health checks of containers
    Health(doctor::Health),
    /// Run a development cluster on this machine
    Dev(dev::Dev),
    /// Show a running cluster, and change its members
    Cluster(cluster::Cluster),
    /// Show, create, change and delete the tenants of a running cluster
    Tenant(tenant::Tenant),
    /// Export and verify the audit log of a tenant
    Audit(audit::Audit),
    /// Examine the memories of a tenant for duplicates, echoes, contradictions and disuse
    Hygiene(hygiene::Hygiene),
    /// Fold memories of a tenant that have the same words
    Consolidate(consolidate::Consolidate),
    /// Show the embedding model of a running cluster, and change it
    Model(model::Model),
    /// Create, list, check and remove backups of a cluster
    Backup(backup::Backup),
    /// Restore a backup as a new cluster of one node
    Restore(backup::Restore),
    /// Make a new cluster of one node of what the disks of a lost majority hold
    Recover(recover::Recover),
    /// Create the certificate authority of a cluster, and certificates of its nodes
    Certs(certs::Certs),
    /// Run a development cluster, show its features, and keep it running
    Demo,
    /// Print the OpenAPI 3.1 document of the interface
    Openapi {
        /// That of the operator's listener
        #[arg(long)]
        operator: bool,
    },
    /// Print completions for a shell, or write manual pages
    #[command(subcommand)]
    Shell(completions::Shell),
}

impl Command {
    /// Whether other users are to read its files: manual pages and certificates. It writes secrets
    /// among them as such.
    fn writes_for_all(&self) -> bool {
        matches!(self, Self::Certs(_) | Self::Shell(_))
    }
}

/// Tasks that a thread runs before it looks at its connections again.
const EVENT_INTERVAL: u32 = 8;

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    // Before any thread: it replaces the process.
    if let Err(error) = process::without_telemetry() {
        return failed(&error.into());
    }
    // Failpoints exist in tests and benches only. The variable FAILPOINTS configures them.
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    let cli = Cli::parse();
    if !cli.command.writes_for_all() {
        process::keep_files_private();
    }
    if let Err(error) = process::check_processor().and_then(|()| memory::start_purging()) {
        return failed(&error.into());
    }
    tls::install_provider();
    // Connections that send without end keep the threads busy: others are looked at in between.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.enable_all().event_interval(EVENT_INTERVAL).build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string().into()),
    };
    let result = runtime.block_on(execute(cli.command));
    // A read of standard input cannot be interrupted, so the runtime does not wait for it.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

async fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Client(command) => command.run().await,
        Command::Serve { config, bootstrap, check, while_stdin_open } => {
            let config = Config::load(&config, environment())?;
            if check {
                return Ok(check::report(&check::check(&config).await)?);
            }
            Ok(serve(config, bootstrap, while_stdin_open).await?)
        }
        Command::Cluster(cluster) => cluster.run(environment()).await,
        Command::Tenant(tenant) => tenant.run(environment()).await,
        Command::Audit(audit) => audit.run().await,
        Command::Hygiene(hygiene) => hygiene.run().await,
        Command::Consolidate(consolidate) => consolidate.run().await,
        Command::Model(model) => model.run(environment()).await,
        Command::Backup(backup) => backup.run(environment()).await,
        Command::Restore(restore) => restore.run(environment()).await,
        Command::Recover(recover) => recover.run(environment()),
        Command::Certs(certs) => Ok(certs.run()?),
        Command::Doctor(doctor) => doctor.run(environment()).await,
        Command::Debug(debug) => debug.run(environment()).await,
        Command::Health(health) => health.run(environment()).await,
        Command::Dev(dev) => Ok(dev.run().await?),
        Command::Demo => Ok(demo::run().await?),
        Command::Shell(shell) => shell.run(Cli::command()),
        Command::Openapi { operator } => {
            let document = if operator { api::operator_openapi() } else { api::public_openapi() };
            let written = std::io::stdout().write_all(document.as_bytes());
            Ok(written.map_err(cannot("write to standard output"))?)
        }
    }
}

/// The environment. Variables whose names are not UTF-8 are left out: no key has such a name.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
}

fn failed(failure: &Failure) -> ExitCode {
    eprintln!("hearth: {failure}");
    failure.exit.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two options with one name, clap reads one, and gives its value to both.
    #[test]
    fn no_command_has_an_option_twice() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let ids: Vec<_> = command.get_arguments().map(clap::Arg::get_id).collect();
            let different: std::collections::BTreeSet<_> = ids.iter().collect();
            assert_eq!(ids.len(), different.len(), "{}: {ids:?}", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
