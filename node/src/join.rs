//! How a node with `node.id = "auto"` becomes a member: it requests its id of the configured members, over
//! the peer listener, and then to be added.
//!
//! The address of a node is its lasting name: its disk may be lost, and the IP address behind it may
//! change. In a new cluster, a node has the id that `cluster.members` gives its address. In one that
//! exists, an address without a member joins under the next free id. So does an address whose member
//! has another incarnation: a node that lost its disk cannot keep its id, since its votes and its
//! acknowledged entries are lost. It replaces its former self, and only if that is silent and a majority
//! of the other voters is in contact: their copies are then complete without it.
//!
//! A request needs a certificate of the authority and the operator key, as `hearth cluster add` does. All
//! steps can be repeated: the node sends its request until it votes and its former self is removed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::App;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use raft::{
    ClusterStatus, Fault, Handle, MemberStatus, NodeId, Operation, OperationResult, causes,
};
use reqwest::Client;
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use storage::model::cluster::{Cluster, Member};
use storage::{Reader, View};
use tokio::time::{Instant, sleep};

use crate::config::{AUTO, Config};
use crate::credentials::read_operator_key;
use crate::error::text;
use crate::identity::{self, Identity};

const PATH: &str = "/peer/join";
/// Time limit of a request, and of what it causes at the leader.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a connection: a machine that is down does not reject it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two requests.
const INTERVAL: Duration = Duration::from_millis(500);
/// Silence after which a node counts as lost: several elections.
const SILENCE_MIN: Duration = Duration::from_secs(10);
/// Age of the last contact up to which a voter counts as reachable.
const CONTACT_AGE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct JoinRequest {
    /// Host and port of the peer listener of the node that joins.
    address: String,
    /// Its identity; `None` before it has one.
    identity: Option<Identity>,
    /// Time since its first request.
    waited: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum JoinReply {
    /// This node belongs to no cluster.
    NoCluster,
    /// The next request is to have this id.
    TakeId(u64),
    /// The same request may have another reply later.
    Waits(String),
    /// It votes.
    Votes,
}

/// The receiving side: the route of the peer listener, as soon as the node can respond.
#[derive(Clone, Default)]
pub(crate) struct JoinServer(Arc<OnceLock<Sponsor>>);

/// What a reply is made of.
struct Sponsor {
    app: App,
    raft: Handle,
    reader: Reader,
}

impl JoinServer {
    pub(crate) fn routes(&self) -> Router {
        Router::new().route(PATH, post(join)).with_state(self.clone())
    }

    /// Only the first call counts.
    pub(crate) fn open(&self, app: &App, raft: &Handle, reader: &Reader) {
        let (app, raft, reader) = (app.clone(), raft.clone(), reader.clone());
        self.0.get_or_init(|| Sponsor { app, raft, reader });
    }
}

async fn join(
    State(join_server): State<JoinServer>,
    headers: HeaderMap,
    Json(request): Json<JoinRequest>,
) -> Response {
    let Some(sponsor) = join_server.0.get() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let key = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = key.and_then(|value| value.strip_prefix("Bearer "));
    if !key.is_some_and(|key| sponsor.app.is_operator(key)) {
        let text = "operator.key_file is absent, or has another key than the other nodes";
        return (StatusCode::UNAUTHORIZED, text).into_response();
    }
    Json(sponsor.reply(&request).await.unwrap_or_else(JoinReply::Waits)).into_response()
}

impl Sponsor {
    /// The next step of a node; an error is why it has to wait.
    async fn reply(&self, request: &JoinRequest) -> Result<JoinReply, String> {
        let deadline = Instant::now() + TIMEOUT;
        let Some(cluster) = self.reader.cluster().map_err(text)? else {
            return Ok(JoinReply::NoCluster);
        };
        // The incarnation of an id never changes: this needs no leader.
        if let Some(identity) = &request.identity
            && recorded(&cluster, identity).is_some_and(|member| !is_of(member, identity))
        {
            return Ok(JoinReply::TakeId(free_id(&cluster)));
        }
        // The newest members: an id is never given twice.
        self.raft.read_index(deadline).await.map_err(text)?;
        let status = match self.raft.operate(Operation::Status, deadline).await {
            Ok(OperationResult::Status(status)) => status,
            Ok(_) => return Err("the leader did not return its status".into()),
            Err(error) => return Err(error.to_string()),
        };
        let cluster = self.reader.cluster().map_err(text)?.ok_or("the cluster is gone")?;
        let former = status.members.iter().find(|member| {
            let is_itself = request.identity.as_ref().is_some_and(|it| it.node == member.node);
            member.address == request.address && !is_itself
        });
        let may_join = former.map_or(Ok(()), |former| is_lost(former, &status, request.waited));
        let Some(identity) = &request.identity else {
            may_join?;
            return Ok(JoinReply::TakeId(free_id(&cluster)));
        };
        let own = status.members.iter().find(|member| member.node == identity.node);
        match (recorded(&cluster, identity), own.map(|own| own.role.votes())) {
            (Some(member), _) if !is_of(member, identity) => {
                Ok(JoinReply::TakeId(free_id(&cluster)))
            }
            (Some(member), _) if member.removed => Err("an operator has removed this node".into()),
            // An addition has two steps. The second one may be missing.
            (_, None) => {
                may_join?;
                let (node, address) = (identity.node, request.address.clone());
                self.operate(Operation::Add { node, address }, deadline).await?;
                Err("it was added, and receives the state".into())
            }
            (_, Some(false)) => Err("it receives the state".into()),
            (_, Some(true)) => match former {
                None => Ok(JoinReply::Votes),
                // There may be several, if a replacement was lost too.
                Some(former) => {
                    self.operate(Operation::Remove(former.node), deadline).await?;
                    Err("its former self was removed".into())
                }
            },
        }
    }

    async fn operate(&self, operation: Operation, deadline: Instant) -> Result<(), String> {
        self.raft.operate(operation, deadline).await.map(drop).map_err(text)
    }
}

fn recorded<'a>(cluster: &'a Cluster, identity: &Identity) -> Option<&'a Member> {
    cluster.members.iter().find(|member| member.node == identity.node)
}

