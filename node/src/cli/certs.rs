//! `hearth certs`: the certificate authority of a cluster, and certificates of its nodes.

use std::path::PathBuf;

use clap::Args;

use crate::certificates::{Certificates, NODE_DAYS};
use crate::error::text;

/// Arguments of `hearth certs`.
#[derive(Args)]
pub(crate) struct Certs {
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
    #[expect(clippy::print_stdout, reason = "the output of the command")]
    pub(crate) fn run(self) -> Result<(), String> {
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
