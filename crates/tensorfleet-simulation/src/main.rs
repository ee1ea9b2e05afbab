//! `simulate --seed N`: one simulated cluster with the faults that the seed draws. `cargo xtask simulate` runs many.

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;

use tensorfleet_simulation::{machine, simulate};

/// The C library's way to ask what time it is: here it is the simulation's time, whichever clock is asked.
///
/// # Safety
/// As for the C library's function: `time` is valid for a write. (The standard library's own declaration says so; there is
/// no other caller.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(_clock: c_int, time: *mut TimeSpec) -> c_int {
    let now = machine::clock_ns();
    let now = TimeSpec { seconds: (now / 1_000_000_000) as i64, nanoseconds: (now % 1_000_000_000) as i64 };
    // SAFETY: the caller says that it can be written to.
    unsafe { time.write(now) };
    0
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
pub struct TimeSpec {
    seconds: i64,
    nanoseconds: i64,
}

/// The C library's way to draw randomness: here it comes from the seed. The standard library asks for it by a weak symbol
/// so that programs may do this; the keys of its hash maps, and with them all that is drawn from those, are then the same in
/// every run.
///
/// # Safety
/// As for the C library's function: `buffer` is valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, len: usize, _flags: c_uint) -> isize {
    let mut written = 0;
    while written < len {
        let bytes = machine::random_u64().to_ne_bytes();
        let count = bytes.len().min(len - written);
        // SAFETY: the caller says that `len` bytes can be written, and `written + count` is not more.
        unsafe { buffer.cast::<u8>().add(written).copy_from_nonoverlapping(bytes.as_ptr(), count) };
        written += count;
    }
    isize::try_from(len).unwrap_or(isize::MAX)
}

/// "Resource temporarily unavailable" of Linux.
const EAGAIN: c_int = 11;

/// The C library's way to start a thread: here there is none to be had, because when it gets on is decided by nobody here. Who
/// cannot do without one panics, which is reported.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_create(
    _thread: *mut c_void,
    _attributes: *const c_void,
    _start: *const c_void,
    _argument: *mut c_void,
) -> c_int {
    EAGAIN
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seed, is_verbose) = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--seed", seed] => (seed.parse(), false),
        ["--seed", seed, "--verbose"] => (seed.parse(), true),
        _ => {
            eprintln!("usage: simulate --seed N [--verbose]");
            return ExitCode::from(2);
        }
    };
    let Ok(seed) = seed else {
        eprintln!("simulate: a seed is a number");
        return ExitCode::from(2);
    };
    let report = simulate(seed, is_verbose);
    print!("{report}");
    if report.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
