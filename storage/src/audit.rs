//! Reads the audit log of a tenant, or of the operator, in pages.

use model::audit::{AuditAction, AuditChain, AuditEnds, AuditEntry};
use model::id::{KeyId, TenantId};

use crate::codec;
use crate::error::Result;
use crate::reader::Reader;
use crate::table::key::Key;
use crate::table::view::{Row, View};

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
            true => page(engine.state.range(&start, &end), request),
            false => page(engine.state.range_back(&start, &end), request),
        }
    }
}

fn page(rows: impl Iterator<Item = Result<Row>>, request: &AuditRequest) -> Result<AuditPage> {
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
