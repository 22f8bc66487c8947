//! Numbers of the receipts of one tenant, per API key and retention.

use std::collections::BTreeMap;

use crate::model::id::Timestamp;
use crate::model::receipt::Retention;
use crate::model::tenant::KeyId;

#[derive(Debug, Default)]
pub(crate) struct ReceiptCounts(BTreeMap<(KeyId, Retention), Stored>);

#[derive(Debug)]
struct Stored {
    count: u64,
    /// No receipt is older.
    oldest: Timestamp,
}

impl ReceiptCounts {
    pub(super) fn put(&mut self, owner: KeyId, retention: Retention, at: Timestamp) {
        let stored = self.0.entry((owner, retention)).or_insert(Stored { count: 0, oldest: at });
        stored.count += 1;
    }

    /// Counts the removal of the oldest receipts; `last` is the time of the newest of them.
    pub(super) fn remove(
        &mut self,
        owner: KeyId,
        retention: Retention,
        count: u64,
        last: Timestamp,
    ) {
        let Some(stored) = self.0.get_mut(&(owner, retention)) else { return };
        (stored.count, stored.oldest) = (stored.count.saturating_sub(count), last);
        if stored.count == 0 {
            self.0.remove(&(owner, retention));
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().map(|stored| stored.count).sum()
    }

    pub(crate) fn of_key(&self, owner: KeyId) -> u64 {
        let count = |retention| self.0.get(&(owner, retention)).map_or(0, |stored| stored.count);
        Retention::ALL.into_iter().map(count).sum()
    }

    /// The key with the most receipts.
    pub(crate) fn largest(&self) -> Option<KeyId> {
        self.0.keys().map(|(owner, _)| *owner).max_by_key(|owner| self.of_key(*owner))
    }

    /// A time before which a key has no receipt of this retention; `None` without any.
    pub(crate) fn oldest(&self, owner: KeyId, retention: Retention) -> Option<Timestamp> {
        self.0.get(&(owner, retention)).map(|stored| stored.oldest)
    }

    /// The keys that have receipts, with their retentions.
    pub(crate) fn keys(&self) -> Vec<(KeyId, Retention)> {
        self.0.keys().copied().collect()
    }
}
