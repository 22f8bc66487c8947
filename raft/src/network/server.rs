//! The peer listener's routes: what other nodes may ask of this one. Whoever gets
//! here has shown a certificate of the cluster's authority; who is dealt with is
//! decided message by message.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::post;
use futures::TryStreamExt;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use storage::codec;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::integrity::verify::{hash_status, quarantine_if_diverged};
use crate::membership::operations::Operator;
use crate::network::client::{Channel, Peers};
use crate::network::identity::LocalNode;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::MESSAGE_BYTES_MAX;
use crate::network::message::{
    AppendRpc, Appended, PeerRejection, QuorumStatus, Request, Response, Rpc, RpcResponse,
    SnapshotRpc,
};
use crate::network::transfer::{read_announcement, read_files};
use crate::shared::Shared;
use crate::state_machine::snapshot::{Snapshot, SnapshotFolder, Snapshots};
use crate::types::{LogId, NodeId};

/// Longest that a forwarded command waits here, whatever its sender says.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// Longest that a question for a hash waits here; it is asked again.
const HASH_PATIENCE: Duration = Duration::from_secs(1);

/// What the routes need.
pub(crate) struct Server {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) snapshots: Snapshots,
    /// What was last wrong with whom.
    pub(crate) log_throttle: LogThrottle,
}

/// In the place of a sender's id: the message was not read so far.
const NOBODY: NodeId = 0;

type RpcResult = Result<RpcResponse, PeerRejection>;

/// The routes of the peer listener.
pub(crate) fn router(server: Server) -> Router {
    let whole = Router::new()
        .route(Channel::Raft.path(), post(call))
        .route(Channel::Forward.path(), post(call))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX));
    // A stream: its parts are bounded, its whole is as long as the state.
    let streamed = Router::new()
        .route(Channel::Snapshot.path(), post(snapshot))
        .layer(DefaultBodyLimit::disable());
    whole.merge(streamed).with_state(Arc::new(server))
}

async fn call(
    State(server): State<Arc<Server>>,
    body: Result<Bytes, BytesRejection>,
) -> HttpResponse {
    let arrived = Instant::now();
    let unread = |error: String, status: StatusCode| {
        if server.log_throttle.is_new(NOBODY, &error) {
            tracing::error!(error, "a peer's message cannot be read");
        }
        status.into_response()
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unread(rejection.body_text(), rejection.status()),
    };
    match codec::decode::<Request>(&body) {
        Ok(request) => {
            let result = match server.admit(&request) {
                Ok(delay) => {
                    let since = Since { arrived, delay };
                    server.answer(request.from.node, request.call, since).await
                }
                Err(refused) => Err(refused),
            };
            server.respond(result)
        }
        Err(error) => unread(error.to_string(), StatusCode::BAD_REQUEST),
    }
}

/// How long a call has been under way.
#[derive(Clone, Copy)]
struct Since {
    arrived: Instant,
    /// How long it lay about before, as far as this node can tell.
    delay: Duration,
}

