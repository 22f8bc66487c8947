//! The receiving side of the peer listener. Callers have authenticated with a certificate of the
//! cluster's authority. Each request is then checked for its sender and its receiver.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use futures::TryStreamExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use storage::codec;
use storage::model::cluster::GROUP;
use tokio::time::{Instant, timeout_at};
use tokio_util::io::{StreamReader, SyncIoBridge};
use tracing::Span;

use crate::contact::Arrival;
use crate::integrity::{hash_status, quarantine_if_diverged};
use crate::leader::watch::{is_gone, leads};
use crate::machine::run_blocking;
use crate::membership::operations::Operations;
use crate::network::connection::{PROTOCOL, serve};
use crate::network::frame::Returned;
use crate::network::install::{install, needs_files};
use crate::network::log_throttle::LogThrottle;
use crate::network::message::{
    AppendRpc, Appended, PeerRejection, QuorumStatus, Request, Response, Rpc, RpcResponse,
    SnapshotRpc,
};
use crate::network::transfer::{read_announcement, read_files};
use crate::network::transport::Channel;
use crate::shared::Shared;
use crate::state_machine::SnapshotFolder;
use crate::types::{LogId, NodeId};

/// Maximum timeout of a call, whatever its sender requests.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// A command or an operation ends this much before its caller's timeout, so that the response
/// arrives.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);
/// Maximum wait for a state hash. The caller repeats the request.
const HASH_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log_throttle: LogThrottle,
}

/// Id in the throttled log for senders whose message could not be decoded, and for snapshots.
const UNKNOWN_SENDER: NodeId = 0;
/// What the throttled log calls all calls of another node.
const INCOMING: &str = "incoming";

type RpcResult = Result<RpcResponse, PeerRejection>;

pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route(Channel::Raft.path(), get(open))
        .route(Channel::Forward.path(), get(open))
        // A snapshot is as large as the state. It is read as a stream with bounded buffers.
        .route(Channel::Snapshot.path(), post(snapshot).layer(DefaultBodyLimit::disable()))
        .with_state(server)
}