fn is_of(member: &Member, identity: &Identity) -> bool {
    member.incarnation == identity.incarnation.into_bytes()
}

/// An id that no node had.
fn free_id(cluster: &Cluster) -> NodeId {
    cluster.members.iter().map(|member| member.node).max().unwrap_or(0) + 1
}

/// Whether a member is silent, and the other voters are complete without it; an error is why not.
/// `waited` is the time that the node at its address has waited.
fn is_lost(former: &MemberStatus, status: &ClusterStatus, waited: Duration) -> Result<(), String> {
    // Since it leads, a leader may have heard nothing of it.
    let silence = former.last_contact_ms.map_or(waited, Duration::from_millis);
    if silence < SILENCE_MIN {
        return Err(format!("node {} had this address until now: is it lost?", former.node));
    }
    let others = status.members.iter().filter(|it| it.role.votes() && it.node != former.node);
    let in_contact = |member: &&MemberStatus| {
        member.last_contact_ms.is_some_and(|age| Duration::from_millis(age) < CONTACT_AGE_MAX)
    };
    let (all, reachable) = (others.clone().count(), others.filter(in_contact).count());
    if reachable * 2 <= all {
        return Err(format!(
            "node {} at this address is lost, and only {reachable} of the {all} other voters are \
             reachable: its replacement waits for a majority of them",
            former.node
        ));
    }
    Ok(())
}

/// The requesting side.
pub(crate) struct JoinClient {
    client: Client,
    /// The file of the operator key. It may be replaced while the node waits.
    key_file: PathBuf,
    /// The configured members but this node.
    members: Vec<String>,
    address: String,
    /// The id that `cluster.members` gives this address.
    initial: Option<u64>,
    began: Instant,
    /// Why it waited last.
    reason: String,
}

impl JoinClient {
    pub(crate) fn new(config: &Config, tls: &ClientConfig) -> Result<Self, String> {
        let (address, members) = (config.peer.advertised_address(), &config.cluster.members);
        let initial = listed_id(config);
        let members: Vec<_> = members.values().filter(|it| **it != address).cloned().collect();
        let key_file = config.operator.key_file.clone().ok_or(
            "node.id = \"auto\" needs operator.key_file: a node joins with the key of operators",
        )?;
        read_operator_key(&key_file)?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .https_only(true)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            // What the leader began, it may end.
            .timeout(2 * TIMEOUT)
            .build()
            .map_err(text)?;
        let (began, reason) = (Instant::now(), String::new());
        Ok(Self { client, key_file, members, address, initial, began, reason })
    }

    /// Chooses the id of a node whose data folder has none. Waits for the reply of a member.
    pub(crate) async fn choose_id(&mut self) -> u64 {
        loop {
            match (self.next_step(None).await, self.initial) {
                // Several nodes that join at once get different ids of their lists.
                (Ok(JoinReply::TakeId(free)), initial) => {
                    return initial.filter(|id| *id >= free).unwrap_or(free);
                }
                (Ok(JoinReply::Waits(reason)), _) => self.wait(reason).await,
                (_, Some(id)) => return id,
                (_, None) if self.members.is_empty() => return 1,
                (Ok(_), None) => self.wait("no member belongs to a cluster yet".into()).await,
                (Err(error), None) => self.wait(error).await,
            }
        }
    }

