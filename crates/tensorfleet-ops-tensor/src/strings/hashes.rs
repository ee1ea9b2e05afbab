//! The hash functions behind hash buckets: FarmHash's fingerprint, TensorFlow's own variant of MurmurHash, and
//! SipHash. Their values are part of trained models, so they must not change.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// Eight bytes at `at`, which lie inside `bytes`.
fn fetch64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn fetch32(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk) as u64)
}

fn shift_mix(value: u64) -> u64 {
    value ^ value >> 47
}

fn mix(u: u64, v: u64, multiplier: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(multiplier));
    shift_mix((v ^ a).wrapping_mul(multiplier)).wrapping_mul(multiplier)
}

/// FarmHash's `Fingerprint64`.
pub(super) fn fingerprint64(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let multiplier = K2.wrapping_add(len as u64 * 2);
    match len {
        0 => K2,
        1..4 => {
            let (a, b, c) = (bytes[0] as u64, bytes[len >> 1] as u64, bytes[len - 1] as u64);
            let (y, z) = (a + (b << 8), len as u64 + (c << 2));
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
        }
        4..8 => mix(len as u64 + (fetch32(bytes, 0) << 3), fetch32(bytes, len - 4), multiplier),
        8..17 => {
            let (a, b) = (fetch64(bytes, 0).wrapping_add(K2), fetch64(bytes, len - 8));
            let c = b.rotate_right(37).wrapping_mul(multiplier).wrapping_add(a);
            let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(multiplier);
            mix(c, d, multiplier)
        }
        17..33 => {
            let (a, b) = (fetch64(bytes, 0).wrapping_mul(K1), fetch64(bytes, 8));
            let (c, d) = ends(bytes, multiplier);
            let (y, z) = folded(a, b, c, d);
            mix(y, z, multiplier)
        }
        33..65 => fingerprint_up_to_64(bytes, multiplier),
        _ => fingerprint_long(bytes),
    }
}

/// The last two words, scaled.
fn ends(bytes: &[u8], multiplier: u64) -> (u64, u64) {
    let len = bytes.len();
    (fetch64(bytes, len - 8).wrapping_mul(multiplier), fetch64(bytes, len - 16).wrapping_mul(K2))
}

fn folded(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let y = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    (y, a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c))
}

fn fingerprint_up_to_64(bytes: &[u8], multiplier: u64) -> u64 {
    let len = bytes.len();
    let (a, b) = (fetch64(bytes, 0).wrapping_mul(K2), fetch64(bytes, 8));
    let (c, d) = ends(bytes, multiplier);
    let (y, z) = folded(a, b, c, d);
    let z = mix(y, z, multiplier);
    let (e, f) = (fetch64(bytes, 16).wrapping_mul(multiplier), fetch64(bytes, 24));
    let g = y.wrapping_add(fetch64(bytes, len - 32)).wrapping_mul(multiplier);
    let h = z.wrapping_add(fetch64(bytes, len - 24)).wrapping_mul(multiplier);
    mix(
        e.wrapping_add(f).rotate_right(43).wrapping_add(g.rotate_right(30)).wrapping_add(h),
        e.wrapping_add(f.wrapping_add(a).rotate_right(18)).wrapping_add(g),
        multiplier,
    )
}

/// The state of the loop over blocks of 64 bytes.
struct Blocks {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

fn fingerprint_long(bytes: &[u8]) -> u64 {
    const SEED: u64 = 81;
    let len = bytes.len();
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let z = shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2);
    let x = SEED.wrapping_mul(K2).wrapping_add(fetch64(bytes, 0));
    let mut state = Blocks { x, y, z, v: (0, 0), w: (0, 0) };
    for block in bytes[..(len - 1) / 64 * 64].chunks_exact(64) {
        state.x = state.x.wrapping_add(state.y).wrapping_add(state.v.0).wrapping_add(fetch64(block, 8));
        state.x = state.x.rotate_right(37).wrapping_mul(K1) ^ state.w.1;
        state.y = state.y.wrapping_add(state.v.1).wrapping_add(fetch64(block, 48));
        state.y = state
            .y
            .rotate_right(42)
            .wrapping_mul(K1)
            .wrapping_add(state.v.0)
            .wrapping_add(fetch64(block, 40));
        state.absorb(block, K1);
    }
    let last = &bytes[len - 64..];
    let multiplier = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add((len as u64 - 1) & 63);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.x = state.x.wrapping_add(state.y).wrapping_add(state.v.0).wrapping_add(fetch64(last, 8));
    state.x = state.x.rotate_right(37).wrapping_mul(multiplier) ^ state.w.1.wrapping_mul(9);
    state.y = state.y.wrapping_add(state.v.1).wrapping_add(fetch64(last, 48)).rotate_right(42);
    state.y = state
        .y
        .wrapping_mul(multiplier)
        .wrapping_add(state.v.0.wrapping_mul(9))
        .wrapping_add(fetch64(last, 40));
    state.absorb(last, multiplier);
    let Blocks { x, y, z, v, w } = state;
    mix(
        mix(v.0, w.0, multiplier).wrapping_add(shift_mix(y).wrapping_mul(K0)).wrapping_add(z),
        mix(v.1, w.1, multiplier).wrapping_add(x),
        multiplier,
    )
}

