//! A node of a simulation: its machine and its network are those of the caller, and its tasks run on the
//! caller's runtime, of one thread, and end with that. What it does then depends on nothing else.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Log, Writer};

use crate::error::StartError;
use crate::handle::Handle;
use crate::network::frame::Returned;
use crate::server::Server;
use crate::{Parts, Settings, Started, run};

pub use crate::error::Claim;
pub use crate::machine::{ClockReading, DiskStep, Machine, Work};
pub use crate::network::message::RpcError;
pub use crate::network::transfer::SentSnapshot;
pub use crate::network::transport::{Channel, Transport};

/// Starts a node on the present runtime.
///
/// # Errors
/// As [`crate::start`].
pub async fn start(
    settings: &Settings,
    machine: Arc<dyn Machine>,
    transport: Arc<dyn Transport>,
    data: &Path,
    writer: Writer,
    log: Log,
) -> Result<(Handle, Endpoint), StartError> {
    let (settings, data) = (settings.clone(), data.to_owned());
    let parts = Parts { settings, machine, transport, data, writer, log };
    let Started { server, .. } = run(parts).await?;
    let handle = Handle::running(Arc::clone(&server.shared), None);
    Ok((handle, Endpoint(server)))
}

/// Where calls of other nodes arrive.
#[derive(Clone)]
pub struct Endpoint(Arc<Server>);

impl Endpoint {
    /// Runs an encoded call, and returns the encoded response.
    ///
    /// # Errors
    /// Those that the caller of a connection gets.
    pub async fn call(&self, message: Bytes) -> Result<Bytes, RpcError> {
        match self.0.run_call(message).await {
            Returned::Message(response) => Ok(response.into()),
            Returned::NotRead(reason) => Err(RpcError::NotSent(reason)),
            Returned::Failed(reason) => Err(RpcError::Lost(reason)),
        }
    }

    /// Receives and installs a snapshot: what [`SentSnapshot::write`] wrote. Returns the encoded response.
    ///
    /// # Errors
    /// `NotSent` if it was not received.
    pub async fn receive_snapshot(&self, bytes: Bytes) -> Result<Bytes, RpcError> {
        let received = Arc::clone(&self.0).receive_snapshot(std::io::Cursor::new(bytes)).await;
        received.map(Bytes::from).map_err(|error| RpcError::NotSent(error.to_string()))
    }
}
