//! `hearth certs`: an authority of the cluster's own, and its nodes' certificates.

use std::path::PathBuf;

use clap::Args;

use crate::tls::Certificates;

/// Arguments of `hearth certs`.
#[derive(Args)]
pub(crate) struct Certs {
    /// Folder of the authority (ca.pem, ca.key) and of what it signs. An authority
    /// that is there already signs again.
    #[arg(long)]
    folder: PathBuf,
    /// Id of the node that gets a certificate.
    #[arg(long)]
    node: u64,
    /// Names and addresses by which agents and other nodes reach it.
    #[arg(long, required = true)]
    host: Vec<String>,
}

impl Certs {
    #[expect(clippy::print_stdout, reason = "it tells what it made")]
    pub(crate) fn run(self) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let certificates =
            Certificates::in_folder(&self.folder).map_err(|error| error.to_string())?;
        if certificates.has(self.node) {
            let folder = self.folder.display();
            return Err(format!("{folder} has a certificate of node {} already", self.node));
        }
        let files = certificates.of_node(self.node, &self.host).map_err(|e| e.to_string())?;
        println!("authority    {}", certificates.authority().display());
        println!("certificate  {}", files.certificate.display());
        println!("key          {}", files.key.display());
        println!("cluster key  {}", certificates.cluster_key().display());
        println!("\nEvery node needs the same cluster key: it seals the secrets of webhooks.");
        println!("Keep ca.key where only operators reach it; nodes do not need it.");
        Ok(())
    }
}
