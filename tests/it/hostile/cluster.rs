//! Stress on the cluster itself: bursts of calls between nodes, and stops while Raft stalls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use tokio::runtime::Handle;

use super::*;

/// Client ports of the TCP connections to an address of this machine.
fn connections_to(address: &str) -> BTreeSet<u16> {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = |line: &str| {
        let mut ports = line.split_whitespace().skip(1).take(2).map(|end| {
            let (_, port) = end.split_once(':').expect("address and port");
            u16::from_str_radix(port, 16).expect("a port")
        });
        (ports.next().unwrap(), ports.next().unwrap())
    };
    let clients = table.lines().skip(1).map(ends).filter_map(|(local, remote)| {
        let to_port = (remote == port).then_some(local);
        to_port.or((local == port && remote != 0).then_some(remote))
    });
    clients.collect()
}

/// Ends the observer, also if a write fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_after_election_opens_one_connection_per_channel() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let [leader, next, other] = cluster.leader_first().await;
    let survivors = [next, other];
    let addresses = survivors.map(Node::peer_address);
    let before = addresses.clone().map(|address| connections_to(&address));
    let ended = AtomicBool::new(false);
    // All the time: a connection that nothing uses ends at once, and leaves no trace.
    let observe = || {
        let mut found = before.clone();
        while !ended.load(Ordering::Relaxed) {
            for (found, address) in found.iter_mut().zip(&addresses) {
                found.extend(connections_to(address));
            }
        }
        found
    };
    // All wait for the next leader, and are forwarded to it at once.
    let write = async |number: usize| {
        let (node, memory) = (survivors[number % 2], labelled(number));
        let sent = async || node.send(Method::POST, "/agent/nodes", &memory).await;
        eventually("it is stored", sent, |response| response.status.is_success()).await
    };
    let found = std::thread::scope(|scope| {
        let observer = scope.spawn(observe);
        let end = End(&ended);
        leader.kill();
        tokio::task::block_in_place(|| {
            Handle::current().block_on(join_all((0..200).map(write)));
        });
        drop(end);
        observer.join().unwrap()
    });
    for (before, after) in before.iter().zip(found) {
        // From the other survivor: Raft, forwarded commands, snapshots.
        let opened = after.difference(before).count();
        println!("{} connections before the election, {opened} more", before.len());
        assert!(opened <= 3, "{opened} connections were opened");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_leader_reports_why_it_transfers_nothing() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let [leader, second, third] = cluster.leader_first().await;
    second.pause();
    third.pause();
    leader.terminate();
    leader.wait_gone().await;
    let log = std::fs::read_to_string(leader.data().join("node.log")).unwrap();
    let line = log.lines().find(|line| line.contains("leadership not transferred"));
    assert!(line.is_some_and(|line| line.contains("WARN") && line.contains("error=")), "{log}");
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn full_disk_is_named_in_the_last_line() {
    let cluster = options().start();
    cluster.kill();
    for _ in 0..5 {
        let full = [("FAILPOINTS", "log-append=40*off->return")];
        let mut process = cluster.serve_with(&full);
        cluster.up().await;
        let write = async || {
            let request = cluster.request(Method::POST, "/agent/nodes").json(&labelled("x"));
            request.try_send().await.is_err()
        };
        eventually("the node stops", write, |stopped| *stopped).await;
        assert!(!process.ended().await, "the node must end with an error");
        let log = process.log();
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains("no storage space"), "{log}");
    }
}
