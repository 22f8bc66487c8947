//! The memory guard: rejects work when the process has reached its memory limit.

use std::sync::atomic::{AtomicU64, Ordering};

use storage::Class;

use crate::error::{ApiError, ApiResult};

/// Resident memory of the process and its limit, in bytes; zero if unknown.
#[derive(Default)]
pub(crate) struct MemoryGuard {
    resident: AtomicU64,
    limit: AtomicU64,
    rejected: AtomicU64,
}

/// The memory use of the process, and the rejections for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident memory of the process, in bytes.
    pub resident: u64,
    /// The limit, in bytes.
    pub limit: u64,
    /// Requests that were rejected since the start of the process.
    pub rejected: u64,
}

impl MemoryGuard {
    pub(crate) fn set(&self, resident: u64, limit: u64) {
        self.resident.store(resident, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        let [resident, limit, rejected] = [&self.resident, &self.limit, &self.rejected]
            .map(|value| value.load(Ordering::Relaxed));
        MemoryUse { resident, limit, rejected }
    }

    /// Above the limit, only deletions are accepted: they give memory back.
    pub(crate) fn check_write(&self, class: Class) -> ApiResult<()> {
        if class.only_removes() { Ok(()) } else { self.check(self.usage().limit) }
    }

    /// Reads add nothing that lasts. They are rejected a tenth above the limit.
    pub(crate) fn check_read(&self) -> ApiResult<()> {
        let limit = self.usage().limit;
        self.check(limit + limit / 10)
    }

    fn check(&self, limit: u64) -> ApiResult<()> {
        if limit == 0 || self.usage().resident <= limit {
            return Ok(());
        }
        self.rejected.fetch_add(1, Ordering::Relaxed);
        Err(ApiError::unavailable("memory_full", "this node has reached its memory limit"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_memory_accepts_deletions_and_reads_first() {
        let guard = MemoryGuard::default();
        let accepted = |resident| {
            guard.set(resident, 100);
            [
                guard.check_write(Class::AddsData),
                guard.check_read(),
                guard.check_write(Class::OnlyRemoves),
            ]
            .map(|result| result.is_ok())
        };
        assert!(guard.check_read().is_ok(), "no limit is known yet");
        assert_eq!(accepted(100), [true, true, true]);
        assert_eq!(accepted(101), [false, true, true]);
        assert_eq!(accepted(111), [false, false, true]);
        assert_eq!(guard.usage(), MemoryUse { resident: 111, limit: 100, rejected: 3 });
    }
}
