//! The routes of the peer listener. Callers have authenticated with a certificate of the
//! cluster's authority. Each request is then checked for its sender and its receiver.

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
use storage::model::cluster::GROUP;
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::integrity::{hash_status, quarantine_if_diverged};
use crate::leader::watch::{WATCH_TIME, is_ended};
use crate::membership::operations::Operator;
use crate::network::client::Channel;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::MESSAGE_BYTES_MAX;
use crate::network::message::{
    AppendRpc, Appended, PeerRejection, QuorumStatus, Request, Response, Rpc, RpcResponse,
    SnapshotRpc,
};
use crate::network::transfer::{read_announcement, read_files};
use crate::shared::Shared;
use crate::state_machine::{Snapshot, SnapshotFolder, Snapshots};
use crate::types::{LogId, NodeId};

/// Maximum timeout of a forwarded call, whatever its sender requests.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Maximum wait for a state hash. The caller repeats the request.
const HASH_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshots: Snapshots,
    /// Whether this node belonged to a cluster at the start of its process.
    pub(crate) was_initialized: bool,
    pub(crate) log_throttle: LogThrottle,
}

/// Id in the throttled log for senders whose message could not be decoded.
const UNKNOWN_SENDER: NodeId = 0;

type RpcResult = Result<RpcResponse, PeerRejection>;

pub(crate) fn router(server: Server) -> Router {
    let messages = Router::new()
        .route(Channel::Raft.path(), post(call))
        .route(Channel::Forward.path(), post(call))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX));
    // A snapshot is as large as the state. It is read as a stream with bounded buffers.
    let streams = Router::new()
        .route(Channel::Snapshot.path(), post(snapshot))
        .layer(DefaultBodyLimit::disable());
    messages.merge(streams).with_state(Arc::new(server))
}

async fn call(
    State(server): State<Arc<Server>>,
    body: Result<Bytes, BytesRejection>,
) -> HttpResponse {
    let received_at = Instant::now();
    let decoded = match body {
        Ok(body) => codec::decode::<Request>(&body)
            .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string())),
        Err(rejection) => Err((rejection.status(), rejection.body_text())),
    };
    let request = match decoded {
        Ok(request) => request,
        Err((status, error)) => {
            if server.log_throttle.is_new(UNKNOWN_SENDER, &error) {
                tracing::error!(error, "unreadable message from a peer");
            }
            return (status, error).into_response();
        }
    };
    let result = match server.accept(&request) {
        Ok(delay) => {
            let timing = Timing { received_at, delay };
            server.run(request.from.node, request.call, timing).await
        }
        Err(rejection) => Err(rejection),
    };
    server.respond(result)
}

fn unavailable<E>(_: E) -> PeerRejection {
    PeerRejection::Unavailable
}

/// When a request was received and sent.
#[derive(Clone, Copy)]
struct Timing {
    received_at: Instant,
    /// Delay of the message before that, beyond the usual. See `contact.rs`.
    delay: Duration,
}

impl Timing {
    /// The caller's deadline. Its timeout began when it sent the request.
    fn deadline(self, timeout_micros: u64) -> tokio::time::Instant {
        let timeout = Duration::from_micros(timeout_micros).min(TIMEOUT_MAX);
        (self.received_at + timeout.saturating_sub(self.delay)).into()
    }
}

