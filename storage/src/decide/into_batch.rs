//! Makes the batch of a draft, and asserts what the rules promise of every batch where debug assertions
//! are on: in tests. `row_faults` looks for the same in the rows of a state.

use std::collections::BTreeMap;

use model::heat::Anchor;
use model::id::{MemoryId, TenantId};
use model::journal::Cursor;

use crate::change::{Batch, Change, RowWrite};
use crate::decide::counted::Counted;
use crate::decide::draft::Draft;
use crate::decide::last_puts::last_puts;
use crate::error::Result;
use crate::table::key::{Key, Kind, fixed, split};
use crate::table::view::View;

impl Draft {
    /// The finished batch, decided in `term`.
    pub fn into_batch(mut self, term: u64) -> Batch {
        let changes = last_puts(std::mem::take(&mut self.changes));
        if cfg!(debug_assertions) {
            assert_promises(&self, &changes).expect("the state can be read");
        }
        let after = self.position.batch;
        Batch { id: after.next(term), after, stamp: self.now, changes }
    }
}

/// Asserts the promises of a draft whose `changes` become a batch.
fn assert_promises(draft: &Draft, changes: &[Change]) -> Result<()> {
    assert_changes_make_the_rows(draft, changes);
    let mut created: BTreeMap<TenantId, i64> = BTreeMap::new();
    for (key, row) in &draft.rows {
        let is = |kind: Kind| key[0] == kind as u8;
        if is(Kind::Memory) {
            let (tenant, id) = memory_of(key)?;
            let was_there = has(&draft.base, &Key::Memory(tenant, id))?;
            *created.entry(tenant).or_default() += i64::from(row.is_some()) - i64::from(was_there);
            let has_anchor = draft.anchor(tenant, id)?.is_some();
            assert_eq!(has_anchor, row.is_some(), "a memory has an anchor: {id} of {tenant:?}");
        } else if is(Kind::Anchor) && row.is_some() {
            let (tenant, id) = memory_of(key)?;
            assert!(has(draft, &Key::Memory(tenant, id))?, "an anchor has its memory: {id}");
            let anchor: Anchor = draft.record(&Key::Anchor(tenant, id))?.expect("it is put");
            assert!((0.0..=1.0).contains(&anchor.heat), "{id} has the heat {}", anchor.heat);
            assert!(anchor.at <= draft.now, "{id} has a heat of the future");
        } else if (is(Kind::MemoryState) || is(Kind::MemoryVersions) || is(Kind::Vector))
            && row.is_some()
        {
            let (tenant, id) = memory_of(key)?;
            assert!(has(draft, &Key::Memory(tenant, id))?, "a part has its memory: {id}");
        }
    }
    for (tenant, number) in created {
        let counted = draft.number(tenant, Counted::Memories);
        let before = draft.base.counts(tenant).memories;
        let is_kept = has(draft, &Key::Tenant(tenant))?;
        assert!(
            !is_kept || Some(counted) == before.checked_add_signed(number),
            "{tenant:?} counts {counted} memories: {before} and {number} more"
        );
    }
    Ok(())
}

/// `apply` writes the rows that later commands of the batch have read.
fn assert_changes_make_the_rows(draft: &Draft, changes: &[Change]) {
    let mut rows = BTreeMap::new();
    for write in changes.iter().flat_map(|change| change.rows(Cursor::default())) {
        match write {
            RowWrite::Put(key, value) => drop(rows.insert(key.bytes(), Some(value))),
            RowWrite::Delete(key) => drop(rows.insert(key.bytes(), None)),
            RowWrite::DeleteRange(..) => {}
        }
    }
    assert!(rows == draft.rows, "the changes of the batch make other rows than its commands read");
}

fn memory_of(key: &[u8]) -> Result<(TenantId, MemoryId)> {
    let (tenant, rest) = split(key)?;
    Ok((tenant, MemoryId(fixed(rest)?)))
}

fn has(view: &impl View, key: &Key) -> Result<bool> {
    Ok(view.bytes(key)?.is_some())
}
