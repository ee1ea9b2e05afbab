//! [`FlushDenormals`]: denormal numbers count as zero while kernels run.
//!
//! TensorFlow computes that way, so its results can only be had that way. And it matters for speed: an operation that
//! meets a denormal number takes a hundred times as long as any other. They are not rare: a moving average of a gradient
//! that has become zero (a pixel that is always black, a unit that died) shrinks step by step until it is denormal and
//! then stays so, because rounding keeps it from vanishing. Adam spent three quarters of a parameter server's time on
//! such numbers after a few hundred steps of training on digits.
//!
//! The processor keeps the mode per thread. Every thread that computes holds one of these while it does; a thread that is
//! started meanwhile begins in the mode of the one that starts it.

use std::marker::PhantomData;

/// While it lives, the processor takes denormal numbers of this thread for zeros, and makes none.
pub struct FlushDenormals {
    /// What to go back to; `None` if the mode was on already.
    previous: Option<control::Word>,
    /// The mode belongs to the thread.
    _not_send: PhantomData<*const ()>,
}

impl FlushDenormals {
    /// Turns the mode on until the guard is dropped.
    pub fn begin() -> FlushDenormals {
        let previous = control::read();
        let flushing = previous | control::FLUSH;
        let changes = flushing != previous;
        if changes {
            control::write(flushing);
        }
        FlushDenormals { previous: changes.then_some(previous), _not_send: PhantomData }
    }
}

impl Drop for FlushDenormals {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            control::write(previous);
        }
    }
}

/// The register that has the mode.
///
/// **By the letter this is undefined behaviour.** Rust assumes that the floating-point environment is never changed: the
/// standard library says of `_mm_setcsr`, which writes the same register, that to change such bits is immediate undefined
/// behaviour, even if they are changed back, unless all arithmetic meanwhile is inline assembly too. Kernels are not. We
/// do it knowingly: TensorFlow's results can be had in no other way, and Rust offers none that is defined.
///
/// What compilers make of the assumption today is to compute an operation on constants while they compile, or to move an
/// operation across the change, so that a denormal number survives where it would have become zero, or the other way
/// round. That is harmless here: nothing but values of tensors depends on it. What a later compiler concludes nobody can
/// promise; so the change is confined to these few lines and to the life of a guard around kernels, the test below fails
/// if it has no effect, and every run of the tests compares the recorded results of TensorFlow.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u32;

    /// Denormal results become zero (bit 15), denormal operands count as zero (bit 6).
    pub(super) const FLUSH: Word = 1 << 15 | 1 << 6;

    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: the instruction stores the register's four bytes into `word`, which is as long, aligned and ours alone,
        // and touches nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: `word` was read from the register, with nothing but the two bits above added, so it is valid for the
        // processor, exceptions stay masked, and the instruction reads only its four bytes. It breaks Rust's assumption
        // about the floating-point environment, with the consequences that the comment on `control` accepts.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) type Word = u64;

    /// Denormal operands and results become zero.
    pub(super) const FLUSH: Word = 1 << 24;

    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: every program may read this register; the instruction touches no memory.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: `word` was read from the register, with nothing but the bit above added, so it is valid for the
        // processor and traps stay masked; the instruction touches no memory. It breaks Rust's assumption about the
        // floating-point environment, with the consequences that the comment on `control` for x86-64 accepts.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nomem, nostack, preserves_flags)) };
    }
}

/// Elsewhere the mode stays as it is, and only the kernels that ask for it see zeros.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) type Word = u32;
    pub(super) const FLUSH: Word = 0;
    pub(super) fn read() -> Word {
        0
    }
    pub(super) fn write(_: Word) {}
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// A denormal number, unless it is flushed.
    fn half_of_the_smallest() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn denormal_numbers_are_zero_as_long_as_the_guard_lives() {
        let denormal = half_of_the_smallest();
        assert!(denormal > 0.0);
        {
            let _outer = FlushDenormals::begin();
            {
                let _inner = FlushDenormals::begin();
                assert_eq!(half_of_the_smallest(), 0.0);
                assert_eq!(black_box(denormal) * black_box(2.0), 0.0);
            }
            assert_eq!(half_of_the_smallest(), 0.0, "an inner guard does not end the outer one");
        }
        assert_eq!(half_of_the_smallest(), denormal);
    }

    #[test]
    fn threads_that_are_there_already_are_not_concerned() {
        let (ask, asked) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            asked.recv().unwrap();
            half_of_the_smallest().to_bits()
        });
        let _here = FlushDenormals::begin();
        ask.send(()).unwrap();
        assert_ne!(other.join().unwrap(), 0);
    }
}
