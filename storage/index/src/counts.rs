//! Counts of rows that are no memories: events of the parts of a tenant's journal, and receipts by key
//! and retention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use model::id::{KeyId, Timestamp};
use model::journal::JournalPart;
use model::receipt::Retention;

use crate::less;

/// Both parts of a journal.
#[derive(Default)]
pub struct JournalCounts([PartCounts; JournalPart::ALL.len()]);

/// One part.
#[derive(Default)]
pub struct PartCounts {
    events: u64,
    /// Bytes of their rows.
    bytes: u64,
    /// See [`Self::first_at`], in microseconds.
    first_at: AtomicI64,
}

impl JournalCounts {
    pub fn part(&self, part: JournalPart) -> &PartCounts {
        &self.0[part as usize]
    }

    pub fn append(&mut self, part: JournalPart, at: Timestamp, bytes: u64) {
        let counts = &mut self.0[part as usize];
        if counts.events == 0 {
            counts.set_first_at(at);
        }
        counts.events += 1;
        counts.bytes += bytes;
    }

    pub fn trim(&mut self, part: JournalPart, events: u64, bytes: u64) {
        let counts = &mut self.0[part as usize];
        counts.events = less(counts.events, events);
        counts.bytes = less(counts.bytes, bytes);
    }

    /// Events of both parts.
    pub fn events(&self) -> u64 {
        self.0.iter().map(|part| part.events).sum()
    }
}

impl PartCounts {
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A time before which the part has no event. Events are appended in the order of their times,
    /// and removed in that order, so a time that held once stays valid.
    pub fn first_at(&self) -> Timestamp {
        Timestamp(self.first_at.load(Ordering::Relaxed))
    }

    /// Sets a time before which the part has no event.
    pub fn set_first_at(&self, at: Timestamp) {
        self.first_at.fetch_max(at.0, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub struct ReceiptCounts {
    stored: BTreeMap<(KeyId, Retention), Stored>,
    /// Number of receipts of each key, of both retentions. Ordered by number.
    owners: BTreeSet<(u64, KeyId)>,
    total: u64,
}

#[derive(Debug)]
struct Stored {
    count: u64,
    /// No receipt is older.
    oldest: Timestamp,
}

impl ReceiptCounts {
    pub fn put(&mut self, owner: KeyId, retention: Retention, at: Timestamp) {
        let before = self.of_key(owner);
        let empty = Stored { count: 0, oldest: at };
        self.stored.entry((owner, retention)).or_insert(empty).count += 1;
        self.count(owner, before);
    }

    /// Counts the removal of the oldest receipts; `last` is the time of the newest of them.
    pub fn remove(&mut self, owner: KeyId, retention: Retention, count: u64, last: Timestamp) {
        let before = self.of_key(owner);
        let Some(stored) = self.stored.get_mut(&(owner, retention)) else { return };
        (stored.count, stored.oldest) = (less(stored.count, count), last);
        if stored.count == 0 {
            self.stored.remove(&(owner, retention));
        }
        self.count(owner, before);
    }

    /// Corrects the sums after a key had `before` receipts.
    fn count(&mut self, owner: KeyId, before: u64) {
        let after = self.of_key(owner);
        self.total = self.total - before + after;
        self.owners.remove(&(before, owner));
        if after > 0 {
            self.owners.insert((after, owner));
        }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn of_key(&self, owner: KeyId) -> u64 {
        let count =
            |retention| self.stored.get(&(owner, retention)).map_or(0, |stored| stored.count);
        Retention::ALL.into_iter().map(count).sum()
    }

    /// At most `most` keys that may have receipts at or before `until`. The key with the most
    /// receipts comes first.
    pub fn owners(&self, until: Timestamp, most: usize) -> Vec<KeyId> {
        let is_old = |owner: &KeyId| {
            let oldest = |retention| self.oldest(*owner, retention);
            Retention::ALL.into_iter().filter_map(oldest).any(|oldest| oldest <= until)
        };
        let owners = self.owners.iter().rev().map(|(_, owner)| *owner);
        owners.filter(is_old).take(most).collect()
    }

    /// A time before which a key has no receipt of this retention; `None` without any.
    pub fn oldest(&self, owner: KeyId, retention: Retention) -> Option<Timestamp> {
        self.stored.get(&(owner, retention)).map(|stored| stored.oldest)
    }

    /// Whether the retention of a receipt may have passed at `now`.
    pub fn may_expire(&self, now: Timestamp) -> bool {
        let mut all = self.stored.iter();
        all.any(|((_, retention), stored)| stored.oldest.0 <= now.0 - retention.micros())
    }

    /// The keys that have receipts, with their retentions.
    pub fn keys(&self) -> Vec<(KeyId, Retention)> {
        self.stored.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_with_old_receipts_are_ordered_by_number() {
        let key = |number| KeyId([number; 8]);
        let mut counts = ReceiptCounts::default();
        for (owner, count, at) in [(1, 5, 10), (2, 9, 90), (3, 7, 20), (4, 1, 30)] {
            for number in 0..count {
                let retention = Retention::ALL[number % 2];
                counts.put(key(owner), retention, Timestamp(at + number as i64));
            }
        }
        let owners = |counts: &ReceiptCounts, until| counts.owners(Timestamp(until), 3);
        assert_eq!(owners(&counts, 9), []);
        assert_eq!(owners(&counts, 50), [key(3), key(1), key(4)]);
        assert_eq!(owners(&counts, 99), [key(2), key(3), key(1)]);
        counts.remove(key(3), Retention::Hour, 3, Timestamp(25));
        assert_eq!((counts.of_key(key(3)), counts.total()), (4, 19));
        assert_eq!(owners(&counts, 50), [key(1), key(3), key(4)]);
        counts.remove(key(3), Retention::Hour, 1, Timestamp(26));
        counts.remove(key(3), Retention::Day, 3, Timestamp(26));
        assert_eq!((owners(&counts, 50), counts.total()), (vec![key(1), key(4)], 15));
    }
}
