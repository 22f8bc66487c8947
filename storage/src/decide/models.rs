//! Rules for a change of the embedding model: vectors of the next model are added beside those in use,
//! then one batch switches.

use crate::change::Change;
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::model::cluster::{Cluster, Model};
use crate::model::id::{MemoryId, TenantId};
use crate::model::models::{EmbeddedMemory, FOLDER_BYTES_MAX, Models, NextModel, VectorPlace};
use crate::model::vector::Vector;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

fn wrong<T>(reason: impl Into<String>) -> Decided<T> {
    Err(Rejection::WrongState(reason.into()).into())
}

fn cluster(draft: &Draft) -> Decided<Cluster> {
    match draft.cluster()? {
        Some(cluster) => Ok((*cluster).clone()),
        None => wrong("the cluster is not bootstrapped yet"),
    }
}

/// The models with the change that is under way.
fn under_way(draft: &Draft) -> Decided<(VectorPlace, NextModel)> {
    match draft.models()? {
        Models { place, next: Some(next) } => Ok((place, next)),
        Models { next: None, .. } => wrong("no change of the model is under way"),
    }
}

pub(super) fn start(draft: &mut Draft, model: &Model, folder: &str) -> Decided<Reply> {
    let (cluster, models) = (cluster(draft)?, draft.models()?);
    if models.next.is_some() {
        return wrong("a change of the model is under way: cancel it first");
    }
    if model.id == cluster.model.id {
        return wrong("the cluster has this model already");
    }
    reject_if(folder.len() > FOLDER_BYTES_MAX, Rejection::TooLarge(FOLDER_BYTES_MAX))?;
    let next = NextModel {
        model: model.clone(),
        folder: folder.to_owned(),
        started_at: draft.now,
        is_switching: false,
        forced: false,
        ready: Vec::new(),
    };
    draft.push(Change::ModelsPut(Models { next: Some(next), ..models }));
    Ok(Reply::Done)
}

pub(super) fn cancel(draft: &mut Draft) -> Decided<Reply> {
    let (place, _) = under_way(draft)?;
    draft.push(Change::ModelsPut(Models { place, next: None }));
    draft.push(Change::VectorsRemoved(place.other()));
    Ok(Reply::Done)
}

/// Records that a node has loaded the next model.
pub(super) fn report_ready(draft: &mut Draft, node: u64) -> Decided<Reply> {
    let (place, mut next) = under_way(draft)?;
    if !next.ready.contains(&node) {
        next.ready.push(node);
        draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
    }
    Ok(Reply::Done)
}

/// Stores vectors of the next model. Leaves out memories that were deleted or have another text.
pub(super) fn record(draft: &mut Draft, embedded: &[EmbeddedMemory]) -> Decided<Reply> {
    let (place, next) = under_way(draft)?;
    for EmbeddedMemory { tenant, id, label, vector } in embedded {
        let is_next =
            vector.model == next.model.id && vector.dimension() == next.model.dimension as usize;
        reject_if(!is_next, Rejection::ModelMismatch)?;
        let memory = draft.memory(*tenant, *id)?;
        if memory.is_some_and(|memory| memory.label == *label) {
            draft.push(vector_put(place.other(), *tenant, *id, vector.clone()));
        }
    }
    Ok(Reply::Done)
}

/// Lets the switch not wait for members that have not loaded the model.
pub(super) fn force_switch(draft: &mut Draft) -> Decided<Reply> {
    let (place, mut next) = under_way(draft)?;
    next.forced = true;
    draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
    Ok(Reply::Done)
}

/// Rejects new texts from here on, until the switch. All present members must have the model, unless
/// the operator has forced the switch: the others then stop.
pub(super) fn begin_switch(draft: &mut Draft) -> Decided<Reply> {
    let (place, mut next) = under_way(draft)?;
    let cluster = cluster(draft)?;
    let members = cluster.members.iter().filter(|member| !member.removed).map(|member| member.node);
    let absent: Vec<String> = members
        .filter(|node| !next.forced && !next.ready.contains(node))
        .map(|node| node.to_string())
        .collect();
    if !absent.is_empty() {
        return wrong(format!("nodes without the model: {}", absent.join(", ")));
    }
    if !next.is_switching {
        next.is_switching = true;
        draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
    }
    Ok(Reply::Done)
}

/// Accepts new texts again. A node that cannot load the model is no longer ready.
pub(super) fn postpone_switch(draft: &mut Draft, unready: Option<u64>) -> Decided<Reply> {
    let (place, before) = under_way(draft)?;
    let mut next = NextModel { is_switching: false, ..before.clone() };
    next.ready.retain(|node| Some(*node) != unready);
    if next != before {
        draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
    }
    Ok(Reply::Done)
}

/// Switches to the next model. Its submitter has found since [`begin_switch`] that all memories have
/// its vectors.
pub(super) fn switch(draft: &mut Draft, model: &Model) -> Decided<Reply> {
    let (place, next) = under_way(draft)?;
    if !next.is_switching || next.model != *model {
        return wrong("the change of the model was cancelled, or has not come to its switch");
    }
    let cluster = Cluster { model: next.model, ..cluster(draft)? };
    draft.push(Change::ClusterPut(cluster));
    draft.push(Change::VectorsRemoved(place));
    draft.push(Change::ModelsPut(Models { place: place.other(), next: None }));
    Ok(Reply::Done)
}

/// The vector of a memory in a place.
fn vector_put(place: VectorPlace, tenant: TenantId, id: MemoryId, vector: Vector) -> Change {
    match place {
        VectorPlace::First => Change::VectorPut(tenant, id, vector),
        VectorPlace::Second => Change::SecondVectorPut(tenant, id, vector),
    }
}

/// Puts the vector of a new text in the place in use. That of the next model is computed anew.
pub(super) fn put(
    draft: &mut Draft,
    tenant: TenantId,
    id: MemoryId,
    vector: &Vector,
) -> Decided<()> {
    let Models { place, next } = draft.models()?;
    draft.push(vector_put(place, tenant, id, vector.clone()));
    if next.is_some() {
        draft.push(Change::VectorRemoved(place.other(), tenant, id));
    }
    Ok(())
}

/// Rejects vectors of another model or dimension, whose distances to others have no meaning, and new
/// texts in the moment before a switch.
pub(super) fn check_vector(draft: &Draft, vector: &Vector) -> Decided<()> {
    let cluster = draft.cluster()?;
    let is_current = cluster.is_some_and(|cluster| {
        cluster.model.id == vector.model && cluster.model.dimension as usize == vector.dimension()
    });
    let is_switching = draft.models()?.next.is_some_and(|next| next.is_switching);
    reject_if(!is_current || is_switching, Rejection::ModelMismatch)
}
