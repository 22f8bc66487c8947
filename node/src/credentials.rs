//! The credentials of a node: the certificates of its listeners and of its calls to other nodes,
//! and the operator key. The node reads their files again on SIGHUP, and when they have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::App;
use axum_server::tls_rustls::RustlsConfig;
use prometheus::{IntGaugeVec, Opts};
use raft::Handle;
use rustls::{ClientConfig, ServerConfig};
use storage::model::api_key::OperatorKey;
use tokio::signal::unix::Signal;

use crate::config::Config;
use crate::error::unusable;
use crate::tls;

/// Interval at which the files are checked for changes.
const INTERVAL: Duration = Duration::from_secs(10);

/// Expiry of each certificate as a metric, from [`Credentials::expiries`].
pub(crate) fn expiry_metric(expiries: [(&str, i64); 3]) -> IntGaugeVec {
    let options = Opts::new(
        "hearth_certificate_expires_timestamp_seconds",
        "Unix time at which a certificate expires.",
    );
    let metric = IntGaugeVec::new(options, &["certificate"]).expect("name and label are valid");
    show_expiries(&metric, expiries);
    metric
}

pub(crate) struct Credentials {
    /// The certificates by name, with the Unix times at which they expire.
    pub(crate) expiries: [(&'static str, i64); 3],
    /// The files, as they were before they were read.
    pub(crate) files: FileStates,
    pub(crate) public: Arc<ServerConfig>,
    pub(crate) peer_server: Arc<ServerConfig>,
    pub(crate) peer_client: ClientConfig,
    pub(crate) operator_key: Option<OperatorKey>,
}

impl Credentials {
    /// Reads and checks the configured files.
    pub(crate) fn load(config: &Config) -> Result<Self, String> {
        let files = states_of_files(config);
        // Other nodes would end all connections to one under a foreign name.
        tls::check_own_name(&config.peer)?;
        let key_file = config.operator.key_file.as_deref();
        let expiries = [
            ("public", tls::expires_at(&config.public.certificate)?),
            ("peer", tls::expires_at(&config.peer.certificate)?),
            ("authority", tls::expires_at(&config.peer.authority)?),
        ];
        Ok(Self {
            expiries,
            files,
            public: tls::public_server(&config.public)?,
            peer_server: tls::peer_server(&config.peer)?,
            peer_client: tls::peer_client(&config.peer)?,
            operator_key: key_file.map(read_operator_key).transpose()?.map(|(key, _)| key),
        })
    }
}

fn show_expiries(metric: &IntGaugeVec, expiries: [(&str, i64); 3]) {
    for (certificate, expires_at) in expiries {
        metric.with_label_values(&[certificate]).set(expires_at);
    }
}

/// Length and time of the last change of each file; `None` for a file that cannot be read.
pub(crate) type FileStates = Vec<Option<(u64, SystemTime)>>;

fn states_of_files(config: &Config) -> FileStates {
    let Config { public, peer, operator, .. } = config;
    let files = [&public.certificate, &public.key, &peer.authority, &peer.certificate, &peer.key];
    let state = |file: &PathBuf| {
        let metadata = file.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    files.into_iter().chain(&operator.key_file).map(state).collect()
}

/// Where a running node uses its credentials.
pub(crate) struct Reloader {
    pub(crate) config: Config,
    pub(crate) public: RustlsConfig,
    pub(crate) peers: RustlsConfig,
    pub(crate) raft: Handle,
    pub(crate) app: App,
    pub(crate) expiries: IntGaugeVec,
    /// The files that it uses now.
    pub(crate) files: FileStates,
}

impl Reloader {
    /// Reads the files again on each SIGHUP, and when they have changed and then stay as they are
    /// for an interval. If one of them is not usable, all previous credentials stay in use, and the
    /// files are read again at each interval. Open
    /// connections of clients keep the certificates with which they began.
    pub(crate) async fn reload_task(mut self, mut hangups: Signal) {
        let (mut last, mut last_error) = (self.files.clone(), None);
        loop {
            tokio::select! {
                hangup = hangups.recv() => if hangup.is_none() { return },
                () = tokio::time::sleep(INTERVAL) => {
                    let found = states_of_files(&self.config);
                    let is_written = found == last;
                    last.clone_from(&found);
                    if !is_written || found == self.files {
                        continue;
                    }
                }
            }
            let read = states_of_files(&self.config);
            match self.reload() {
                Ok(()) => {
                    // What failed is tried again at the next interval.
                    (self.files, last_error) = (read, None);
                    tracing::info!("certificates and operator key reloaded");
                }
                Err(error) if last_error.as_ref() == Some(&error) => {}
                Err(error) => {
                    tracing::error!(error, "reload failed; the previous credentials stay in use");
                    last_error = Some(error);
                }
            }
        }
    }

    fn reload(&self) -> Result<(), String> {
        fail::fail_point!("reload-credentials", |_| Err("a fault of the test".to_owned()));
        let new = Credentials::load(&self.config)?;
        // The only step that can fail is the first one.
        self.raft.reload_peer_tls(&new.peer_client)?;
        show_expiries(&self.expiries, new.expiries);
        self.public.reload_from_config(new.public);
        self.peers.reload_from_config(new.peer_server);
        // After it: new ones are checked with the new certificates.
        self.raft.end_peer_connections();
        self.app.set_operator_key(new.operator_key);
        Ok(())
    }
}

/// Reads the operator key in the file at `path`, and its text. It is the same on all nodes.
pub(crate) fn read_operator_key(path: &Path) -> Result<(OperatorKey, String), String> {
    let content = std::fs::read_to_string(path).map_err(unusable(path))?;
    let text = content.trim();
    let key = OperatorKey::parse(text);
    let key = key.ok_or_else(|| unusable(path)("it contains no valid operator key"))?;
    Ok((key, text.to_owned()))
}
