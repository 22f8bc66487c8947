//! The credentials of a node: the certificates of its listeners and of its calls to other nodes,
//! and the operator key. On SIGHUP the node reads their files again.

use std::sync::Arc;

use api::App;
use axum_server::tls_rustls::RustlsConfig;
use raft::{Handle, PeerTls};
use rustls::ServerConfig;
use storage::model::operator_key::OperatorKey;
use tokio::signal::unix::Signal;

use crate::config::Config;
use crate::operator_key::read_operator_key;
use crate::tls;

pub(crate) struct Credentials {
    pub(crate) public: Arc<ServerConfig>,
    pub(crate) peer_server: Arc<ServerConfig>,
    pub(crate) peer_client: PeerTls,
    pub(crate) operator_key: Option<OperatorKey>,
}

impl Credentials {
    /// Reads and checks the configured files.
    pub(crate) fn load(config: &Config) -> Result<Self, String> {
        let key_file = config.operator.key_file.as_deref();
        Ok(Self {
            public: tls::public_server(&config.public)?,
            peer_server: tls::peer_server(&config.peer)?,
            peer_client: tls::peer_client(&config.peer)?,
            operator_key: key_file.map(read_operator_key).transpose()?.map(|(key, _)| key),
        })
    }
}

/// Where a running node uses its credentials.
pub(crate) struct Reloader {
    pub(crate) config: Config,
    pub(crate) public: RustlsConfig,
    pub(crate) peers: RustlsConfig,
    pub(crate) raft: Handle,
    pub(crate) app: App,
}

impl Reloader {
    /// Reads the files again on each SIGHUP. If one of them is not usable, all previous
    /// credentials stay in use. Open connections keep the certificates with which they began.
    pub(crate) async fn reload_task(self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            match self.reload() {
                Ok(()) => tracing::info!("certificates and operator key reloaded"),
                Err(error) => {
                    tracing::error!(error, "reload failed; the previous credentials stay in use");
                }
            }
        }
    }

    fn reload(&self) -> Result<(), String> {
        let new = Credentials::load(&self.config)?;
        // The only step that can fail is the first one.
        self.raft.reload_peer_tls(&new.peer_client)?;
        self.public.reload_from_config(new.public);
        self.peers.reload_from_config(new.peer_server);
        self.app.set_operator_key(new.operator_key);
        Ok(())
    }
}