async fn snapshot(State(server): State<Arc<Server>>, body: Body) -> HttpResponse {
    let bytes = body.into_data_stream().map_err(io::Error::other);
    let input = SyncIoBridge::new(StreamReader::new(bytes));
    let receiver = Arc::clone(&server);
    let received = tokio::task::spawn_blocking(move || receiver.receive(input)).await;
    match received {
        Ok(Ok(Ok((call, folder)))) => server.respond(server.install(&call, folder).await),
        Ok(Ok(Err(refused))) => server.respond(Err(refused)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a snapshot did not arrive");
            StatusCode::BAD_REQUEST.into_response()
        }
        Err(panic) => {
            tracing::error!(%panic, "receiving a snapshot panicked");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

impl Server {
    fn respond(&self, result: RpcResult) -> HttpResponse {
        let (from, clocks) = (self.local.peer_identity(), self.local.clocks());
        codec::encode(&Response { from, clocks, result }).into_response()
    }

    /// Checks whom a call is for and who sent it; says how long it lay about.
    fn admit(&self, request: &Request) -> Result<Duration, PeerRejection> {
        let (checked, from) = (self.check(request), request.from.node);
        match &checked {
            // Whoever wants to know who this is need not be a peer.
            Ok(_) if request.call == Rpc::Introduce => {}
            Ok(_) => drop(self.log_throttle.clear(from)),
            Err(refused) if self.log_throttle.is_new(from, refused) => {
                tracing::error!(peer = from, reason = %refused, "a call was refused");
            }
            Err(_) => {}
        }
        checked
    }

    fn check(&self, request: &Request) -> Result<Duration, PeerRejection> {
        if request.call == Rpc::Introduce {
            return Ok(Duration::ZERO);
        }
        if request.to != Some(self.local.node) {
            return Err(PeerRejection::NotMe);
        }
        self.local.check_peer(&request.from)?;
        self.local.check_incarnation(request.incarnation)?;
        Ok(self.local.contact.heard(request.from.node, request.clocks, self.local.wall_clock.now()))
    }

    async fn answer(&self, from: NodeId, call: Rpc, since: Since) -> RpcResult {
        let raft = &self.shared.raft;
        match call {
            Rpc::Introduce => {
                let initialized =
                    raft.is_initialized().await.map_err(|_| PeerRejection::Unavailable)?;
                Ok(RpcResponse::Introduced { pristine: !initialized })
            }
            Rpc::Append(call) => self.append(call, since).await,
            Rpc::Vote(call) => raft
                .vote(call.into())
                .await
                .map(RpcResponse::from)
                .map_err(|_| PeerRejection::Unavailable),
            Rpc::PreVote(call) => raft
                .pre_vote(call.into())
                .await
                .map(RpcResponse::from)
                .map_err(|_| PeerRejection::Unavailable),
            Rpc::Transfer { vote, to, last } => {
                let request = TransferLeaderRequest::new(vote.into(), to, last.map(LogId::from));
                let handled = raft.handle_transfer_leader(request).await;
                let accepted = handled.map_err(|_| PeerRejection::Unavailable)?.is_ok();
                Ok(RpcResponse::Transferred { accepted })
            }
            Rpc::ReadIndex => Ok(RpcResponse::ReadIndex { index: self.shared.read_index().await }),
            Rpc::Submit { command, patience_micros } => {
                let deadline = since.deadline(patience_micros);
                let submitted = self.shared.submit(command, deadline).await;
                Ok(RpcResponse::Submitted(submitted))
            }
            Rpc::Snapshot(_) => Err(PeerRejection::Unavailable),
            Rpc::Operate { operation, patience_micros } => {
                let (shared, peers) = (&*self.shared, &*self.peers);
                let deadline = since.deadline(patience_micros);
                let operator = Operator { shared, peers, deadline };
                Ok(RpcResponse::OperationResult(operator.operate(operation).await))
            }
            Rpc::Diverged { number, agreed } => {
                let leads = raft.server_metrics().borrow_watched().current_leader == Some(from);
                Ok(RpcResponse::Quarantined {
                    accepted: leads && quarantine_if_diverged(&self.local, number, agreed),
                })
            }
            Rpc::Verified { number } => {
                let deadline = tokio::time::Instant::now() + HASH_PATIENCE;
                Ok(RpcResponse::Verified(hash_status(&self.local, number, deadline).await))
            }
        }
    }

    async fn append(&self, call: AppendRpc, since: Since) -> RpcResult {
        let quorum_status = call.quorum_status;
        let unread = |error: storage::Error| {
            tracing::warn!(%error, "a peer's entries cannot be read");
            PeerRejection::Unavailable
        };
        let request = call.into_raft().map_err(unread)?;
        let appended = self.shared.raft.append_entries(request).await;
        let appended = Appended::from(appended.map_err(|_| PeerRejection::Unavailable)?);
        if let (Appended::All, Some(QuorumStatus { commit, quorum_age_micros })) =
            (appended, quorum_status)
        {
            let age = Duration::from_micros(quorum_age_micros).saturating_add(since.delay);
            if let Some(as_of) = since.arrived.checked_sub(age) {
                let applied = self.local.reader.position().index;
                self.local.contact.confirmed(commit, as_of, applied);
            }
        }
        Ok(RpcResponse::Appended(appended))
    }

    /// Reads a snapshot into a folder of its own, which goes with its handle.
    fn receive(
        &self,
        mut input: impl io::Read,
    ) -> io::Result<Result<(SnapshotRpc, SnapshotFolder), PeerRejection>> {
        let request = read_announcement(&mut input)?;
        if let Err(refused) = self.admit(&request) {
            return Ok(Err(refused));
        }
        let Rpc::Snapshot(call) = request.call else {
            return Err(io::Error::other("the stream announces no snapshot"));
        };
        let folder = self.snapshots.folder();
        read_files(&mut input, &call.files, folder.path())?;
        Ok(Ok((call, folder)))
    }

    async fn install(&self, call: &SnapshotRpc, folder: SnapshotFolder) -> RpcResult {
        let meta = call.meta().map_err(|error| {
            tracing::warn!(%error, "a snapshot's announcement cannot be read");
            PeerRejection::Unavailable
        })?;
        let snapshot = Snapshot { meta, snapshot: folder };
        let installed = self.shared.raft.install_full_snapshot(call.vote.into(), snapshot).await;
        let installed = installed.map_err(|_| PeerRejection::Unavailable)?;
        Ok(RpcResponse::Installed { vote: (&installed.vote).into() })
    }
}

impl Since {
    /// When a caller gives up who has so much patience: it began to wait when it sent the call.
    fn deadline(self, patience_micros: u64) -> tokio::time::Instant {
        let patience = Duration::from_micros(patience_micros).min(PATIENCE_MAX);
        (self.arrived + patience.saturating_sub(self.delay)).into()
    }
}