impl Blocks {
    fn absorb(&mut self, block: &[u8], multiplier: u64) {
        self.z = self.z.wrapping_add(self.w.0).rotate_right(33).wrapping_mul(multiplier);
        self.v = weak(block, self.v.1.wrapping_mul(multiplier), self.x.wrapping_add(self.w.0));
        let seed = self.y.wrapping_add(fetch64(block, 16));
        self.w = weak(&block[32..], self.z.wrapping_add(self.w.1), seed);
        std::mem::swap(&mut self.z, &mut self.x);
    }
}

/// 16 bytes of hash for 32 bytes of input; weak, but quick.
fn weak(bytes: &[u8], a: u64, b: u64) -> (u64, u64) {
    let (w, x, y, z) = (fetch64(bytes, 0), fetch64(bytes, 8), fetch64(bytes, 16), fetch64(bytes, 24));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let sum = a.wrapping_add(x).wrapping_add(y);
    (sum.wrapping_add(z), b.wrapping_add(sum.rotate_right(44)).wrapping_add(a))
}

/// TensorFlow's `Hash64`, a MurmurHash with a seed of its own.
pub(super) fn hash64(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0x00de_cafc_affe;
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let scaled = shift_mix(u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
        hash = (hash ^ scaled).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | byte as u64);
        hash = (hash ^ tail).wrapping_mul(MULTIPLIER);
    }
    shift_mix(shift_mix(hash).wrapping_mul(MULTIPLIER))
}

/// SipHash-2-4 under a key.
pub(super) fn sip_hash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64, rounds: usize, last: bool| {
        if last {
            state[2] ^= 0xff;
        } else {
            state[3] ^= word;
        }
        (0..rounds).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
        state
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(u64::from_le_bytes(*word), 2, false);
    }
    let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | byte as u64);
    absorb((bytes.len() as u64) << 56 | tail, 2, false);
    absorb(0, 4, true).into_iter().fold(0, |hash, word| hash ^ word)
}

fn sip_round(state: &mut [u64; 4]) {
    let [a, b, c, d] = state;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What TensorFlow 2.21 puts into 2^62 buckets: text, plain hash, fingerprint, keyed hash with the key (1, 2).
    #[test]
    fn hashes_are_tensorflows_for_every_range_of_lengths() {
        let cases: [(&[u8], u64, u64, u64); 15] = [
            (b"a", 2996632905371535868, 3694432073954588131, 546566331822570742),
            (b"", 105434511174508091, 1936946117179621455, 443797209252341627),
            (b"hello", 1331861223480393034, 3786372426573024488, 2957200328589801622),
            ("特征".as_bytes(), 3441865499862090516, 3518099370061005812, 3108545368810327750),
            (&[b'x'; 100], 1482511825497849095, 1978794067220662815, 1638981394980189463),
            (b"0123456789abcdef", 1490712428580208486, 1493332391325024359, 2696401170605352036),
            (b"abcdefgh1", 3359780208923240532, 109255646770123031, 2292796649969300813),
            (&[b'q'; 20], 2016004922231728992, 1035173376731351441, 1467684691682167187),
            (&[b'z'; 33], 4527227941403067175, 1983000239170337647, 1384389142664038360),
            (&[b'w'; 64], 417399292188722093, 4555407945498560506, 961158343003684371),
            (&[b'v'; 65], 3467302144011622231, 978096718525207200, 4591866492097387593),
            (&[b'u'; 129], 4476303568601961112, 1186471084750925620, 3733714009906187324),
            (b"12345678", 421129128932463287, 3430003927990384362, 1897040800951890108),
            (b"1234567", 2565110615151570411, 2791685920142820519, 2865367042069752644),
            (b"123", 4567253186167941272, 1389097997109478219, 2113743549092310684),
        ];
        const BUCKETS: u64 = 1 << 62;
        for (text, plain, fast, strong) in cases {
            assert_eq!(hash64(text) % BUCKETS, plain, "hash64 of {} bytes", text.len());
            assert_eq!(fingerprint64(text) % BUCKETS, fast, "fingerprint of {} bytes", text.len());
            assert_eq!(sip_hash([1, 2], text) % BUCKETS, strong, "sip hash of {} bytes", text.len());
        }
    }
}
