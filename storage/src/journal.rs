//! Reads the journal of a tenant: backward in pages, forward after a cursor, and for trims.

use crate::change::all_of;
use crate::codec;
use crate::error::Result;
use crate::model::id::{TenantId, Timestamp};
use crate::model::journal::{Cursor, Event};
use crate::reader::Reader;
use crate::table::key::{Key, Kind, cursor_of, split};
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
        let (start, end) = all_of(Kind::Event, tenant);
        let end = before.map_or(end, |before| Key::Event(tenant, before).bytes());
        let engine = self.engine();
        page(engine.state.range_back(&start, &end).map(|row| event_row(&row?)), limit, filter)
    }

    /// As [`Reader::journal`], for the events of triggers. Other events cost nothing.
    pub fn trigger_journal(
        &self,
        tenant: TenantId,
        before: Option<Cursor>,
        limit: usize,
        filter: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventPage> {
        let (start, end) = all_of(Kind::TriggerEvent, tenant);
        let end = before.map_or(end, |before| Key::TriggerEvent(tenant, before).bytes());
        let engine = self.engine();
        let event = |row: Result<Row>| {
            let cursor = cursor_of(split(&row?.0)?.1)?;
            let event = engine.state.record::<Event>(&Key::Event(tenant, cursor))?;
            Ok(event.map(|event| (cursor, event)))
        };
        // A missing event was trimmed after the range was opened, as were all events before it.
        let rows = engine.state.range_back(&start, &end).map(event).map_while(Result::transpose);
        page(rows, limit, filter)
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
        let (_, end) = all_of(Kind::Event, tenant);
        let engine = self.engine();
        let start = [&Key::Event(tenant, after).bytes()[..], &[0]].concat();
        let (mut events, mut reached, mut more) = (Vec::new(), after, false);
        for (count, row) in engine.state.range(&start, &end).enumerate() {
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

    /// The first event that remains after a trim of all events before `oldest_kept` and of the
    /// first `too_many`. `None` if no event is trimmed. Reads at most `limit` events, and none if
    /// the first one is known to remain.
    pub(crate) fn first_kept_event(
        &self,
        tenant: TenantId,
        oldest_kept: Timestamp,
        too_many: u64,
        limit: u64,
    ) -> Result<Option<Cursor>> {
        let Some(index) = self.index(tenant) else { return Ok(None) };
        if too_many == 0 && index.read().first_event_at() >= oldest_kept {
            return Ok(None);
        }
        let (start, end) = all_of(Kind::Event, tenant);
        let engine = self.engine();
        let mut last = None;
        for (at, row) in (0_u64..).zip(engine.state.range(&start, &end)) {
            let (cursor, event) = event_row(&row?)?;
            if at == 0 {
                index.read().set_first_event_at(event.at);
            }
            if at == limit || event.at >= oldest_kept && at >= too_many {
                return Ok((at > 0).then_some(cursor));
            }
            last = Some(cursor);
        }
        // All events are trimmed.
        Ok(last.map(Cursor::next))
    }
}

/// A page of `rows`, which are in descending order.
fn page(
    rows: impl Iterator<Item = Result<(Cursor, Event)>>,
    limit: usize,
    filter: impl Fn(&Event) -> Result<bool>,
) -> Result<EventPage> {
    let (mut events, mut last) = (Vec::new(), None);
    for (count, row) in rows.enumerate() {
        let (cursor, event) = row?;
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
