//! Reading what happened: events of the journal, deliveries of webhooks, and the audit log.

use model::audit::{AuditAction, AuditChain, AuditEnds, AuditEntry};
use model::id::{KeyId, TenantId, Timestamp};
use model::journal::{Cursor, Event, JournalPart};
use model::memory::Memory;
use model::trigger::{DeadLetterCursor, Delivery, DeliveryId};

use crate::change::all_of;
use crate::codec;
use crate::error::Result;
use crate::reader::Reader;
use crate::table::key::{Key, Kind, cursor_of, delivery_of, split, timed_delivery_of};
use crate::table::view::{Row, View};

/// Most events that one page reads. A filter that passes few of them continues on the next page.
const PAGE_EVENTS_MAX: usize = 10_000;

/// A page of a journal, latest event first.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// The events that passed the filter.
    pub events: Vec<(Cursor, Event)>,
    /// The next page is before this cursor; `None` on the last page.
    pub next: Option<Cursor>,
}

/// What a part of a journal has above its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// The events of a journal after a cursor, earliest first.
#[derive(Debug, Clone)]
pub struct EventsAfter {
    /// The events that passed the filter.
    pub events: Vec<(Cursor, Event)>,
    /// Cursor up to which events were read. The next read starts after it.
    pub reached: Cursor,
    /// Whether further events remain.
    pub more: bool,
    /// The first retained event, if events after the requested cursor may be trimmed.
    pub gap: Option<Cursor>,
}

