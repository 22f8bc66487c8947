//! All tenants' indexes, API keys and triggers of one state, and how they are built
//! from it. One registry belongs to one opened state and is dropped with it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::change::all_of;
use crate::codec;
use crate::error::{Error, Result};
use crate::index::tenant::{IndexChange, TenantIndex};
use crate::index::triggers::Triggers;
use crate::model::access::{Access, Rules};
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::memory::Memory;
use crate::model::sq8::Code;
use crate::model::tenant::{ApiKey, Caller, KeyId, KeyText, Tenant};
use crate::model::trigger::Firings;
use crate::model::vector::Vector;
use crate::model::words::held_words;
use crate::table::key::{Kind, fixed, split};
use crate::table::state::{Row, State};
use crate::table::view::View;

/// Memories that are indexed under one lock while a state is opened.
const REBUILD_CHANGES: usize = 4_096;

/// Derived data of a whole state.
pub(crate) struct Registry {
    exact_max: usize,
    tenants: RwLock<HashMap<TenantId, Arc<TenantIndex>>>,
    keys: RwLock<HashMap<KeyId, (TenantId, ApiKey)>>,
    rules: RwLock<HashMap<TenantId, Rules>>,
    triggers: RwLock<HashMap<TenantId, Arc<Triggers>>>,
    /// What triggers have done so far: those that are spent are asked as often as others.
    firings: RwLock<HashMap<(TenantId, TriggerId), Firings>>,
    /// Tenants whose graph is behind.
    behind: Mutex<BTreeSet<TenantId>>,
}

impl Registry {
    /// Builds everything but graphs anew from `state`.
    pub(crate) fn rebuild(state: &State, exact_max: usize) -> Result<Self> {
        let registry = Self {
            exact_max,
            tenants: RwLock::default(),
            keys: RwLock::default(),
            rules: RwLock::default(),
            triggers: RwLock::default(),
            firings: RwLock::default(),
            behind: Mutex::default(),
        };
        let dimension = dimension(state)?;
        for row in state.range(&[Kind::Tenant as u8], &[Kind::Tenant as u8 + 1]) {
            let (key, value) = row?;
            registry.put_tenant(split(&key)?.0, codec::decode(&value)?, dimension);
        }
        for row in state.range(&[Kind::ApiKey as u8], &[Kind::ApiKey as u8 + 1]) {
            let (key, value) = row?;
            let (tenant, rest) = split(&key)?;
            registry.put_key(tenant, KeyId(fixed(rest)?), codec::decode(&value)?);
        }
        for row in state.range(&[Kind::Rules as u8], &[Kind::Rules as u8 + 1]) {
            let (key, value) = row?;
            registry.put_rules(split(&key)?.0, codec::decode(&value)?);
        }
        let mut triggers: HashMap<TenantId, Vec<_>> = HashMap::new();
        for row in state.range(&[Kind::Trigger as u8], &[Kind::Trigger as u8 + 1]) {
            let (key, value) = row?;
            let (tenant, rest) = split(&key)?;
            let of_tenant = triggers.entry(tenant).or_default();
            of_tenant.push((TriggerId(fixed(rest)?), codec::decode(&value)?));
        }
        for (tenant, all) in triggers {
            registry.change_triggers(tenant, |of_tenant| *of_tenant = Triggers::of(all));
        }
        for row in state.range(&[Kind::Firings as u8], &[Kind::Firings as u8 + 1]) {
            let (key, value) = row?;
            let (tenant, rest) = split(&key)?;
            registry.put_firings(tenant, TriggerId(fixed(rest)?), codec::decode(&value)?);
        }
        for (tenant, index) in registry.all() {
            rebuild_memories(state, tenant, &index)?;
            rebuild_counts(state, tenant, &index)?;
            registry.note_if_behind(tenant, &index);
        }
        Ok(registry)
    }

    /// Memories that a search scores all of, rather than ask a graph; with more than that
    /// a tenant gets one.
    pub(crate) fn exact_max(&self) -> usize {
        self.exact_max
    }

    /// Has the graph of a tenant looked after if it is behind; says whether that is news.
    pub(crate) fn note_if_behind(&self, tenant: TenantId, index: &TenantIndex) -> bool {
        let behind = index.read().graph_is_behind(self.exact_max);
        behind && self.behind.lock().insert(tenant)
    }

    /// The next tenant after `last` whose graph is behind, no longer noted.
    pub(crate) fn take_behind(&self, last: TenantId) -> Option<TenantId> {
        let mut behind = self.behind.lock();
        let above = (Bound::Excluded(last), Bound::Unbounded);
        let next = behind.range(above).next().or_else(|| behind.first()).copied()?;
        behind.take(&next)
    }

    pub(crate) fn tenant(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.tenants.read().get(&tenant).cloned()
    }

    /// All tenants in order of their number.
    pub(crate) fn all(&self) -> Vec<(TenantId, Arc<TenantIndex>)> {
        let tenants = self.tenants.read();
        let mut all: Vec<_> =
            tenants.iter().map(|(tenant, index)| (*tenant, Arc::clone(index))).collect();
        all.sort_by_key(|(tenant, _)| *tenant);
        all
    }

    pub(crate) fn put_tenant(&self, id: TenantId, tenant: Tenant, dimension: usize) {
        match self.tenant(id) {
            Some(index) => index.apply([IndexChange::Tenant(tenant)]),
            None => {
                self.tenants.write().insert(id, Arc::new(TenantIndex::new(tenant, dimension)));
            }
        }
    }

    pub(crate) fn put_key(&self, tenant: TenantId, id: KeyId, key: ApiKey) {
        self.keys.write().insert(id, (tenant, key));
    }

