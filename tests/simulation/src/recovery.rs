//! The end of a cluster whose nodes never start again: its operator makes a new one of some of the disks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raft::{NodeId, Remains, RestoredNode};
use tokio::time::sleep;

use crate::host::address;
use crate::node::{incarnation, start};
use crate::process::End;
use crate::world::{Running, World};

/// The node of the new cluster.
const NODE: NodeId = 30;

/// Ends all nodes, and recovers some of their disks. Returns the new node, and whether the disks are those
/// of a majority: it then has all that was acknowledged. `None` if no disk has a cluster.
pub async fn recover(world: &Arc<World>) -> Option<(Running, bool)> {
    let disks = lose_disks(world);
    let mut remains: Vec<(NodeId, Remains)> = Vec::new();
    for (node, data) in disks {
        match raft::examine_remains(&data) {
            Ok(found) => remains.push((node, found)),
            // A node that was never started, or was not yet a member.
            Err(error) => world.trace(&format!("the disk of node {node}: {error}")),
        }
    }
    remains.sort_by_key(|(_, found)| std::cmp::Reverse(found.last));
    let (_, best) = remains.first()?;
    if best.is_short {
        world.violate(format!("a disk lost what it had synced: {best:?}"));
    }
    let nodes: BTreeSet<NodeId> = remains.iter().map(|(node, _)| *node).collect();
    match restore(world, best, &nodes) {
        Ok(is_majority) => {
            world.trace(&format!("recovered {:?} of {nodes:?}: {is_majority}", best.last));
            start(world, NODE);
            loop {
                sleep(Duration::from_millis(200)).await;
                if let Some((_, running)) = world.members().pop()
                    && running.handle.is_leader()
                {
                    return Some((running, is_majority));
                }
            }
        }
        Err(error) if error.contains("holds no cluster") => None,
        Err(error) => {
            world.violate(format!("the disks of {nodes:?} are not recovered: {error}"));
            None
        }
    }
}

/// Ends all nodes by a loss of power, and loses some disks for ever.
fn lose_disks(world: &World) -> Vec<(NodeId, PathBuf)> {
    let nodes: Vec<NodeId> = world.with(|state| state.nodes.keys().copied().collect());
    for node in &nodes {
        world.end(*node, End::Power, None);
        world.with_node(*node, |node| node.starts_at = None);
    }
    world.with(|state| {
        let mut disks = nodes;
        let kept = state.random.usize(1..=disks.len());
        state.random.shuffle(&mut disks);
        disks.truncate(kept);
        let folder = |node: NodeId| (node, state.nodes[&node].data.clone());
        disks.into_iter().map(folder).collect()
    })
}

/// As `hearth recover` does.
fn restore(world: &World, best: &Remains, nodes: &BTreeSet<NodeId>) -> Result<bool, String> {
    let (work, source) = (world.new_folder("work"), world.new_folder("source"));
    raft::apply_remains(best, &work, &source).map_err(|error| error.to_string())?;
    let state = storage::backup::examine(&source).map_err(|error| error.to_string())?;
    let is_majority =
        raft::is_majority(&state.position, nodes).map_err(|error| error.to_string())?;
    world.add_node(NODE);
    let data = world.with_node(NODE, |node| node.data.clone());
    std::fs::create_dir_all(&data).map_err(|error| error.to_string())?;
    let node = RestoredNode {
        cluster: [2; 16],
        node: NODE,
        incarnation: world.with_node(NODE, |node| incarnation(NODE, node.disks)),
        address: address(NODE),
        hold_webhooks: false,
        keeps_keys: true,
    };
    raft::restore(&data, &source, state, &node).map_err(|error| error.to_string())?;
    Ok(is_majority)
}