impl Reader {
    /// At most `limit` events of a tenant before `before` that pass `filter`, latest first. Reads
    /// at most [`PAGE_EVENTS_MAX`].
    pub fn journal(
        &self,
        tenant: TenantId,
        before: Option<Cursor>,
        limit: usize,
        filter: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventPage> {
        let engine = self.engine();
        // Of one position: else the events of one entry could be seen in part.
        let snapshot = engine.state.snapshot();
        let [triggers, others] = JournalPart::ALL.map(|part| {
            let (start, end) = range_before(tenant, part, before);
            snapshot.range_back(&start, &end)
        });
        page(merged(triggers, others, |one, other| one > other), limit, filter)
    }

    /// As [`Reader::journal`], for the events of triggers. Other events cost nothing.
    pub fn trigger_journal(
        &self,
        tenant: TenantId,
        before: Option<Cursor>,
        limit: usize,
        filter: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventPage> {
        let (start, end) = range_before(tenant, JournalPart::Triggers, before);
        page(self.engine().state.range_back(&start, &end), limit, filter)
    }

    /// At most `limit` events of a tenant after `after` that pass `filter`, earliest first. Reads
    /// at most [`PAGE_EVENTS_MAX`].
    pub fn journal_after(
        &self,
        tenant: TenantId,
        after: Cursor,
        limit: usize,
        filter: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventsAfter> {
        let engine = self.engine();
        // Of one position: else an event could be left out, and the next read starts after it.
        let snapshot = engine.state.snapshot();
        let [triggers, others] = JournalPart::ALL.map(|part| {
            let (_, end) = all_of(Kind::of_events(part), tenant);
            snapshot.range(&Key::event(tenant, part, after.next()).bytes(), &end)
        });
        let rows = merged(triggers, others, |one, other| one < other);
        let (mut events, mut reached, mut more) = (Vec::new(), after, false);
        for (count, row) in rows.enumerate() {
            more = count == PAGE_EVENTS_MAX || events.len() == limit;
            if more {
                break;
            }
            let (cursor, event) = event_row(&row?)?;
            if filter(&event)? {
                events.push((cursor, event));
            }
            reached = cursor;
        }
        // All events of an entry become visible at once: no further one of this entry follows.
        if !more && reached > after {
            reached = Cursor::after(reached.index);
        }
        // Read last, to include a trim during this read.
        let first: Option<Cursor> = engine.state.record(&Key::FirstEvent(tenant))?;
        let gap = first.filter(|first| after.next() < *first);
        Ok(EventsAfter { events, reached, more, gap })
    }

    /// Index of the entry with a tenant's last event.
    pub fn last_event(&self, tenant: TenantId) -> u64 {
        self.index(tenant).map_or(0, |index| index.read().last_event)
    }

    /// The first event of a part that remains after a trim of all events before `oldest_kept`, and
    /// of as many more as [`Excess`] says. `None` if no event is trimmed. Reads at most `limit`
    /// events, and none if the first one is known to remain.
    pub(crate) fn first_kept_event(
        &self,
        tenant: TenantId,
        part: JournalPart,
        oldest_kept: Timestamp,
        excess: Excess,
        limit: u64,
    ) -> Result<Option<Cursor>> {
        let Some(index) = self.index(tenant) else { return Ok(None) };
        let first_at = index.read().journal.part(part).first_at();
        if excess == Excess::default() && first_at >= oldest_kept {
            return Ok(None);
        }
        let (start, end) = all_of(Kind::of_events(part), tenant);
        let engine = self.engine();
        let (mut last, mut trimmed) = (None, Excess::default());
        for row in engine.state.range(&start, &end) {
            let row = row?;
            let (cursor, event) = event_row(&row)?;
            if last.is_none() {
                index.read().journal.part(part).set_first_at(event.at);
            }
            let is_enough = trimmed.events >= excess.events && trimmed.bytes >= excess.bytes;
            if trimmed.events == limit || event.at >= oldest_kept && is_enough {
                return Ok(last.map(|_| cursor));
            }
            trimmed.events += 1;
            trimmed.bytes += row.1.len() as u64;
            last = Some(cursor);
        }
        // All events are trimmed.
        Ok(last.map(Cursor::next))
    }
}

/// The range of a part of the journal before a cursor.
fn range_before(tenant: TenantId, part: JournalPart, before: Option<Cursor>) -> (Vec<u8>, Vec<u8>) {
    let (start, end) = all_of(Kind::of_events(part), tenant);
    (start, before.map_or(end, |before| Key::event(tenant, part, before).bytes()))
}

/// The rows of both parts in one order: `is_first` compares the keys without their kinds.
fn merged(
    triggers: impl Iterator<Item = Result<Row>>,
    others: impl Iterator<Item = Result<Row>>,
    is_first: impl Fn(&[u8], &[u8]) -> bool,
) -> impl Iterator<Item = Result<Row>> {
    let (mut triggers, mut others) = (triggers.peekable(), others.peekable());
    std::iter::from_fn(move || {
        let takes_trigger = match (triggers.peek(), others.peek()) {
            (Some(Ok((one, _))), Some(Ok((other, _)))) => is_first(&one[1..], &other[1..]),
            (one, _) => one.is_some(),
        };
        if takes_trigger { triggers.next() } else { others.next() }
    })
}

/// A page of `rows`, which are in descending order.
fn page(
    rows: impl Iterator<Item = Result<Row>>,
    limit: usize,
    filter: impl Fn(&Event) -> Result<bool>,
) -> Result<EventPage> {
    let (mut events, mut last) = (Vec::new(), None);
    for (count, row) in rows.enumerate() {
        let (cursor, event) = event_row(&row?)?;
        let passes = filter(&event)?;
        if count == PAGE_EVENTS_MAX || (passes && events.len() == limit) {
            return Ok(EventPage { events, next: last });
        }
        if passes {
            events.push((cursor, event));
        }
        last = Some(cursor);
    }
    Ok(EventPage { events, next: None })
}

pub(crate) fn event_row((key, value): &Row) -> Result<(Cursor, Event)> {
    Ok((cursor_of(split(key)?.1)?, codec::decode(value)?))
}

/// Most deliveries that one page reads: as many as a tenant may have.
const PAGE_ROWS_MAX: usize = 20_000;

/// A page of an outbox.
#[derive(Debug, Clone, Default)]
pub struct Deliveries {
    /// The deliveries, ordered by trigger and firing.
    pub deliveries: Vec<(DeliveryId, Delivery)>,
    /// Last delivery of this page, if there are further pages.
    pub next: Option<DeliveryId>,
}

impl Reader {
    /// Whether a delivery may be sent now: the key that owns its trigger exists, and may access the
    /// namespaces that its memory had and has. As for firings, a trigger without an owner is the
    /// service's, which may know all.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn may_deliver(
        &self,
        tenant: TenantId,
        owner: Option<KeyId>,
        delivery: &Delivery,
    ) -> Result<bool> {
        let Some(owner) = owner else { return Ok(true) };
        let Some(access) = self.access(tenant, owner, self.engine().clock())? else {
            return Ok(false);
        };
        let present = self.memory(tenant, delivery.memory)?;
        let is_open = |memory: Memory| access.allows(&memory.namespace);
        Ok(access.allows(&delivery.namespace) && present.is_none_or(is_open))
    }

    /// At most `most` deliveries of a tenant that are due at `now`, in the order of their times.
    pub fn due(&self, tenant: TenantId, now: Timestamp, most: usize) -> Result<Vec<DeliveryId>> {
        let (start, _) = all_of(Kind::Due, tenant);
        let end = [&start[..], &now.0.saturating_add(1).to_be_bytes()].concat();
        let engine = self.engine();
        let rows = engine.state.range(&start, &end).take(most);
        rows.map(|row| row.and_then(|(key, _)| delivery_of(&key))).collect()
    }

    /// At most `most` dead letters of a tenant after `after`, the oldest first.
    pub(crate) fn dead_letters(
        &self,
        tenant: TenantId,
        after: Option<DeadLetterCursor>,
        most: usize,
    ) -> Result<Vec<DeadLetterCursor>> {
        let (start, end) = all_of(Kind::DeadLetter, tenant);
        let start = match after {
            Some((at, id)) => [&Key::DeadLetter(tenant, at, id).bytes()[..], &[0]].concat(),
            None => start,
        };
        let engine = self.engine();
        let rows = engine.state.range(&start, &end).take(most);
        rows.map(|row| row.and_then(|(key, _)| timed_delivery_of(&key))).collect()
    }

    /// At most `limit` deliveries of a tenant after `after` that pass `filter`.
    pub fn deliveries(
        &self,
        tenant: TenantId,
        after: Option<DeliveryId>,
        limit: usize,
        filter: impl Fn(DeliveryId, &Delivery) -> Result<bool>,
    ) -> Result<Deliveries> {
        let (start, end) = all_of(Kind::Delivery, tenant);
        let start = match after {
            Some(id) => [&Key::Delivery(tenant, id).bytes()[..], &[0]].concat(),
            None => start,
        };
        let engine = self.engine();
        let mut page = Deliveries::default();
        for row in engine.state.range(&start, &end).take(PAGE_ROWS_MAX) {
            let (key, value) = row?;
            let (id, delivery) = (delivery_of(&key)?, codec::decode(&value)?);
            if !filter(id, &delivery)? {
                continue;
            }
            if page.deliveries.len() == limit {
                page.next = page.deliveries.last().map(|(id, _)| *id);
                break;
            }
            page.deliveries.push((id, delivery));
        }
        Ok(page)
    }
}

/// Most entries that one page reads. A filter that passes few of them continues on the next page.
const PAGE_READS_MAX: usize = 10_000;

/// Which entries of a chain.
#[derive(Debug, Clone, Default)]
pub struct AuditRequest {
    /// Whether the oldest come first.
    pub is_ascending: bool,
    /// The page begins after this number in that order.
    pub after: Option<u64>,
    /// Most entries.
    pub limit: usize,
    /// Only such acts.
    pub action: Option<AuditAction>,
    /// Only acts of this key.
    pub key: Option<KeyId>,
}

/// A page of a chain.
#[derive(Debug, Clone)]
pub struct AuditPage {
    /// The ends of the chain.
    pub ends: AuditEnds,
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// The next page is after this number; `None` on the last page.
    pub next: Option<u64>,
}

impl AuditRequest {
    fn includes(&self, entry: &AuditEntry) -> bool {
        self.action.is_none_or(|action| entry.act.action == action)
            && self.key.is_none_or(|key| entry.act.actor.key() == Some(key))
    }
}

impl Reader {
    /// A page of a chain. Entries of the ends may be added or removed meanwhile: those within the
    /// returned ends are read.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn audit(
        &self,
        tenant: TenantId,
        chain: AuditChain,
        request: &AuditRequest,
    ) -> Result<AuditPage> {
        loop {
            let ends = self.audit_ends(tenant, chain)?;
            let page = self.audit_within(tenant, chain, request, &ends)?;
            // A trim may have removed entries before they were read.
            if self.audit_ends(tenant, chain)?.first == ends.first {
                return Ok(AuditPage { ends, ..page });
            }
        }
    }

    fn audit_within(
        &self,
        tenant: TenantId,
        chain: AuditChain,
        request: &AuditRequest,
        ends: &AuditEnds,
    ) -> Result<AuditPage> {
        let (first, last) = match (request.is_ascending, request.after) {
            (true, after) => (after.map_or(ends.first, |after| after.saturating_add(1)), ends.last),
            (false, after) => {
                (ends.first, after.map_or(ends.last, |after| after.saturating_sub(1)))
            }
        };
        let (first, end) = (first.max(ends.first), last.min(ends.last) + 1);
        let [start, end] = [first, end.max(first)].map(|at| Key::Audit(tenant, chain, at).bytes());
        let engine = self.engine();
        match request.is_ascending {
            true => audit_page(engine.state.range(&start, &end), request),
            false => audit_page(engine.state.range_back(&start, &end), request),
        }
    }
}

fn audit_page(
    rows: impl Iterator<Item = Result<Row>>,
    request: &AuditRequest,
) -> Result<AuditPage> {
    let (ends, mut entries, mut last) = (AuditEnds::default(), Vec::new(), None);
    for (count, row) in rows.enumerate() {
        let entry: AuditEntry = codec::decode(&row?.1)?;
        let is_included = request.includes(&entry);
        if count == PAGE_READS_MAX || is_included && entries.len() == request.limit {
            return Ok(AuditPage { ends, entries, next: last });
        }
        last = Some(entry.number);
        entries.extend(Some(entry).filter(|_| is_included));
    }
    Ok(AuditPage { ends, entries, next: None })
}
