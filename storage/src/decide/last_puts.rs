//! Leaves out the writes of a batch that later ones replace. A memory that many triggers change is
//! then logged, written and indexed once.

use std::collections::BTreeMap;

use crate::change::{Change, memory_keys};
use crate::table::key::{Key, Kind};

/// The kinds of rows of which a batch keeps the last put only.
pub(super) const LAST_PUT_KINDS: [Kind; 4] =
    [Kind::Memory, Kind::MemoryState, Kind::Anchor, Kind::Firings];

/// Keeps one put of each row of these kinds: in the place of the first, with the content of the last.
/// A put after a removal is another one. After the put of a memory, all later changes of that memory
/// put it again (`Context::put_memory`), so its state is never replaced by an older one.
pub(super) fn last_puts(changes: Vec<Change>) -> Vec<Change> {
    let mut positions = BTreeMap::new();
    let mut kept = Vec::with_capacity(changes.len());
    for change in changes {
        let key = match &change {
            Change::MemoryPut(tenant, id, _) => Some(Key::Memory(*tenant, *id)),
            Change::MemoryStatePut(tenant, id, _) => Some(Key::MemoryState(*tenant, *id)),
            Change::AnchorPut(tenant, id, _) => Some(Key::Anchor(*tenant, *id)),
            Change::FiringsPut(tenant, id, _) => Some(Key::Firings(*tenant, *id)),
            Change::MemoryRemoved(tenant, id) => {
                for key in memory_keys(*tenant, *id) {
                    positions.remove(&key.bytes());
                }
                None
            }
            Change::TriggerRemoved(tenant, id) => {
                positions.remove(&Key::Firings(*tenant, *id).bytes());
                None
            }
            _ => None,
        };
        let end = kept.len();
        let position = key.map_or(end, |key| *positions.entry(key.bytes()).or_insert(end));
        if position < end {
            kept[position] = change;
        } else {
            kept.push(change);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::heat::Anchor;
    use model::id::{MemoryId, TenantId, Timestamp, TriggerId};
    use model::trigger::Firings;

    #[test]
    fn last_content_takes_the_first_place() {
        let put = |id: u8, heat: f32| {
            let anchor = Anchor::fresh(heat, Timestamp(1));
            Change::AnchorPut(TenantId(1), MemoryId([id; 16]), anchor)
        };
        let removed = |id: u8| Change::MemoryRemoved(TenantId(1), MemoryId([id; 16]));
        let mark = Change::VerifyMark(7);
        let changes =
            vec![put(1, 0.1), mark.clone(), put(2, 0.2), put(1, 0.3), removed(1), put(1, 0.4)];
        let expected = [put(1, 0.3), mark, put(2, 0.2), removed(1), put(1, 0.4)];
        assert_eq!(last_puts(changes), expected);
        let id = TriggerId([1; 16]);
        let fired =
            |total| Change::FiringsPut(TenantId(1), id, Firings { total, ..Firings::default() });
        let removed = || Change::TriggerRemoved(TenantId(1), id);
        let changes = vec![fired(1), fired(2), removed(), fired(3)];
        assert_eq!(last_puts(changes), [fired(2), removed(), fired(3)]);
    }
}
