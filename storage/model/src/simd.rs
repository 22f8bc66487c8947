//! Runtime dispatch to AVX2. Code inside [`dispatch`] is compiled twice, for CPUs with AVX2 and
//! without. Both return the same bits: no fused multiply-add, no reordering. CPUs with AVX2 have F16C too, which
//! converts 16-bit floats.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Bytes that the CPU loads at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Runs `work`, compiled for AVX2 if the CPU supports it. Functions that `work` calls are
/// compiled for AVX2 only when inlined into it: use `#[inline(always)]`, and loops instead
/// of closures.
#[inline]
pub fn dispatch<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
        #[expect(unsafe_code, reason = "calling a function with a target feature requires it")]
        // SAFETY: the checks above found both features.
        return unsafe { with_avx2(work) };
    }
    work()
}

/// Asks the CPU to load bytes that are read soon, so that several loads from RAM overlap.
#[inline(always)]
pub fn prefetch(bytes: &[i8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(CACHE_LINE) {
        #[expect(unsafe_code, reason = "the compiler has no safe function for it")]
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing that the program can see.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr());
        }
    }
    // Elsewhere the loads wait for each other.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