async fn snapshot(State(server): State<Arc<Server>>, body: Body) -> HttpResponse {
    let bytes = body.into_data_stream().map_err(io::Error::other);
    let input = SyncIoBridge::new(StreamReader::new(bytes));
    let receiver = Arc::clone(&server);
    let received = tokio::task::spawn_blocking(move || receiver.receive(input)).await;
    match received {
        Ok(Ok(Ok((call, folder)))) => server.respond(server.install(&call, folder).await),
        Ok(Ok(Err(rejection))) => server.respond(Err(rejection)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "snapshot not received");
            (StatusCode::BAD_REQUEST, error.to_string()).into_response()
        }
        Err(panic) => {
            tracing::error!(%panic, "the receiver of a snapshot panicked");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

impl Server {
    fn respond(&self, result: RpcResult) -> HttpResponse {
        let local = &self.shared.local;
        let (from, clocks) = (local.peer_identity(), local.clocks());
        codec::encode(&Response { from, clocks, result }).into_response()
    }

    /// Checks a request. Returns the delay of its message.
    fn accept(&self, request: &Request) -> Result<Duration, PeerRejection> {
        let (checked, from) = (self.check(request), request.from.node);
        match &checked {
            // The sender may be any node, so it does not clear a member's problem.
            Ok(_) if request.call == Rpc::Identify => {}
            Ok(_) => drop(self.log_throttle.clear(from)),
            Err(rejection) if self.log_throttle.is_new(from, rejection) => {
                tracing::error!(peer = from, reason = %rejection, "call from peer rejected");
            }
            Err(_) => {}
        }
        checked
    }

    fn check(&self, request: &Request) -> Result<Duration, PeerRejection> {
        let local = &self.shared.local;
        if request.group != GROUP {
            return Err(PeerRejection::OtherGroup);
        }
        if request.call == Rpc::Identify {
            return Ok(Duration::ZERO);
        }
        if request.to != Some(local.node) {
            return Err(PeerRejection::OtherNode);
        }
        local.check_peer(&request.from)?;
        local.check_incarnation(request.incarnation)?;
        let boottime = local.clock.read().boottime;
        Ok(local.contact.record_clocks(request.from.node, request.clocks, boottime))
    }

    async fn run(&self, from: NodeId, call: Rpc, timing: Timing) -> RpcResult {
        let (raft, local) = (&self.shared.raft, &self.shared.local);
        match call {
            Rpc::Identify => self.identify(),
            Rpc::Append(call) => self.append(call, timing).await,
            Rpc::Vote(call) => Ok(raft.vote(call.into()).await.map_err(unavailable)?.into()),
            Rpc::PreVote(call) => Ok(raft.pre_vote(call.into()).await.map_err(unavailable)?.into()),
            Rpc::Transfer { vote, to, last } => {
                let request = TransferLeaderRequest::new(vote.into(), to, last.map(LogId::from));
                let handled = raft.handle_transfer_leader(request).await.map_err(unavailable)?;
                Ok(RpcResponse::Transferred(handled.is_ok()))
            }
            Rpc::ReadIndex => Ok(RpcResponse::ReadIndex(self.shared.read_index().await)),
            Rpc::Submit { command, timeout_micros } => {
                let deadline = timing.deadline(timeout_micros);
                let submitted = self.shared.submit(*command, deadline).await;
                let is_shared = self.shared.used.is_shared(tokio::time::Instant::now());
                Ok(RpcResponse::Submitted(submitted, is_shared))
            }
            Rpc::Snapshot(_) => Err(PeerRejection::Unavailable),
            Rpc::Operate { operation, timeout_micros } => {
                let deadline = timing.deadline(timeout_micros);
                let operator = Operator { shared: &self.shared, deadline };
                Ok(RpcResponse::OperationResult(operator.operate(operation).await))
            }
            Rpc::Quarantine { mark, majority } => {
                let leads = raft.server_metrics().borrow_watched().current_leader == Some(from);
                let accepted = leads && quarantine_if_diverged(local, mark, majority);
                Ok(RpcResponse::Quarantined(accepted))
            }
            Rpc::Watch => {
                tokio::time::sleep(WATCH_TIME).await;
                Ok(RpcResponse::Watched)
            }
            Rpc::Grant(request) => Ok(RpcResponse::Granted(self.shared.grant(from, &request))),
            Rpc::IsEnded { leader, term } => {
                Ok(RpcResponse::Ended(is_ended(&self.shared, leader, term).await))
            }
            Rpc::StateHash(mark) => {
                let until = tokio::time::Instant::now() + HASH_TIMEOUT;
                Ok(RpcResponse::StateHash(hash_status(local, mark, until).await))
            }
        }
    }

    /// Returns whether this node is pristine. Requires nothing from raft's core, which may be busy.
    fn identify(&self) -> RpcResult {
        let metrics = self.shared.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.running_state.as_ref().map_err(unavailable)?;
        let has_log = metrics.last_log_index.is_some() || metrics.vote.leader_id.term > 0;
        Ok(RpcResponse::Identified(!self.was_initialized && !has_log))
    }

    async fn append(&self, call: AppendRpc, timing: Timing) -> RpcResult {
        let (quorum_status, term) = (call.quorum_status, call.vote.term);
        let unreadable = |error: storage::Error| {
            tracing::warn!(%error, "unreadable entries from a peer");
            PeerRejection::Unavailable
        };
        let request = call.into_raft().map_err(unreadable)?;
        let appended = self.shared.raft.append_entries(request).await;
        let appended = Appended::from(appended.map_err(unavailable)?);
        let local = &self.shared.local;
        let position = local.reader.position();
        if position.batch.term == term {
            local.contact.record_stamp(position.clock, local.clock.read().boottime);
        }
        if let (Appended::All, Some(QuorumStatus { commit, quorum_age_micros })) =
            (appended, quorum_status)
        {
            let age = Duration::from_micros(quorum_age_micros).saturating_add(timing.delay);
            if let Some(as_of) = timing.received_at.checked_sub(age) {
                local.contact.record_commit(commit, as_of, position.index);
            }
        }
        Ok(RpcResponse::Appended(appended))
    }

    /// Reads a snapshot into a new folder. A drop of the handle removes the folder.
    fn receive(
        &self,
        mut input: impl io::Read,
    ) -> io::Result<Result<(SnapshotRpc, SnapshotFolder), PeerRejection>> {
        let request = read_announcement(&mut input)?;
        if let Err(rejection) = self.accept(&request) {
            return Ok(Err(rejection));
        }
        let Rpc::Snapshot(call) = request.call else {
            return Err(io::Error::other("the request announces no snapshot"));
        };
        let folder = self.snapshots.next_folder();
        read_files(&mut input, &call.files, &folder.path)?;
        Ok(Ok((call, folder)))
    }

    async fn install(&self, call: &SnapshotRpc, folder: SnapshotFolder) -> RpcResult {
        let meta = call.meta().map_err(|error| {
            tracing::warn!(%error, "unreadable announcement of a snapshot");
            PeerRejection::Unavailable
        })?;
        let snapshot = Snapshot { meta, snapshot: folder };
        let installed = self.shared.raft.install_full_snapshot(call.vote.into(), snapshot).await;
        let installed = installed.map_err(unavailable)?;
        Ok(RpcResponse::Installed((&installed.vote).into()))
    }
}