    pub(crate) fn remove_key(&self, id: KeyId) {
        self.keys.write().remove(&id);
    }

    pub(crate) fn has_key(&self, id: KeyId) -> bool {
        self.keys.read().contains_key(&id)
    }

    pub(crate) fn put_rules(&self, tenant: TenantId, rules: Rules) {
        self.rules.write().insert(tenant, rules);
    }

    pub(crate) fn change_triggers(&self, tenant: TenantId, change: impl FnOnce(&mut Triggers)) {
        // Whoever reads them meanwhile finishes on what they were.
        change(Arc::make_mut(self.triggers.write().entry(tenant).or_default()));
    }

    pub(crate) fn remove_trigger(&self, tenant: TenantId, id: TriggerId) {
        self.change_triggers(tenant, |all| all.remove(id));
        self.firings.write().remove(&(tenant, id));
    }

    pub(crate) fn put_firings(&self, tenant: TenantId, id: TriggerId, firings: Firings) {
        self.firings.write().insert((tenant, id), firings);
    }

    /// What a trigger has done so far.
    pub(crate) fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.firings.read().get(&(tenant, id)).copied().unwrap_or_default()
    }

    /// A tenant's triggers.
    pub(crate) fn triggers(&self, tenant: TenantId) -> Arc<Triggers> {
        self.triggers.read().get(&tenant).cloned().unwrap_or_default()
    }

    /// Who presents `text`, if it is a key of this state.
    pub(crate) fn authenticate(&self, text: &str) -> Option<Caller> {
        let id = KeyText::id_of(text)?;
        let keys = self.keys.read();
        let (tenant, key) = keys.get(&id)?;
        key.matches(text).then(|| Caller {
            tenant: *tenant,
            key: id,
            role: key.role,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            access: self.access(*tenant, id, key),
        })
    }
}

impl Registry {
    /// What a key may touch.
    fn access(&self, tenant: TenantId, id: KeyId, key: &ApiKey) -> Access {
        let rules = self.rules.read();
        rules.get(&tenant).map(|rules| rules.of(id, &key.name, key.role)).unwrap_or_default()
    }
}

/// Components of the vectors of a state; 0 before its cluster formed.
pub(crate) fn dimension(state: &State) -> Result<usize> {
    Ok(state.cluster()?.map_or(0, |cluster| cluster.model.dimension as usize))
}

/// Text, anchor and vector rows lie in three ranges in the same order of ids:
/// one walk over all three side by side.
fn rebuild_memories(state: &State, tenant: TenantId, index: &TenantIndex) -> Result<()> {
    let range = |kind| {
        let (start, end) = all_of(kind, tenant);
        state.range(&start, &end)
    };
    let (mut anchors, mut vectors) = (range(Kind::Anchor), range(Kind::Vector));
    let mut changes = Vec::new();
    for row in range(Kind::Memory) {
        let (key, value) = row?;
        let id = MemoryId(fixed(split(&key)?.1)?);
        let memory: Memory = codec::decode(&value)?;
        let anchor: Anchor = codec::decode(&same_id(id, anchors.next())?)?;
        let vector: Vector = codec::decode(&same_id(id, vectors.next())?)?;
        let words = held_words(memory.texts());
        changes.push(IndexChange::Memory { id, memory, words_before: Vec::new(), words });
        changes.push(IndexChange::Anchor(id, anchor));
        changes.push(vector_shown(id, &vector)?);
        if changes.len() >= REBUILD_CHANGES {
            index.apply(changes.drain(..));
        }
    }
    index.apply(changes);
    Ok(())
}

fn same_id(id: MemoryId, row: Option<Result<Row>>) -> Result<Box<[u8]>> {
    let (key, value) = row.transpose()?.unwrap_or_default();
    match split(&key).and_then(|(_, rest)| fixed(rest)) {
        Ok(found) if MemoryId(found) == id => Ok(value),
        _ => Err(Error::Corrupt {
            what: "memory",
            detail: format!("{id} lacks its anchor or vector row, or one is left over before it"),
        }),
    }
}

fn rebuild_counts(state: &State, tenant: TenantId, index: &TenantIndex) -> Result<()> {
    let (start, end) = all_of(Kind::Receipt, tenant);
    for row in state.range(&start, &end) {
        let (key, _) = row?;
        let (day, _) = split(&key)?.1.split_at_checked(4).unwrap_or_default();
        index.apply([IndexChange::ReceiptPut(u32::from_be_bytes(fixed(day)?))]);
    }
    let (start, end) = all_of(Kind::Edge, tenant);
    let mut ends = 0;
    for row in state.range(&start, &end) {
        row?;
        ends += 1;
    }
    // Each edge has a row at both its ends.
    index.apply((0..ends / 2).map(|_| IndexChange::EdgeAppended));
    let (start, end) = all_of(Kind::Event, tenant);
    for row in state.range(&start, &end) {
        let (key, _) = row?;
        let (entry, _) = split(&key)?.1.split_at_checked(8).unwrap_or_default();
        index.apply([IndexChange::EventAppended(u64::from_be_bytes(fixed(entry)?))]);
    }
    Ok(())
}

/// How a stored vector shows in the index; one that cannot be read is corruption,
/// since no vector without a direction is ever decided.
pub(crate) fn vector_shown(id: MemoryId, vector: &Vector) -> Result<IndexChange> {
    let components = vector
        .components()
        .map_err(|fault| Error::Corrupt { what: "vector", detail: fault.to_string() })?;
    let code = Code::of(&components);
    Ok(IndexChange::Vector(id, components, code))
}
