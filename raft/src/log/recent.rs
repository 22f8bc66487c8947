//! The newest entries of the log, in memory: replication and apply read each entry a moment after
//! it was appended, often before it is written.
//!
//! # Invariant
//! The entries are consecutive and the last ones of the log. Those that are not synced are all here.

use std::collections::VecDeque;

use openraft::EntryPayload;

use crate::log::record::LogIdRecord;
use crate::types::{Entry, LogId};

/// Bytes of entries that are kept. Those that are not synced are kept in any case.
const BYTES_MAX: usize = 16 << 20;
/// What an entry takes beside its payload.
const ENTRY_BYTES: usize = 128;

#[derive(Default)]
pub(crate) struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The last purged entry of this process.
    purged: Option<LogId>,
}

impl Recent {
    /// Adds entries before the log appends them. Entries up to `synced` are durable there.
    pub(crate) fn append(&mut self, entries: Vec<Entry>, synced: Option<LogIdRecord>) {
        for entry in entries {
            if self.end().is_some_and(|end| end != index(&entry)) {
                (self.entries, self.bytes) = Default::default();
            }
            self.bytes += size(&entry);
            self.entries.push_back(entry);
        }
        // By term first: `synced` may be an entry that was truncated, with a higher index.
        let is_synced = |entry: &Entry| Some(LogIdRecord::from(entry.log_id)) <= synced;
        while self.bytes > BYTES_MAX && self.entries.front().is_some_and(is_synced) {
            self.remove_first();
        }
    }

    /// Removes the entries from this index on. Call it before the log removes them.
    pub(crate) fn truncate_from(&mut self, first: u64) {
        while let Some(last) = self.entries.pop_back_if(|last| index(last) >= first) {
            self.bytes -= size(&last);
        }
    }

    /// Removes the entries up to this index. Call it before the log removes them.
    pub(crate) fn purge(&mut self, upto: LogId) {
        while self.entries.front().is_some_and(|first| index(first) <= upto.index()) {
            self.remove_first();
        }
        self.purged = Some(upto);
    }

    /// The last entry that was purged in this process.
    pub(crate) fn purged(&self) -> Option<LogId> {
        self.purged
    }

    /// The entries from `first` to before `end`, at most `bytes_max` bytes of them, but at least
    /// one. `None` if `first` is not here.
    pub(crate) fn read(&self, first: u64, end: u64, bytes_max: usize) -> Option<Vec<Entry>> {
        let skipped = first.checked_sub(index(self.entries.front()?))?;
        let skipped = usize::try_from(skipped).ok().filter(|at| *at < self.entries.len())?;
        let mut bytes = 0;
        let fitting = self.entries.range(skipped..).take_while(|entry| {
            let is_first = bytes == 0;
            bytes += size(entry);
            index(entry) < end && (is_first || bytes <= bytes_max)
        });
        Some(fitting.cloned().collect())
    }

    /// All entries here from `first` to before `end`.
    pub(crate) fn tail(&self, first: u64, end: u64) -> Vec<Entry> {
        let is_wanted = |entry: &&Entry| (first..end).contains(&index(entry));
        self.entries.iter().filter(is_wanted).cloned().collect()
    }

    fn remove_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.bytes -= size(&first);
        }
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|last| last.log_id)
    }

    /// The index after the last entry.
    fn end(&self) -> Option<u64> {
        self.entries.back().map(|last| index(last) + 1)
    }
}

fn index(entry: &Entry) -> u64 {
    entry.log_id.index()
}

fn size(entry: &Entry) -> usize {
    let payload = match &entry.payload {
        EntryPayload::Normal(payload) => payload.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    };
    ENTRY_BYTES + payload
}

#[cfg(test)]
mod tests {
    use openraft::entry::RaftEntry;
    use proptest::prelude::*;

    use super::*;
    use crate::types::Payload;

    fn entry(index: u64, bytes: usize) -> Entry {
        Entry::new(
            LogId::new_term_index(1, index),
            EntryPayload::Normal(Payload(vec![0; bytes].into())),
        )
    }

    fn indexes(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(index).collect()
    }

    #[test]
    fn old_entries_make_room() {
        let mut recent = Recent::default();
        recent.append((1..=40).map(|index| entry(index, 1 << 20)).collect(), None);
        assert_eq!(recent.entries.len(), 40, "none of them is durable");
        let synced = |index| Some(LogIdRecord { term: 1, index });
        recent.append(vec![entry(41, 0)], synced(3));
        assert_eq!(indexes(&recent.read(4, 6, usize::MAX).unwrap()), [4, 5]);
        assert!(recent.read(3, 6, usize::MAX).is_none());
        recent.append(vec![entry(42, 0)], synced(40));
        assert!(recent.bytes <= BYTES_MAX);
        assert_eq!(indexes(&recent.read(39, 99, usize::MAX).unwrap()), [39, 40, 41, 42]);
        recent.append(vec![entry(43, 2 * BYTES_MAX)], synced(42));
        assert_eq!(indexes(&recent.read(43, 44, 1).unwrap()), [43]);
    }

    proptest! {
        /// Compares with a plain list of all entries.
        #[test]
        fn recent_entries_are_the_last_of_the_log(
            steps in proptest::collection::vec((0..10_u8, 0..30_u64), 1..60)
        ) {
            let (mut recent, mut log) = (Recent::default(), Vec::<Entry>::new());
            let mut purged = 0;
            for (chance, number) in steps {
                let end = log.last().map_or(purged, index) + 1;
                match chance {
                    0..=5 => {
                        let new: Vec<_> = (end..end + number % 4).map(|at| entry(at, 10)).collect();
                        recent.append(new.clone(), None);
                        log.extend(new);
                    }
                    6 | 7 => {
                        let first = end.saturating_sub(number % 5).max(purged + 1);
                        recent.truncate_from(first);
                        log.retain(|entry| index(entry) < first);
                    }
                    _ => {
                        let upto = (purged + number % 5).min(end - 1);
                        recent.purge(LogId::new_term_index(1, upto));
                        log.retain(|entry| index(entry) > upto);
                        purged = purged.max(upto);
                    }
                }
                for first in purged + 1..end + 3 {
                    let expected = log.iter().filter(|entry| index(entry) >= first).take(3);
                    let expected: Vec<_> = expected.map(index).collect();
                    match recent.read(first, first + 3, usize::MAX) {
                        Some(found) => prop_assert_eq!(indexes(&found), expected),
                        None => prop_assert!(expected.is_empty()),
                    }
                }
            }
            prop_assert_eq!(recent.bytes, recent.entries.iter().map(size).sum::<usize>());
        }
    }
}
