//! The PROXY protocol, version 2: a balancer sends the address of its client ahead of the connection.
//! Only balancers in `public.proxies` are believed, and each connection of theirs must begin so.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use ppp::v2::{Addresses, Command, Header};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Bytes of a header before its addresses. They say how long the rest is.
const START_BYTES: usize = 16;
/// Most bytes of a header, with what a balancer adds to the addresses.
pub(crate) const HEADER_BYTES_MAX: usize = 4 << 10;
/// Time limit of a header.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The networks of balancers.
#[derive(Clone, Default)]
pub(crate) struct Proxies(pub(crate) Arc<[IpNet]>);

impl Proxies {
    /// Where a connection comes from: `peer`, or the client of the balancer at `peer`.
    ///
    /// # Errors
    /// If the balancer sends no header in time.
    pub(crate) async fn source(
        &self,
        peer: SocketAddr,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<SocketAddr> {
        let address = peer.ip().to_canonical();
        if !self.0.iter().any(|network| network.contains(&address)) {
            return Ok(peer);
        }
        match timeout(TIMEOUT, read(stream)).await {
            Ok(source) => Ok(source?.unwrap_or(peer)),
            Err(_) => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// The address in a header; `None` if the balancer speaks for itself.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; START_BYTES];
    stream.read_exact(&mut header).await?;
    let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if START_BYTES + length > HEADER_BYTES_MAX {
        return Err(invalid(&"it is too long"));
    }
    header.resize(START_BYTES + length, 0);
    stream.read_exact(&mut header[START_BYTES..]).await?;
    let header = Header::try_from(&header[..]).map_err(|error| invalid(&error))?;
    match (header.command, header.addresses) {
        (Command::Proxy, Addresses::IPv4(it)) => {
            Ok(Some((it.source_address, it.source_port).into()))
        }
        (Command::Proxy, Addresses::IPv6(it)) => {
            Ok(Some((it.source_address, it.source_port).into()))
        }
        // A check of the balancer's own, or a client without an address.
        _ => Ok(None),
    }
}

fn invalid(reason: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("no header of the PROXY protocol: {reason}"))
}

#[cfg(test)]
mod tests {
    use ppp::v2::{Builder, Protocol, Version};

    use super::*;

    async fn source(peer: &str, bytes: &[u8]) -> io::Result<SocketAddr> {
        let proxies = Proxies(["192.0.2.0/24".parse().unwrap()].into());
        proxies.source(peer.parse().unwrap(), &mut &*bytes).await
    }

    fn header(command: Command, from: &str) -> Vec<u8> {
        let addresses = (from.parse::<SocketAddr>().unwrap(), "198.51.100.1:443".parse().unwrap());
        let builder = Builder::with_addresses(Version::Two | command, Protocol::Stream, addresses);
        builder.build().unwrap()
    }

    #[tokio::test]
    async fn balancers_name_their_clients() {
        let (client, balancer) = ("203.0.113.9:4000", "192.0.2.1:9");
        let sent = header(Command::Proxy, client);
        assert_eq!(source(balancer, &sent).await.unwrap().to_string(), client);
        assert_eq!(source("[::ffff:192.0.2.1]:9", &sent).await.unwrap().to_string(), client);
        let own = header(Command::Local, client);
        assert_eq!(source(balancer, &own).await.unwrap().to_string(), balancer);
        assert_eq!(source("198.51.100.7:9", &sent).await.unwrap().port(), 9, "it is no balancer");
    }

    #[tokio::test]
    async fn connections_of_balancers_without_a_header_end() {
        let mut long = header(Command::Proxy, "203.0.113.9:4000");
        (long[14], long[15]) = (0xff, 0xff);
        let bytes: [&[u8]; 3] = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", &long];
        for bytes in bytes {
            assert!(source("192.0.2.1:9", bytes).await.is_err());
        }
    }
}
