//! Cursors of the journal as texts: those of pages, and the ids of the event stream.

use std::fmt;
use std::str::FromStr;

use storage::model::cluster::{GROUP, GroupId};
use storage::model::journal::Cursor;

/// The `next_cursor` of a page of events: index and ordinal. It needs no group: a page is of one
/// tenant, and a tenant belongs to one Raft group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageCursor(pub(crate) Cursor);

impl FromStr for PageCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (index, ordinal) = text.split_once('.').ok_or(())?;
        Ok(Self(Cursor::new(index.parse().map_err(drop)?, ordinal.parse().map_err(drop)?)))
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.0.index, self.0.ordinal)
    }
}

/// The id of an event of the stream: cluster, Raft group, index, ordinal.
#[derive(Debug, Clone)]
pub(crate) struct EventId {
    pub(crate) cluster: String,
    pub(crate) cursor: Cursor,
}

/// Hexadecimal digits of a cluster's id.
const CLUSTER_DIGITS: usize = 32;

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<_> = text.trim().split('.').collect();
        let [cluster, group, index, ordinal] = parts[..] else { return Err(()) };
        let group = GroupId(group.parse().map_err(drop)?);
        let cursor = Cursor {
            group,
            index: index.parse().map_err(drop)?,
            ordinal: ordinal.parse().map_err(drop)?,
        };
        let is_ours = cluster.len() == CLUSTER_DIGITS && group == GROUP;
        is_ours.then(|| Self { cluster: cluster.to_owned(), cursor }).ok_or(())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { group, index, ordinal } = self.cursor;
        write!(out, "{}.{}.{index}.{ordinal}", self.cluster, group.0)
    }
}