/// Opens a connection for calls.
async fn open(
    State(server): State<Arc<Server>>,
    upgrade: Option<Extension<OnUpgrade>>,
    headers: HeaderMap,
) -> HttpResponse {
    let is_known = headers.get(UPGRADE).is_some_and(|protocol| protocol == PROTOCOL);
    let Some(Extension(upgrade)) = upgrade.filter(|_| is_known) else {
        let text = format!("this version upgrades to the protocol {PROTOCOL} only");
        return (StatusCode::UPGRADE_REQUIRED, [(UPGRADE, PROTOCOL)], text).into_response();
    };
    let mut reloads = server.shared.peers.reloads.subscribe();
    tokio::spawn(async move {
        // The caller closed the connection first.
        let Ok(stream) = upgrade.await else { return };
        // The caller's certificate was checked with what was in use before.
        let closing = async { drop(reloads.changed().await) };
        let run = |message| server.run_call(message);
        let served = serve(TokioIo::new(stream), run, closing).await;
        if let Err(error) = served.map_err(|error| error.to_string())
            && server.log_throttle.is_new(UNKNOWN_SENDER, INCOMING, &error)
        {
            tracing::info!(error, "a connection of a peer has ended");
        }
    });
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

fn unavailable<E>(_: E) -> PeerRejection {
    PeerRejection::Unavailable
}

/// When a request was received and sent.
#[derive(Clone, Copy)]
struct Timing {
    received_at: Instant,
    /// The boot time when it was received.
    boottime: Duration,
    /// How late that was.
    arrival: Arrival,
    timeout: Duration,
}

impl Timing {
    /// The end of a command or an operation. The caller's timeout began when it sent the request.
    fn deadline(self) -> Instant {
        let spent = self.arrival.excess.saturating_add(RESPONSE_MARGIN);
        self.received_at + self.timeout.saturating_sub(spent)
    }
}

async fn snapshot(State(server): State<Arc<Server>>, body: Body) -> HttpResponse {
    let bytes = body.into_data_stream().map_err(io::Error::other);
    match server.receive_snapshot(SyncIoBridge::new(StreamReader::new(bytes))).await {
        Ok(response) => response.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

impl Server {
    /// Runs a call. After the timeout of its caller it is dropped.
    pub(crate) async fn run_call(&self, message: Bytes) -> Returned {
        let received_at = Instant::now();
        let boottime = self.shared.local.clock.read().boottime;
        let request = match codec::decode::<Request>(&message) {
            Ok(request) => request,
            Err(error) => {
                if self.log_throttle.is_new(UNKNOWN_SENDER, INCOMING, &error) {
                    tracing::error!(%error, "unreadable message from a peer");
                }
                return Returned::NotRead(error.to_string());
            }
        };
        let result = match self.accept(&request, boottime) {
            Ok(arrival) => {
                let timeout = Duration::from_micros(request.timeout_micros).min(TIMEOUT_MAX);
                let timing = Timing { received_at, boottime, arrival, timeout };
                let running = self.run(request.from.node, request.call, timing);
                // Without the delay, which is an estimate: a wrong one must not drop calls of Raft.
                match timeout_at(received_at + timeout, running).await {
                    Ok(result) => result,
                    Err(_) => return Returned::Failed("timeout".into()),
                }
            }
            Err(rejection) => Err(rejection),
        };
        Returned::Message(self.respond(result))
    }

    fn respond(&self, result: RpcResult) -> Vec<u8> {
        let local = &self.shared.local;
        let (from, condition) = (local.peer_identity(), local.condition());
        codec::encode(&Response { from, condition, result })
    }

    /// Checks a request that arrived at `boottime`. Returns the delay of its message.
    fn accept(&self, request: &Request, boottime: Duration) -> Result<Arrival, PeerRejection> {
        let (checked, from) = (self.check(request, boottime), request.from.node);
        match &checked {
            // The sender may be any node, so it does not clear a member's problem.
            Ok(_) if request.is_of_stranger() => {}
            Ok(_) => drop(self.log_throttle.clear(from, INCOMING)),
            Err(rejection) if self.log_throttle.is_new(from, INCOMING, rejection) => {
                tracing::error!(peer = from, reason = %rejection, "call from peer rejected");
            }
            Err(_) => {}
        }
        checked
    }

    fn check(&self, request: &Request, boottime: Duration) -> Result<Arrival, PeerRejection> {
        let local = &self.shared.local;
        if request.group != GROUP {
            return Err(PeerRejection::OtherGroup);
        }
        if request.is_of_stranger() {
            return Ok(Arrival::default());
        }
        if request.to != Some(local.node) {
            return Err(PeerRejection::OtherNode);
        }
        local.check_peer(&request.from)?;
        local.check_incarnation(request.incarnation)?;
        let node = request.from.node;
        Ok(local.contact.record_condition(node, request.condition, boottime))
    }

    async fn run(&self, from: NodeId, call: Rpc, timing: Timing) -> RpcResult {
        let (raft, local) = (&self.shared.raft, &self.shared.local);
        let deadline = timing.deadline();
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
            Rpc::Submit { command, span } => {
                let span = || span.map_or_else(Span::none, |it| it.submission(local.node));
                let submitted = self.shared.submit(*command, deadline, span).await;
                let is_shared = self.shared.used.node.is_shared(Instant::now());
                Ok(RpcResponse::Submitted(submitted, is_shared))
            }
            Rpc::Snapshot(_) => Err(PeerRejection::Unavailable),
            Rpc::Operate(operation) => {
                let operator = Operations { shared: &self.shared, deadline };
                Ok(RpcResponse::OperationResult(operator.operate(operation).await))
            }
            Rpc::Quarantine { mark, majority } => {
                let leads = raft.server_metrics().borrow_watched().current_leader == Some(from);
                let accepted = leads && quarantine_if_diverged(local, mark, majority);
                Ok(RpcResponse::Quarantined(accepted))
            }
            Rpc::Leads { term, waits } => {
                Ok(RpcResponse::Leads(leads(&self.shared, term, waits).await))
            }
            Rpc::Grant(request) => Ok(RpcResponse::Granted(self.shared.grant(from, &request))),
            Rpc::IsGone { leader, term } => {
                Ok(RpcResponse::Gone(is_gone(&self.shared, leader, term).await))
            }
            Rpc::StateHash(mark) => {
                let until = Instant::now() + HASH_TIMEOUT;
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
        let is_initialized = self.shared.is_initialized.load(Ordering::Relaxed);
        Ok(RpcResponse::Identified(!is_initialized && !has_log))
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
        if let (Appended::All, Some(QuorumStatus { commit, quorum_age_micros, least })) =
            (appended, quorum_status)
            && let Some(delay) = local.contact.delay_max(timing.arrival, least)
        {
            let age = Duration::from_micros(quorum_age_micros).saturating_add(delay);
            if let Some(as_of) = timing.boottime.checked_sub(age) {
                local.contact.record_commit(commit, as_of, position.index);
            }
        }
        Ok(RpcResponse::Appended(appended))
    }

    /// Receives and installs a snapshot. Returns the encoded response.
    ///
    /// # Errors
    /// If it was not received: it has no effect.
    pub(crate) async fn receive_snapshot(
        self: Arc<Self>,
        input: impl io::Read + Send + 'static,
    ) -> io::Result<Vec<u8>> {
        let (receiver, machine) = (Arc::clone(&self), &*self.shared.machine);
        let received = run_blocking(machine, move || receiver.receive(input)).await;
        let throttle = &self.log_throttle;
        match received {
            Ok(Ok(Ok((call, folder)))) => {
                throttle.clear(UNKNOWN_SENDER, Channel::Snapshot.name());
                Ok(self.respond(self.install(&call, folder).await))
            }
            Ok(Ok(Err(rejection))) => Ok(self.respond(Err(rejection))),
            Err(panic) => {
                tracing::error!(%panic, "the receiver of a snapshot panicked");
                Ok(self.respond(Err(PeerRejection::Unavailable)))
            }
            Ok(Err(error)) => {
                // By its kind: its text may have numbers.
                if throttle.is_new(UNKNOWN_SENDER, Channel::Snapshot.name(), &error.kind()) {
                    tracing::warn!(%error, "snapshot not received");
                }
                Err(error)
            }
        }
    }

    /// Reads a snapshot into a new folder, if this node needs its files. A drop of the handle removes
    /// the folder.
    fn receive(
        &self,
        mut input: impl io::Read,
    ) -> io::Result<Result<(SnapshotRpc, SnapshotFolder), PeerRejection>> {
        let request = read_announcement(&mut input)?;
        if let Err(rejection) = self.accept(&request, self.shared.local.clock.read().boottime) {
            return Ok(Err(rejection));
        }
        let Rpc::Snapshot(call) = request.call else {
            return Err(io::Error::other("the request announces no snapshot"));
        };
        let folder = self.shared.incoming.snapshots.next_folder();
        if needs_files(&self.shared, &call.vote.into(), call.last.map(LogId::from)) {
            let bytes = call.files.iter().map(|(_, bytes)| bytes).sum();
            self.shared.incoming.check_space(&self.shared.local.data, bytes)?;
            read_files(&mut input, &call.files, &folder.path)?;
        }
        Ok(Ok((call, folder)))
    }

    async fn install(&self, call: &SnapshotRpc, folder: SnapshotFolder) -> RpcResult {
        let meta = call.meta().map_err(|error| {
            tracing::warn!(%error, "unreadable announcement of a snapshot");
            PeerRejection::Unavailable
        })?;
        // In a task of its own: it goes on when the leader ends, and its connection.
        let installing = install(Arc::clone(&self.shared), call.vote.into(), meta, folder);
        let vote = tokio::spawn(installing).await.map_err(unavailable)??;
        Ok(RpcResponse::Installed((&vote).into()))
    }
}
