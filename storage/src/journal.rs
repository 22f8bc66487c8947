//! Reading a tenant's journal: backward in pages, forward as it grows, and where it is to be
//! trimmed. What is appended to it is decided elsewhere.

use crate::change::all_of;
use crate::codec;
use crate::engine::Reader;
use crate::error::Result;
use crate::model::id::{TenantId, Timestamp};
use crate::model::journal::{Cursor, Event};
use crate::table::key::{Key, Kind, cursor_of, split};
use crate::table::state::Row;
use crate::table::view::View;

/// Events that one look at a journal reads. Who may see few of them goes on with the next.
const EVENTS_LOOKED_AT: usize = 10_000;

/// A page of a journal, the latest first.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// What was wanted.
    pub events: Vec<(Cursor, Event)>,
    /// Before what the next page begins, unless this is the last one.
    pub next: Option<Cursor>,
}

/// What a journal has after a cursor, the earliest first.
#[derive(Debug, Clone)]
pub struct EventsAfter {
    /// What was wanted.
    pub events: Vec<(Cursor, Event)>,
    /// How far was looked: where to go on.
    pub reached: Cursor,
    /// Whether there is more than one look goes through.
    pub more: bool,
    /// Where the journal begins now, if events after the cursor may be gone.
    pub gap: Option<Cursor>,
}

impl Reader {
    /// Events of a tenant's journal before `before`, the latest first, `limit` at most, of
    /// those that `wanted` takes. Looks at [`EVENTS_LOOKED_AT`] at most.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn journal(
        &self,
        tenant: TenantId,
        before: Option<Cursor>,
        limit: usize,
        wanted: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventPage> {
        let (start, end) = all_of(Kind::Event, tenant);
        let end = before.map_or(end, |before| Key::Event(tenant, before).bytes());
        let engine = self.engine();
        page(engine.state.range_back(&start, &end).map(|row| event_row(&row?)), limit, wanted)
    }

    /// As [`Reader::journal`], of what triggers did: however much else happened meanwhile.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn trigger_journal(
        &self,
        tenant: TenantId,
        before: Option<Cursor>,
        limit: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<EventPage> {
        let (start, end) = all_of(Kind::TriggerEvent, tenant);
        let end = before.map_or(end, |before| Key::TriggerEvent(tenant, before).bytes());
        let engine = self.engine();
        let event = |row: Result<Row>| {
            let cursor = cursor_of(split(&row?.0)?.1)?;
            let event = engine.state.record::<Event>(&Key::Event(tenant, cursor))?;
            Ok(event.map(|event| (cursor, event)))
        };
        // One that is missing was trimmed since the range was opened, and so were all before it.
        let rows = engine.state.range_back(&start, &end).map(event).map_while(Result::transpose);
        page(rows, limit, |event| Ok(wanted(event)))
    }

    /// Events of a tenant's journal after `after`, the earliest first, `limit` at most, of those
    /// that `wanted` takes. Looks at [`EVENTS_LOOKED_AT`] at most.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn journal_after(
        &self,
        tenant: TenantId,
        after: Cursor,
        limit: usize,
        wanted: impl Fn(&Event) -> Result<bool>,
    ) -> Result<EventsAfter> {
        let (_, end) = all_of(Kind::Event, tenant);
        let engine = self.engine();
        let start = [&Key::Event(tenant, after).bytes()[..], &[0]].concat();
        let (mut events, mut reached, mut more) = (Vec::new(), after, false);
        for (looked_at, row) in engine.state.range(&start, &end).enumerate() {
            more = looked_at == EVENTS_LOOKED_AT || events.len() == limit;
            if more {
                break;
            }
            let (cursor, event) = event_row(&row?)?;
            if wanted(&event)? {
                events.push((cursor, event));
            }
            reached = cursor;
        }
        // The events of an entry show at once: none of this one is to come.
        if !more && reached > after {
            reached = Cursor::after(reached.index);
        }
        // Asked last: what was trimmed while this looked is not missed.
        let first: Option<Cursor> = engine.state.record(&Key::FirstEvent(tenant))?;
        let gap = first.filter(|first| after.next() < *first);
        Ok(EventsAfter { events, reached, more, gap })
    }

    /// Index of the entry with a tenant's last event.
    pub fn last_event(&self, tenant: TenantId) -> u64 {
        self.index(tenant).map_or(0, |index| index.read().last_event())
    }

    /// The first event of a tenant that stays when those before `oldest_kept`, and
    /// the first `too_many`, go; `None` when none goes. Looks at `limit` at most.
    pub(crate) fn first_kept_event(
        &self,
        tenant: TenantId,
        oldest_kept: Timestamp,
        too_many: u64,
        limit: u64,
    ) -> Result<Option<Cursor>> {
        let (start, end) = all_of(Kind::Event, tenant);
        let engine = self.engine();
        let mut last = None;
        for (at, row) in (0_u64..).zip(engine.state.range(&start, &end)) {
            let (cursor, event) = event_row(&row?)?;
            if at == limit || event.at >= oldest_kept && at >= too_many {
                return Ok((at > 0).then_some(cursor));
            }
            last = Some(cursor);
        }
        // All of them go.
        Ok(last.map(Cursor::next))
    }
}

/// A page of `rows`, which go backward.
fn page(
    rows: impl Iterator<Item = Result<(Cursor, Event)>>,
    limit: usize,
    wanted: impl Fn(&Event) -> Result<bool>,
) -> Result<EventPage> {
    let (mut events, mut last) = (Vec::new(), None);
    for (looked_at, row) in rows.enumerate() {
        let (cursor, event) = row?;
        let is_wanted = wanted(&event)?;
        if looked_at == EVENTS_LOOKED_AT || (is_wanted && events.len() == limit) {
            return Ok(EventPage { events, next: last });
        }
        if is_wanted {
            events.push((cursor, event));
        }
        last = Some(cursor);
    }
    Ok(EventPage { events, next: None })
}

fn event_row((key, value): &Row) -> Result<(Cursor, Event)> {
    Ok((cursor_of(split(key)?.1)?, codec::decode(value)?))
}
