//! `hearth certs`: the certificate authority of a cluster, certificates of its nodes, and the
//! authorities that client programs trust.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};

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

/// What to create in a folder.
#[derive(Args)]
#[command(group(ArgGroup::new("work").required(true).args(["node", "new_authority", "retire_authority"])))]
struct New {
    /// Folder of the authority (ca.pem, ca.key), and of a folder per node. An existing authority is
    /// used again
    #[arg(long)]
    folder: PathBuf,
    /// Id of the node that gets a certificate
    #[arg(long)]
    node: Option<u64>,
    /// Begin to replace the authority: a new one signs, and ca.pem has both
    #[arg(long)]
    new_authority: bool,
    /// End it, once all nodes have certificates of the new authority: the former one leaves ca.pem
    #[arg(long)]
    retire_authority: bool,
    /// Name or address of the node, for clients and other nodes; can be repeated. With --renew and without
    /// it, the names stay
    #[arg(long, requires = "node")]
    host: Vec<String>,
    /// Days until the certificate of the node expires
    #[arg(long, requires = "node", default_value_t = NODE_DAYS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Replace the certificate and the key of the node
    #[arg(long, requires = "node")]
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
    fn run(self) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(text)?;
        let certificates = Certificates::in_folder(&self.folder)?;
        match self.node {
            Some(node) => self.certify(&certificates, node),
            None => self.change_authority(&certificates),
        }
    }

    #[expect(clippy::print_stdout, reason = "the output of the command")]
    fn certify(&self, certificates: &Certificates, node: u64) -> Result<(), String> {
        if certificates.has(node) && !self.renew {
            let folder = certificates.node_folder(node);
            let folder = folder.display();
            return Err(format!("{folder} has a certificate: replace it with --renew"));
        }
        let mut hosts = self.host.clone();
        if hosts.is_empty() && certificates.has(node) {
            hosts = certificates.hosts(node)?;
        }
        if hosts.is_empty() {
            return Err("name the node, for clients and other nodes: --host NAME".into());
        }
        certificates.renew(node, &hosts, self.days)?;
        certificates.share_with(node)?;
        println!("authority  {}", certificates.authority().display());
        println!("node {node:<5} {}", certificates.node_folder(node).display());
        println!(
            "\nCopy the files of that folder to /etc/hearth of the node, readable for its user only:"
        );
        println!(
            "ca.pem, node.pem, node.key, and the two keys that all nodes share: cluster.key seals the"
        );
        println!("secrets of webhooks, `hearth cluster` sends operator.key.");
        println!("Keep ca.key where only operators have access. Nodes do not need it.");
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "the output of the command")]
    fn change_authority(&self, certificates: &Certificates) -> Result<(), String> {
        let next = if self.new_authority {
            certificates.begin_new_authority()?;
            "renew the certificate of each node (--node N --renew) and copy it. Then end \
             with --retire-authority"
        } else {
            certificates.retire_authority()?;
            "the former authority is trusted no more"
        };
        for node in certificates.nodes()? {
            certificates.share_with(node)?;
        }
        println!("{} is in the folder of each node.", certificates.authority().display());
        println!("Copy it to all nodes, which read it within 20 s. After that, {next}.");
        Ok(())
    }
}
