//! The one place where code is compiled twice: for any CPU, and for those with wider
//! registers. The results are the same bits; nothing here fuses or reorders.

/// Runs `work` with AVX2 where the CPU has it. What `work` calls must be inlined into
/// it (`#[inline(always)]`, loops rather than closures) to be compiled for it too.
#[inline]
pub(crate) fn dispatch<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "the one way to use what only some CPUs have")]
        // SAFETY: the CPU has AVX2, as was just asked.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
