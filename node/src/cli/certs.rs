//! `hearth certs`: the certificate authority of a cluster, certificates of its nodes, and the
//! authorities that client programs trust.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::certificates::{Certificates, NODE_DAYS};
use crate::error::{text, unusable};

/// Arguments of `hearth certs`.
#[derive(Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Certs {
    #[command(subcommand)]
    command: Option<CertsCommand>,
    #[command(flatten)]
    new: Option<New>,
}

#[derive(Subcommand)]
enum CertsCommand {
    /// Write the authorities of the system and of a cluster into one file, for SSL_CERT_FILE: a
    /// program then trusts both
    Bundle {
        /// PEM file of the cluster's authority
        #[arg(long)]
        ca: PathBuf,
        /// The file to write
        #[arg(long)]
        out: PathBuf,
    },
}

/// A certificate to create.
#[derive(Args)]
struct New {
    /// Folder of the authority (ca.pem, ca.key) and of the certificates. An existing authority
    /// is used again
    #[arg(long)]
    folder: PathBuf,
    /// Id of the node
    #[arg(long)]
    node: u64,
    /// Name or address of the node, for clients and other nodes; can be repeated
    #[arg(long, required = true)]
    host: Vec<String>,
    /// Days until the certificate of the node expires
    #[arg(long, default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Replace the certificate and the key of the node
    #[arg(long)]
    renew: bool,
}

impl Certs {
    pub(crate) fn run(self) -> Result<(), String> {
        match (self.command, self.new) {
            (Some(CertsCommand::Bundle { ca, out }), _) => bundle(&ca, &out),
            (None, Some(new)) => new.run(),
            (None, None) => Err("name --folder, --node and --host, or bundle".into()),
        }
    }
}

/// Writes the system's authorities, and that of a cluster, into one file.
fn bundle(ca: &Path, out: &Path) -> Result<(), String> {
    let own = std::fs::read_to_string(ca).map_err(unusable(ca))?;
    let system = openssl_probe::probe().cert_file;
    let system = system.ok_or("this system has no file of authorities: install ca-certificates")?;
    let others = std::fs::read_to_string(&system).map_err(unusable(&system))?;
    let both = format!("{}\n{}\n", others.trim_end(), own.trim_end());
    std::fs::write(out, both).map_err(unusable(out))
}

impl New {
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    fn run(self) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(text)?;
        let certificates = Certificates::in_folder(&self.folder)?;
        if certificates.has(self.node) && !self.renew {
            let folder = self.folder.display();
            return Err(format!(
                "{folder} already has a certificate of node {}: replace it with --renew",
                self.node
            ));
        }
        let files = certificates.renew(self.node, &self.host, self.days)?;
        println!("authority    {}", certificates.authority().display());
        println!("certificate  {}", files.certificate.display());
        println!("key          {}", files.key.display());
        println!("cluster key  {}", certificates.cluster_key().display());
        println!("operator key {}", certificates.operator_key().display());
        println!(
            "\nAll nodes need the same cluster key and the same operator key. The cluster key"
        );
        println!("seals the secrets of webhooks. `hearth cluster` sends the operator key.");
        println!("Keep ca.key where only operators have access. Nodes do not need it.");
        Ok(())
    }
}
