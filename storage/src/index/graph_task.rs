//! Tasks of the graph builder: insert points, check them, or drop a graph. A task holds all
//! that it needs, so it runs without the lock of the tenant.
//! [`crate::index::coverage`] creates tasks and records their results.

use std::sync::Arc;

use crate::index::graph::Graph;
use crate::index::slot::Slot;
use crate::model::sq8::Code;

/// A piece of work on one graph.
pub(crate) struct GraphTask {
    graph: Arc<Graph>,
    kind: TaskKind,
    /// Whether to search for the rows after inserting them.
    checks_rows: bool,
    rows: Vec<(Slot, Code)>,
    /// Slots that the check did not find.
    unreachable: Vec<Slot>,
}

/// The kind of a [`GraphTask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    Insert,
    Check,
    /// Drops the graph.
    Retire,
}

impl GraphTask {
    pub(super) fn new(
        graph: Arc<Graph>,
        kind: TaskKind,
        checks_rows: bool,
        rows: Vec<(Slot, Code)>,
    ) -> Self {
        Self { graph, kind, checks_rows, rows, unreachable: Vec::new() }
    }

    /// Runs the task. Takes no lock of a tenant.
    pub(crate) fn run(&mut self) {
        if self.kind == TaskKind::Insert {
            self.rows.iter().for_each(|(slot, code)| self.graph.insert(*slot, code));
        }
        // Inserted rows are checked too: a point may be unreachable from the start.
        if self.checks_rows {
            let unreachable =
                self.rows.iter().filter(|(slot, code)| !self.graph.finds(*slot, code));
            self.unreachable = unreachable.map(|(slot, _)| *slot).collect();
        }
    }

    pub(super) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    pub(super) fn kind(&self) -> TaskKind {
        self.kind
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn last_slot(&self) -> Option<Slot> {
        self.rows.last().map(|(slot, _)| *slot)
    }

    /// Slots that the check did not find.
    pub(super) fn unreachable(&self) -> &[Slot] {
        &self.unreachable
    }

    /// The graph to drop, if the task retires one.
    pub(crate) fn into_retired(self) -> Option<Arc<Graph>> {
        (self.kind == TaskKind::Retire).then_some(self.graph)
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.rows.iter().map(|(slot, _)| *slot)
    }

    #[cfg(test)]
    pub(super) fn set_unreachable(&mut self, slots: Vec<Slot>) {
        self.unreachable = slots;
    }
}
