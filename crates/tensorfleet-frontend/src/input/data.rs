//! Input that is ready when a step needs it.
//!
//! A [`Dataset`] is an iterator of examples and what is to be done with them: repeat, shuffle, map, batch. [`Dataset::prefetch`] lets a
//! thread of its own do all that ahead of time, into a bounded buffer, so that a step takes a finished batch instead of waiting
//! for its making; the thread waits when the buffer is full and ends when the [`Prefetched`] is dropped. The end of the data is the
//! end of the iterator; an error, or a panic of a function that was given, comes once, where the element would have come.
//!
//! ```
//! use tensorfleet::data::Dataset;
//! use tensorfleet::{DType, Graph, Session};
//!
//! let g = Graph::new();
//! let x = g.placeholder(DType::Float, [-1]);
//! let sum = x.reduce_sum(..)?;
//! let session = Session::new(&g);
//!
//! let numbers = Dataset::of(0..100).shuffle(20, 7).map(|n| Ok(n as f32)).batch(10).prefetch(2);
//! let mut total = 0.0;
//! for batch in numbers {
//!     total += session.feed(&x, batch?).run(&sum)?.to_scalar::<f32>()?;
//! }
//! assert_eq!(total, 4950.0);
//! # Ok::<(), tensorfleet::Status>(())
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tensorfleet_core::{Result, Shape, Status, Tensor, ensure};

/// Examples about to be read. See the [module](self).
#[must_use = "nothing is read before it is iterated over"]
pub struct Dataset<T>(Box<dyn Iterator<Item = Result<T>> + Send>);

impl<T: Send + 'static> Dataset<T> {
    /// The items of something.
    pub fn of<I: IntoIterator<Item = T>>(items: I) -> Dataset<T>
    where
        I::IntoIter: Send + 'static,
    {
        Dataset(Box::new(items.into_iter().map(Ok)))
    }

    /// The items of something that may fail, such as a reader of files. It ends with its first error.
    ///
    /// ```
    /// # use tensorfleet::{Status, data::Dataset};
    /// let lines = ["1", "2", "x", "4"];
    /// let numbers = Dataset::of_results(lines.map(|line| {
    ///     line.parse::<i32>().map_err(|_| Status::data_loss(format!("'{line}' is no number")))
    /// }));
    /// let read: Vec<_> = numbers.collect();
    /// assert_eq!(read.len(), 3);
    /// assert_eq!(read[2].as_ref().unwrap_err().message(), "'x' is no number");
    /// ```
    pub fn of_results<I: IntoIterator<Item = Result<T>>>(items: I) -> Dataset<T>
    where
        I::IntoIter: Send + 'static,
    {
        let mut failed = false;
        Dataset(Box::new(items.into_iter().take_while(move |item| {
            let goes_on = !failed;
            failed |= item.is_err();
            goes_on
        })))
    }

    /// What a function makes of each item; an error of it ends the data.
    pub fn map<U: Send + 'static>(self, mut make: impl FnMut(T) -> Result<U> + Send + 'static) -> Dataset<U> {
        Dataset::of_results(self.0.map(move |item| item.and_then(&mut make)))
    }

    /// The items in another order, which follows from the seed: each is drawn from a buffer of so many, which is then filled
    /// up. A buffer as large as the data gives all orders alike.
    ///
    /// ```
    /// # use tensorfleet::data::Dataset;
    /// let read = |seed| Dataset::of(0..50).shuffle(50, seed).map(Ok).collect::<Result<Vec<i32>, _>>();
    /// let (first, again, other) = (read(1)?, read(1)?, read(2)?);
    /// assert!(first == again && first != other);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn shuffle(self, buffer: usize, seed: u64) -> Dataset<T> {
        let mut items = self.0;
        let capacity = buffer.max(1);
        let (mut held, mut state) = (Vec::new(), seed);
        Dataset::of_results(std::iter::from_fn(move || {
            while held.len() < capacity {
                match items.next() {
                    Some(Ok(item)) => held.push(item),
                    Some(Err(status)) => return Some(Err(status)),
                    None => break,
                }
            }
            match held.is_empty() {
                true => None,
                false => Some(Ok(held.swap_remove(below(&mut state, held.len())))),
            }
        }))
    }

    /// Only so many items.
    pub fn take(self, count: usize) -> Dataset<T> {
        Dataset(Box::new(self.0.take(count)))
    }

    /// Without the first so many items: with `take` and the number of workers, a part for each of them.
    pub fn skip(self, count: usize) -> Dataset<T> {
        Dataset(Box::new(self.0.skip(count)))
    }

    /// Every `workers`-th item, beginning with number `index`: the part of one of several workers that share the data.
    pub fn shard(self, workers: usize, index: usize) -> Dataset<T> {
        Dataset(Box::new(self.0.skip(index).step_by(workers.max(1))))
    }

    /// Groups of so many items; the last is smaller if they do not divide evenly.
    pub fn group(self, count: usize) -> Dataset<Vec<T>> {
        let mut items = self.0;
        let count = count.max(1);
        Dataset::of_results(std::iter::from_fn(move || {
            let group: Result<Vec<T>> = items.by_ref().take(count).collect();
            match group {
                Ok(group) if group.is_empty() => None,
                other => Some(other),
            }
        }))
    }

    /// Makes the items ahead of time, in a thread of its own, up to so many of them.
    pub fn prefetch(self, capacity: usize) -> Prefetched<T> {
        let (sender, receiver) = sync_channel(capacity.max(1));
        let thread = std::thread::Builder::new().name("prefetch".to_string());
        let items = self.0;
        #[expect(
            clippy::disallowed_methods,
            reason = "what it returns owns the thread, and joins it when it is dropped"
        )]
        let started = thread.spawn(move || produce(items, &sender));
        match started {
            Ok(thread) => Prefetched { receiver: Some(receiver), thread: Some(thread), failure: None },
            Err(error) => {
                let failure = Status::resource_exhausted(format!("no thread to prefetch with: {error}"));
                Prefetched { receiver: None, thread: None, failure: Some(failure) }
            }
        }
    }
}

