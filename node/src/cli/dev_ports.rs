//! The ports of a development cluster.

use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;

use api::random_bytes;

use crate::config::Config;

/// Range of free ports. It excludes the range from which the system assigns ports to outgoing
/// connections, which could take a port before its node binds it.
const FREE_PORTS: Range<u16> = 10_240..32_768;
/// Tries to find a free port.
const FREE_TRIES: usize = 100;
/// Ports per node.
const PORTS_PER_NODE: u16 = 3;

/// The ports of a node on loopback.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) public: u16,
    pub(crate) operator: u16,
    pub(crate) peer: u16,
}

/// Chooses the ports of each node. A node whose configuration exists keeps its ports. A new node
/// gets ports from `base` on, or free ones if `base` is 0.
pub(crate) fn choose_ports(base: u16, configs: &[PathBuf]) -> Result<Vec<Ports>, String> {
    let mut free = FreePorts::default();
    let mut ports = Vec::new();
    for (at, config) in (0..).zip(configs) {
        let first = base + PORTS_PER_NODE * at;
        ports.push(if config.exists() {
            let config = Config::load(config, std::iter::empty());
            let config = config.map_err(|error| error.to_string())?;
            let (public, operator) = (config.public.listen.port(), config.operator.listen.port());
            // The ports are part of the addresses that other nodes have stored.
            if base != 0 && public != first {
                return Err("these nodes have other ports: keep them with --base-port 0".into());
            }
            Ports { public, operator, peer: config.peer.listen.port() }
        } else if base != 0 {
            Ports { public: first, operator: first + 1, peer: first + 2 }
        } else {
            Ports { public: free.next()?, operator: free.next()?, peer: free.next()? }
        });
    }
    Ok(ports)
}

/// Finds free ports. All stay bound until the last is found, so that they differ.
#[derive(Default)]
struct FreePorts(Vec<TcpListener>);

impl FreePorts {
    fn next(&mut self) -> Result<u16, String> {
        for _ in 0..FREE_TRIES {
            let random = usize::from(u16::from_be_bytes(random_bytes()));
            let port = FREE_PORTS.start + (random % FREE_PORTS.len()) as u16;
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
                self.0.push(listener);
                return Ok(port);
            }
        }
        Err("no free port found".to_owned())
    }
}
