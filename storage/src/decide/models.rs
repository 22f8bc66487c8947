//! Commands for a change of the embedding model: vectors of the next model are added beside those in use,
//! then one batch switches.

use model::audit::{AuditAction, short};
use model::bounded::bounded;
use model::cluster::{Cluster, Model};
use model::cluster::{
    EMBEDDED_MAX, EmbeddedMemory, FOLDER_BYTES_MAX, Models, NextModel, VectorPlace,
};
use model::id::{MemoryId, TenantId};
use model::vector::Vector;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, texts};
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::rule::{Class, ClusterAudit, ClusterRule};
use crate::error::Result;
use crate::reply::Rejection;
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

/// Begins to change the embedding model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartModelChange {
    /// The new one.
    pub model: Model,
    /// Its folder on every node.
    pub folder: String,
}

impl ClusterRule for StartModelChange {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(|_, draft, _| entry(draft));

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let Self { model, folder } = self;
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
            folder: folder.clone(),
            started_at: draft.now,
            is_switching: false,
            forced: false,
            ready: Vec::new(),
        };
        draft.push(Change::ModelsPut(Models { next: Some(next), ..models }));
        Ok(())
    }
}

/// Gives up the change that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelModelChange;

impl ClusterRule for CancelModelChange {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(|_, draft, _| entry(draft));

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let (place, _) = under_way(draft)?;
        draft.push(Change::ModelsPut(Models { place, next: None }));
        draft.push(Change::VectorsRemoved(place.other()));
        Ok(())
    }
}

/// Records that a node has loaded the next model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportModelReady(pub u64);

impl ClusterRule for ReportModelReady {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let node = self.0;
        let (place, mut next) = under_way(draft)?;
        if !next.ready.contains(&node) {
            next.ready.push(node);
            draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
        }
        Ok(())
    }
}

/// Stores vectors of the next model. Leaves out memories that were deleted or have another text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordVectors(
    #[serde(deserialize_with = "bounded::<EMBEDDED_MAX, _, _>")] pub Vec<EmbeddedMemory>,
);

impl ClusterRule for RecordVectors {
    type Reply = ();
    const CLASS: Class = Class::BackgroundAddsData;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let (place, next) = under_way(draft)?;
        for EmbeddedMemory { tenant, id, label, vector } in &self.0 {
            let is_next = vector.model == next.model.id
                && vector.dimension() == next.model.dimension as usize;
            reject_if(!is_next, Rejection::ModelMismatch)?;
            let memory = draft.memory(*tenant, *id)?;
            if memory.is_some_and(|memory| memory.label == *label) {
                draft.push(vector_put(place.other(), *tenant, *id, vector.clone()));
            }
        }
        Ok(())
    }
}

/// Lets the switch not wait for members that have not loaded the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForceModelSwitch;

impl ClusterRule for ForceModelSwitch {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(|_, draft, _| entry(draft));

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let (place, mut next) = under_way(draft)?;
        next.forced = true;
        draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
        Ok(())
    }
}

/// Rejects new texts from here on, until the switch. All present members must have the model, unless
/// the operator has forced the switch: the others then stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BeginModelSwitch;

impl ClusterRule for BeginModelSwitch {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let (place, mut next) = under_way(draft)?;
        let cluster = cluster(draft)?;
        let members =
            cluster.members.iter().filter(|member| !member.removed).map(|member| member.node);
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
        Ok(())
    }
}

/// Accepts new texts again. A node that cannot load the model is no longer ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PostponeModelSwitch(pub Option<u64>);

impl ClusterRule for PostponeModelSwitch {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let unready = self.0;
        let (place, before) = under_way(draft)?;
        let mut next = NextModel { is_switching: false, ..before.clone() };
        next.ready.retain(|node| Some(*node) != unready);
        if next != before {
            draft.push(Change::ModelsPut(Models { place, next: Some(next) }));
        }
        Ok(())
    }
}

/// Switches to the next model. Its submitter has found since [`BeginModelSwitch`] that all memories have
/// its vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchModel(pub Model);

impl ClusterRule for SwitchModel {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let model = &self.0;
        let (place, next) = under_way(draft)?;
        if !next.is_switching || next.model != *model {
            return wrong("the change of the model was cancelled, or has not come to its switch");
        }
        let cluster = Cluster { model: next.model, ..cluster(draft)? };
        draft.push(Change::ClusterPut(cluster));
        draft.push(Change::VectorsRemoved(place));
        draft.push(Change::ModelsPut(Models { place: place.other(), next: None }));
        Ok(())
    }
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

/// The next model, as the audit log shows it.
fn entry(draft: &Draft) -> Result<AuditedAct> {
    let next = draft.models()?.next;
    let next = next.as_ref();
    let fields = texts([
        ("name", next.map(|next| short(&next.model.name))),
        ("folder", next.map(|next| short(&next.folder))),
        ("forced", next.map(|next| next.forced.to_string())),
    ]);
    Ok(AuditedAct::new(AuditAction::ModelChange, "next model", fields))
}