impl<T: Clone + Send + 'static> Dataset<T> {
    /// The items of a list so many times over, or for ever.
    ///
    /// ```
    /// # use tensorfleet::data::Dataset;
    /// let twice: Vec<i32> = Dataset::repeated(vec![1, 2, 3], Some(2)).collect::<Result<_, _>>()?;
    /// assert_eq!(twice, [1, 2, 3, 1, 2, 3]);
    /// assert_eq!(Dataset::repeated(vec![1, 2, 3], None).take(100).count(), 100);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn repeated(items: Vec<T>, epochs: Option<usize>) -> Dataset<T> {
        let epochs = match items.is_empty() {
            // Nothing, for ever, would never end.
            true => 0,
            false => epochs.unwrap_or(usize::MAX),
        };
        let indices = (0..epochs).flat_map({
            let count = items.len();
            move |_| 0..count
        });
        Dataset::of(indices.filter_map(move |index| items.get(index).cloned()))
    }
}

/// What several examples become one tensor of; see [`Dataset::batch`].
pub trait Stack: Send + Sized + 'static {
    /// The batch of several.
    type Batch: Send + 'static;

    /// Puts them together along a new first dimension.
    fn stack(examples: Vec<Self>) -> Result<Self::Batch>;
}

macro_rules! stack_numbers {
    ($($number:ty),*) => {
        $(impl Stack for $number {
            type Batch = Tensor;

            fn stack(examples: Vec<$number>) -> Result<Tensor> {
                Tensor::vector(&examples)
            }
        })*
    };
}
stack_numbers!(f32, f64, i32, i64, u8, bool);

impl Stack for Tensor {
    type Batch = Tensor;

    fn stack(examples: Vec<Tensor>) -> Result<Tensor> {
        let Some(first) = examples.first() else {
            return Err(Status::invalid_argument("a batch of no examples has no shape"));
        };
        let (dtype, shape) = (first.dtype(), first.shape().clone());
        let dims: Vec<usize> = std::iter::once(examples.len()).chain(shape.iter().copied()).collect();
        let mut batch = Tensor::allocate(dtype, Shape::new(&dims)?)?;
        let bytes = batch.make_bytes_mut()?;
        let size = first.as_bytes()?.len();
        for (index, example) in examples.iter().enumerate() {
            ensure!(
                example.dtype() == dtype && *example.shape() == shape,
                InvalidArgument,
                "examples of a batch must be alike: the first is {dtype} of shape {shape}, number {index} is {} of shape {}",
                example.dtype(),
                example.shape()
            );
            if size > 0 {
                bytes[index * size..][..size].copy_from_slice(example.as_bytes()?);
            }
        }
        Ok(batch)
    }
}

impl<A: Stack, B: Stack> Stack for (A, B) {
    type Batch = (A::Batch, B::Batch);

    fn stack(examples: Vec<(A, B)>) -> Result<Self::Batch> {
        let (a, b) = examples.into_iter().unzip();
        Ok((A::stack(a)?, B::stack(b)?))
    }
}

impl<A: Stack, B: Stack, C: Stack> Stack for (A, B, C) {
    type Batch = (A::Batch, B::Batch, C::Batch);

