//! The end of a cluster whose nodes never start again: its operator makes a new one of some of the disks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raft::{NodeId, RemainingDisks, Remains, RestoredNode};
use storage::View;
use tokio::time::sleep;

use crate::host::address;
use crate::node::{incarnation, start};
use crate::process::End;
use crate::world::{RECOVERIES, Running, World};

/// The node of the new cluster.
const NODE: NodeId = 30;

/// Ends all nodes, and recovers some of their disks. Returns the new node, and whether the disks are those
/// of a majority: it then has all that was acknowledged. `None` if no disk has a cluster.
pub async fn recover(world: &Arc<World>) -> Option<(Running, bool)> {
    let members: BTreeSet<NodeId> = {
        let newest = world.members().into_iter().max_by_key(|(_, it)| it.reader.position().index);
        let cluster = newest.and_then(|(_, it)| it.reader.cluster().ok().flatten());
        cluster.iter().flat_map(|it| it.members.iter().map(|member| member.node)).collect()
    };
    let disks = lose_disks(world);
    let has_all = {
        let left = |node: &NodeId| disks.iter().any(|(left, _)| left == node);
        !members.is_empty()
            && members.iter().all(|node| left(node) && world.with_node(*node, |it| it.disks == 1))
    };
    let disks =
        RemainingDisks::new(disks.into_iter().filter_map(|it| examine(world, it)).collect());
    if disks.all().iter().all(|(_, remains)| remains.cluster.is_none()) {
        return None;
    }
    match restore(world, &disks) {
        Ok(is_majority) => {
            if has_all && !is_majority {
                world.violate("the disks of all members are no majority".into());
            }
            start(world, NODE);
            world.count(RECOVERIES);
            loop {
                sleep(Duration::from_millis(200)).await;
                if let Some((_, running)) = world.members().pop()
                    && running.handle.is_leader()
                {
                    return Some((running, is_majority));
                }
            }
        }
        Err(error) => {
            world.violate(format!("the disks are not recovered: {error}"));
            None
        }
    }
}

/// What a disk holds. `None` of a node that was never started, or was not yet a member.
fn examine(world: &World, (node, data): (NodeId, PathBuf)) -> Option<(NodeId, Remains)> {
    match raft::examine_remains(&data) {
        Ok(found) => {
            if found.is_short {
                world
                    .violate(format!("the disk of node {node} lost what it had synced: {found:?}"));
            }
            Some((node, found))
        }
        Err(error) => {
            let text = format!("the disk of node {node}: {error}");
            match world.with_node(node, |it| it.was_member) {
                true => world.violate(text),
                false => world.trace(&text),
            }
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
fn restore(world: &World, disks: &RemainingDisks) -> Result<bool, String> {
    let best = disks.best().map_err(|error| error.to_string())?;
    let (work, source) = (world.new_folder("work"), world.new_folder("source"));
    raft::apply_remains(best, &work, &source).map_err(|error| error.to_string())?;
    let state = storage::backup::examine(&source).map_err(|error| error.to_string())?;
    let is_majority = disks.are_majority(&state.position).map_err(|error| error.to_string())?;
    world.trace(&format!("recovered {:?}, of a majority: {is_majority}", best.last));
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
