//! Runtime dispatch to AVX2. Code inside [`dispatch`] is compiled twice, for CPUs with AVX2 and
//! without. Both return the same bits: no fused multiply-add, no reordering.

/// Runs `work`, compiled for AVX2 if the CPU supports it. Functions that `work` calls are
/// compiled for AVX2 only when inlined into it: use `#[inline(always)]`, and loops instead
/// of closures.
#[inline]
pub(crate) fn dispatch<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "calling a function with a target feature requires it")]
        // SAFETY: the check above found AVX2.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