    fn stack(examples: Vec<(A, B, C)>) -> Result<Self::Batch> {
        let (ab, c): (Vec<(A, B)>, Vec<C>) = examples.into_iter().map(|(a, b, c)| ((a, b), c)).unzip();
        let (a, b) = <(A, B)>::stack(ab)?;
        Ok((a, b, C::stack(c)?))
    }
}

impl<T: Stack> Dataset<T> {
    /// Batches of so many examples: numbers become vectors, tensors gain a first dimension, tuples become tuples of those. The
    /// last batch is smaller if they do not divide evenly.
    ///
    /// ```
    /// # use tensorfleet::data::Dataset;
    /// let examples = (0..5).map(|i| (i as f32, i64::from(i % 2)));
    /// let batches: Vec<_> = Dataset::of(examples).batch(3).collect::<Result<_, _>>()?;
    /// assert_eq!(batches[0].0.as_slice::<f32>()?, [0.0, 1.0, 2.0]);
    /// assert_eq!(batches[1].1.as_slice::<i64>()?, [1, 0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn batch(self, size: usize) -> Dataset<T::Batch> {
        self.group(size).map(T::stack)
    }
}

impl<T> Iterator for Dataset<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.0.next()
    }
}

/// Items that a thread makes ahead of time; see [`Dataset::prefetch`].
pub struct Prefetched<T> {
    receiver: Option<Receiver<Result<T>>>,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    failure: Option<Status>,
}

impl<T> Iterator for Prefetched<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        self.receiver.as_ref()?.recv().ok()
    }
}

impl<T> Drop for Prefetched<T> {
    fn drop(&mut self) {
        // A thread that waits for room in the buffer sees that nobody takes anything any more.
        drop(self.receiver.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends items until there are no more or nobody wants them. A panic becomes an error.
fn produce<T>(mut items: Box<dyn Iterator<Item = Result<T>> + Send>, sender: &SyncSender<Result<T>>) {
    loop {
        // What the panic left behind is not used again.
        let item = match catch_unwind(AssertUnwindSafe(|| items.next())) {
            Ok(Some(item)) => item,
            Ok(None) => return,
            Err(panic) => {
                let _ =
                    sender.send(Err(Status::internal(format!("reading data panicked: {}", said(&*panic)))));
                return;
            }
        };
        if sender.send(item).is_err() {
            return;
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// A random number below `limit`; SplitMix64 (Steele, Lea and Flood, 2014).
fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn shuffling_loses_nothing_and_stays_within_its_buffer() {
        let read: Vec<usize> = Dataset::of(0..1000).shuffle(10, 3).map(Ok).collect::<Result<_>>().unwrap();
        // An item leaves at the earliest when it is in the buffer.
        assert!(read.iter().enumerate().all(|(at, &item)| item < at + 10));
        let mut sorted = read.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_ne!(read, sorted);
    }

    #[test]
    fn a_panic_and_an_error_come_once_and_end_the_data() {
        let mut panics = Dataset::of(0..5).map(|i| if i == 2 { panic!("no {i}") } else { Ok(i) }).prefetch(1);
        assert_eq!((panics.next().unwrap().unwrap(), panics.next().unwrap().unwrap()), (0, 1));
        assert_eq!(panics.next().unwrap().unwrap_err().message(), "reading data panicked: no 2");
        assert!(panics.next().is_none());
        let fails = Dataset::of(0..5).map(|i| if i == 2 { Err(Status::data_loss("two")) } else { Ok(i) });
        let read: Vec<_> = fails.shuffle(1, 0).group(1).prefetch(4).collect();
        assert_eq!(read.len(), 3);
        assert!(read[2].is_err());
    }

    #[test]
    fn the_thread_makes_no_more_than_the_buffer_holds_and_ends_when_nobody_takes() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = made.clone();
        let items = Dataset::of(0u64..).map(move |i| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(i)
        });
        let mut ahead = items.prefetch(3);
        assert_eq!(ahead.next().unwrap().unwrap(), 0);
        drop(ahead);
        // One taken, three in the buffer, one in the hand, and one more for which room was made while dropping.
        assert!(made.load(Ordering::Relaxed) <= 6, "{made:?}");
    }

    #[test]
    fn examples_that_differ_are_no_batch() {
        let examples = vec![Tensor::vector(&[1.0f32]).unwrap(), Tensor::vector(&[1.0f32, 2.0]).unwrap()];
        let error = Dataset::of(examples).batch(2).next().unwrap().unwrap_err();
        assert!(error.message().contains("[1]") && error.message().contains("[2]"), "{error}");
        assert_eq!(Dataset::repeated(Vec::<i32>::new(), None).count(), 0);
        let shard: Vec<i32> = Dataset::of(0..7).shard(3, 1).collect::<Result<_>>().unwrap();
        assert_eq!(shard, [1, 4]);
    }
}
