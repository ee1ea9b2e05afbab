//! What threads have freed goes back to the system, wherever in their heaps it lies. Alone in its process, whose settings it
//! changes and whose memory it looks at.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Barrier;

use tensorfleet_core::memory;

const THREADS: usize = 3;
const BLOCK: usize = 8 << 20;
const BLOCKS: usize = 5;

/// Bytes of this process in memory, without those of files.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

/// 64 MB of each heap but the first stayed, for which `malloc_trim` does nothing.
#[test]
fn the_free_ends_of_all_heaps_are_given_back() {
    memory::keep_heaps();
    let before = resident();
    let (freed, looked_at) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                memory::mark_heap_of_thread();
                let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| black_box(vec![1; BLOCK])).collect();
                drop(black_box(blocks));
                freed.wait();
                looked_at.wait();
            });
        }
        freed.wait();
        let kept = resident() - before;
        assert!(kept > THREADS * BLOCKS * BLOCK / 2, "freed memory is kept: {kept}");
        for _ in 0..2 {
            memory::trim_heaps();
            let left = resident().saturating_sub(before);
            assert!(left < 2 << 20, "{left} of {kept} bytes are left");
        }
        looked_at.wait();
    });
}