    /// Checks the id of a node whose data folder has no cluster: that of a disk which was lost is used up.
    /// Raft must not start under it: the other nodes would end it.
    pub(crate) async fn check_id(&self, data: &Path, identity: &Identity) -> Result<(), String> {
        match self.next_step(Some(identity.clone())).await {
            Ok(JoinReply::TakeId(id)) => Err(begin_anew(data, identity, id)?),
            _ => Ok(()),
        }
    }

    /// Whether a member belongs to a cluster.
    pub(crate) async fn finds_cluster(&self, identity: &Identity) -> bool {
        self.next_step(Some(identity.clone()))
            .await
            .is_ok_and(|reply| reply != JoinReply::NoCluster)
    }

    /// Sends requests until this node votes. What prevents that for good stops the node.
    pub(crate) async fn join_task(
        self,
        config: Config,
        identity: Identity,
        reader: Reader,
        fault: Fault,
    ) {
        if let Err(error) = self.join(&config.node.data, identity, &reader).await {
            fault.report(&error);
        }
    }

    /// An error: this process began under an id that is used up, or the folder is of another cluster.
    async fn join(
        mut self,
        data: &Path,
        identity: Identity,
        reader: &Reader,
    ) -> Result<(), String> {
        while !self.members.is_empty() {
            match self.next_step(Some(identity.clone())).await {
                Ok(JoinReply::Votes) => return Ok(()),
                Ok(JoinReply::Waits(reason)) | Err(reason) => self.wait(reason).await,
                Ok(JoinReply::TakeId(_)) if reader.cluster().map_err(text)?.is_some() => {
                    let node = identity.node;
                    return Err(format!("the members belong to another cluster than node {node}"));
                }
                Ok(JoinReply::TakeId(id)) => return Err(begin_anew(data, &identity, id)?),
                Ok(JoinReply::NoCluster) => sleep(INTERVAL).await,
            }
        }
        Ok(())
    }

    /// The first reply with a next step; else a reason to wait; else that there is no cluster, if a node
    /// replies so; else why none replies.
    async fn next_step(&self, identity: Option<Identity>) -> Result<JoinReply, String> {
        let (address, waited) = (self.address.clone(), self.began.elapsed());
        let request = JoinRequest { address, identity, waited };
        let mut found = Err("cluster.members has no other node".to_owned());
        for member in &self.members {
            match self.request(member, &request).await {
                Ok(reply @ (JoinReply::TakeId(_) | JoinReply::Votes)) => return Ok(reply),
                Ok(JoinReply::NoCluster) if found.is_ok() => {}
                Ok(reply) => found = Ok(reply),
                Err(error) if found.is_err() => found = Err(format!("{member}: {error}")),
                Err(_) => {}
            }
        }
        found
    }

    async fn request(&self, member: &str, request: &JoinRequest) -> Result<JoinReply, String> {
        let url = format!("https://{member}{PATH}");
        let (_, key) = read_operator_key(&self.key_file)?;
        let request = self.client.post(url).bearer_auth(key).json(request);
        let response = request.send().await.map_err(|error| causes(&error))?;
        match response.status() {
            StatusCode::OK => response.json().await.map_err(text),
            StatusCode::UNAUTHORIZED => {
                Ok(JoinReply::Waits(format!("{member}: {}", response.text().await.map_err(text)?)))
            }
            status => Err(status.to_string()),
        }
    }

    async fn wait(&mut self, reason: String) {
        if self.reason != reason {
            tracing::info!(reason, "waiting to join the cluster");
            self.reason = reason;
        }
        sleep(INTERVAL).await;
    }
}

/// Removes the identity of an empty folder. Returns the error that ends this process: the next one takes
/// a free id.
fn begin_anew(data: &Path, identity: &Identity, free: u64) -> Result<String, String> {
    identity::remove(data)?;
    Ok(format!(
        "node {} of the cluster has another data folder than this one, which is empty: it starts again \
         under a free id, such as {free}",
        identity.node
    ))
}

/// The id of a node that does not run: that of its configuration or of its data folder; else the one that
/// it would take in a new cluster.
pub(crate) fn configured_id(config: &Config) -> Result<NodeId, String> {
    if config.node.id != AUTO {
        return Ok(config.node.id);
    }
    if let Some(owner) = identity::owner(&config.node.data)? {
        return Ok(owner);
    }
    Ok(listed_id(config).unwrap_or(1))
}

/// The id that `cluster.members` gives the address of this node.
fn listed_id(config: &Config) -> Option<NodeId> {
    let address = config.peer.advertised_address();
    config.cluster.members.iter().find(|(_, member)| **member == address).map(|(id, _)| *id)
}
