//! The command line.

mod certs;
mod children;
mod cluster;
mod demo;
mod dev;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Config;
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
    /// Run one node.
    Serve {
        /// The node's configuration.
        #[arg(long)]
        config: PathBuf,
        /// Found the cluster of the configured members, if there is none yet.
        #[arg(long)]
        bootstrap: bool,
        /// Stop when standard input ends.
        #[arg(long, hide = true)]
        while_stdin_open: bool,
    },
    /// Run a cluster on this machine, for development.
    Dev(dev::Dev),
    /// Look at a running cluster, and change who belongs to it.
    Cluster(cluster::Cluster),
    /// Make a cluster's authority, and certificates for its nodes.
    Certs(certs::Certs),
    /// Start a development cluster, show what it does, and leave it running.
    Demo,
    /// Print the interface as OpenAPI 3.1.
    Openapi,
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    // Failpoints are compiled in for tests and benches only; FAILPOINTS names them.
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    let cli = Cli::parse();
    tls::install_provider();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve { config, bootstrap, while_stdin_open } => {
                // Variables that are not UTF-8 are none of ours.
                let environment = std::env::vars_os()
                    .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                    .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
                let config =
                    Config::load(&config, environment).map_err(|error| error.to_string())?;
                let served = serve(config, bootstrap, while_stdin_open).await;
                served.map_err(|error| error.to_string())
            }
            Command::Cluster(cluster) => cluster.run().await,
            Command::Certs(certs) => certs.run(),
            Command::Dev(dev) => dev.run().await,
            Command::Demo => demo::run().await,
            Command::Openapi => print(&api::openapi()),
        }
    });
    // Reading standard input cannot be interrupted: leave it behind.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn print(text: &str) -> Result<(), String> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| format!("standard output: {error}"))
}

fn failed(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("hearth: {error}");
    ExitCode::FAILURE
}
