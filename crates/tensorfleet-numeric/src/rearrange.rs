//! Moving elements without looking at them: an op says *where* elements go once, as a [`Movement`], and it
//! serves every dtype.
//!
//! Plain elements are moved as words of their width, so that a movement is compiled for a handful of widths
//! instead of two dozen dtypes. Strings, resource handles and variants are moved by proxy: the movement runs over
//! their positions, and the elements follow.

use bytes::Bytes;
use num_complex::Complex;
use smallvec::SmallVec;
use tensorfleet_core::{DType, Element, Result, Shape, Status, Tensor, memory};
use tensorfleet_threads::Loops;

/// A rule that fills an output with elements of its sources.
///
/// Sources and output are row-major. `T::default()` is zero, `false` or the empty string.
pub trait Movement {
    /// Fills `out`, whose content on entry is unspecified with [`rearrange`] and the old value with [`update`].
    /// The threads of `loops` may share the work.
    fn run<T: Element>(&self, loops: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()>;
}

/// A new tensor filled by `movement` from `sources`, which have that dtype too.
pub fn rearrange(
    loops: &Loops,
    dtype: DType,
    shape: Shape,
    sources: &[&Tensor],
    movement: &impl Movement,
) -> Result<Tensor> {
    if dtype.is_plain() {
        let mut out = Tensor::allocate(dtype, shape)?;
        run_plain(loops, sources, &mut out, movement)?;
        return Ok(out);
    }
    let positions = Tensor::zeros(DType::UInt64, shape)?;
    run_by_position(loops, dtype, sources, sources.len(), positions, movement)
}

/// `target`, changed by `movement` with elements of `sources`; in place if nobody else holds it.
pub fn update(
    loops: &Loops,
    mut target: Tensor,
    sources: &[&Tensor],
    movement: &impl Movement,
) -> Result<Tensor> {
    if target.dtype().is_plain() {
        run_plain(loops, sources, &mut target, movement)?;
        return Ok(target);
    }
    let count: usize = sources.iter().map(|source| source.num_elements()).sum();
    let own = (1..).map(|position: u64| position + count as u64).take(target.num_elements());
    let positions = Tensor::from_slice(&memory::collect(own)?, target.shape())?;
    let all: SmallVec<[&Tensor; 4]> = sources.iter().copied().chain([&target]).collect();
    run_by_position(loops, target.dtype(), &all, sources.len(), positions, movement)
}

fn run_plain(loops: &Loops, sources: &[&Tensor], out: &mut Tensor, movement: &impl Movement) -> Result<()> {
    match (out.dtype(), out.dtype().size()) {
        (DType::Bool, _) => run_words::<bool>(loops, sources, out, movement),
        (DType::Complex64, _) => run_words::<Complex<f32>>(loops, sources, out, movement),
        (DType::Complex128, _) => run_words::<Complex<f64>>(loops, sources, out, movement),
        (_, Some(1)) => run_words::<u8>(loops, sources, out, movement),
        (_, Some(2)) => run_words::<u16>(loops, sources, out, movement),
        (_, Some(4)) => run_words::<u32>(loops, sources, out, movement),
        (_, Some(8)) => run_words::<u64>(loops, sources, out, movement),
        (dtype, _) => Err(Status::internal(format!("{dtype} elements have no word of their width"))),
    }
}

fn run_words<W: Element>(
    loops: &Loops,
    sources: &[&Tensor],
    out: &mut Tensor,
    movement: &impl Movement,
) -> Result<()> {
    let sources: SmallVec<[&[W]; 4]> =
        sources.iter().map(|source| source.as_words()).collect::<Result<_>>()?;
    movement.run(loops, &sources, out.make_words_mut()?)
}

/// Moves positions instead of elements. Position 0 is the default element, the others count through the sources,
/// of which the movement gets to see the first `visible`.
fn run_by_position(
    loops: &Loops,
    dtype: DType,
    sources: &[&Tensor],
    visible: usize,
    mut positions: Tensor,
    movement: &impl Movement,
) -> Result<Tensor> {
    let count: usize = sources.iter().map(|source| source.num_elements()).sum();
    let numbers: Vec<u64> = memory::collect(1..=count as u64)?;
    let mut rest = &numbers[..];
    let mut numbered: SmallVec<[&[u64]; 4]> = SmallVec::new();
    for source in sources {
        let (own, others) = rest.split_at(source.num_elements());
        numbered.push(own);
        rest = others;
    }
    movement.run(loops, &numbered[..visible], positions.make_mut::<u64>()?)?;
    let (dims, positions) = (positions.shape().clone(), positions.as_slice::<u64>()?);
    match dtype {
        DType::String => {
            Tensor::from_strings(pick(sources, positions, Tensor::as_strings, Some(Bytes::new()))?, &dims)
        }
        DType::Resource => {
            Tensor::from_resources(pick(sources, positions, Tensor::as_resources, None)?, &dims)
        }
        _ => Tensor::from_variants(pick(sources, positions, Tensor::as_variants, None)?, &dims),
    }
}

fn pick<'a, E: Clone + 'a>(
    sources: &[&'a Tensor],
    positions: &[u64],
    elements: impl Fn(&'a Tensor) -> Result<&'a [E]>,
    default: Option<E>,
) -> Result<Vec<E>> {
    let mut all: Vec<&E> = memory::vec_with_room(sources.iter().map(|source| source.num_elements()).sum())?;
    for source in sources {
        all.extend(elements(source)?);
    }
    let element = |&position: &u64| match position.checked_sub(1) {
        Some(index) => all.get(index as usize).map(|&element| element.clone()),
        None => default.clone(),
    };
    let missing = || Status::invalid_argument("resources and variants have no default value");
    let mut picked = memory::vec_with_room(positions.len())?;
    for position in positions {
        picked.push(element(position).ok_or_else(missing)?);
    }
    Ok(picked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::ResourceHandle;
    use tensorfleet_threads::Threads;

    fn loops() -> &'static Loops {
        Threads::of_process().loops()
    }

    /// Out gets the sources back to front, then zeros.
    struct Backwards;

    impl Movement for Backwards {
        fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
            out.fill(T::default());
            let elements = sources.iter().rev().flat_map(|source| source.iter().rev());
            out.iter_mut().zip(elements).for_each(|(out, &element)| *out = element);
            Ok(())
        }
    }

    struct Nothing;

    impl Movement for Nothing {
        fn run<T: Element>(&self, _: &Loops, _: &[&[T]], _: &mut [T]) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_movement_serves_every_plain_dtype() {
        for &dtype in DType::ALL.iter().filter(|dtype| dtype.is_plain()) {
            let a = Tensor::zeros(dtype, Shape::vector(2)).unwrap();
            let out = rearrange(loops(), dtype, Shape::vector(3), &[&a], &Backwards).unwrap();
            assert_eq!(out, Tensor::zeros(dtype, Shape::vector(3)).unwrap(), "{dtype}");
        }
        let a = Tensor::vector(&[1i16, 2]).unwrap();
        let b = Tensor::vector(&[3i16]).unwrap();
        let out = rearrange(loops(), DType::Int16, Shape::vector(4), &[&a, &b], &Backwards).unwrap();
        assert_eq!(out.as_slice::<i16>().unwrap(), [3, 2, 1, 0]);
    }

    #[test]
    fn strings_follow_their_positions_and_default_to_empty() {
        let a = Tensor::from_strings(vec!["x".into(), "y".into()], &[2]).unwrap();
        let out =
            rearrange(loops(), DType::String, Shape::vector(3), &[&a, &"z".into()], &Backwards).unwrap();
        assert_eq!(out.as_strings().unwrap(), ["z", "y", "x"]);
        let out = rearrange(loops(), DType::String, Shape::vector(3), &[&a], &Backwards).unwrap();
        assert_eq!(out.as_strings().unwrap(), ["y", "x", ""]);
        assert_eq!(update(loops(), a.clone(), &[&"z".into()], &Nothing).unwrap(), a);
        assert_eq!(update(loops(), a, &[&"z".into()], &Backwards).unwrap().as_strings().unwrap(), ["z", ""]);
    }

    #[test]
    fn resources_move_but_are_never_made_up() {
        let handle = ResourceHandle::new("device", "container", "name", "type");
        let a = Tensor::resource(handle.clone());
        let out = rearrange(loops(), DType::Resource, Shape::scalar(), &[&a], &Backwards).unwrap();
        assert_eq!(out.as_resources().unwrap(), [handle]);
        assert!(rearrange(loops(), DType::Resource, Shape::vector(2), &[&a], &Backwards).is_err());
    }
}
