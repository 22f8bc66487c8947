//! Numbers of the events of one part of a tenant's journal.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::less;
use model::id::Timestamp;
use model::journal::JournalPart;

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
