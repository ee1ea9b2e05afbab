//! [`DataSet`]: images with their classes, given out in batches.
//!
//! Pixels stay the bytes they are in the file: 47 MB for MNIST's 60 000 training images instead of 188 MB of `f32` in each
//! worker. A batch is gathered and converted in one pass into a fresh tensor, which reads a quarter of the memory that a
//! gather of `f32` would.

use bytes::Bytes;
use tensorfleet_core::{DType, Result, Shape, Status, Tensor, ensure};

use crate::shuffle::Shuffle;

/// Pixels of an image: 28 rows of 28.
pub(crate) const PIXELS: usize = 28 * 28;

/// Classes, e.g. the digits 0 to 9.
pub(crate) const CLASSES: usize = 10;

/// Images to train with, to watch the training with, and to judge it by.
#[derive(Clone, Debug)]
pub struct DataSets {
    /// What the model learns from.
    pub train: DataSet,
    /// Taken from the training images, but not learnt from: to compare models while they are made.
    pub validation: DataSet,
    /// Images from other hands, for the final judgement.
    pub test: DataSet,
}

/// Images of 28 × 28 pixels, each of one of ten classes.
///
/// [`DataSet::next_batch`] visits them in random order, all of them once in each epoch. A clone shares the images and has its
/// own place in the order.
///
/// ```
/// let digits = tensorfleet_datasets::mnist::embedded()?;
/// let test = &digits.test;
/// assert_eq!(test.images()?.shape().dims(), [test.len(), 784]);
/// assert_eq!(test.labels()?.shape().dims(), [test.len(), 10]);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct DataSet {
    /// `PIXELS` bytes per image.
    pixels: Bytes,
    /// One byte below `CLASSES` per image.
    classes: Bytes,
    /// The order of the current epoch. Empty before the first batch: what is only read whole needs none.
    order: Vec<u32>,
    /// How many of `order` were given out.
    used: usize,
    shuffle: Shuffle,
    epochs_completed: u64,
}

impl DataSet {
    /// A data set of as many images as there are classes; every class is checked to be below [`CLASSES`].
    pub(crate) fn new(pixels: Bytes, classes: Bytes) -> Result<DataSet> {
        let fits = classes.len().checked_mul(PIXELS) == Some(pixels.len());
        ensure!(fits, Internal, "{} pixels are not {} images", pixels.len(), classes.len());
        ensure!(
            u32::try_from(classes.len()).is_ok(),
            ResourceExhausted,
            "{} images are too many",
            classes.len()
        );
        let known = classes.iter().all(|&class| usize::from(class) < CLASSES);
        ensure!(known, Internal, "a class is not below {CLASSES}");
        Ok(DataSet {
            pixels,
            classes,
            order: Vec::new(),
            used: 0,
            shuffle: Shuffle::new(0),
            epochs_completed: 0,
        })
    }

    /// The first `count` images, and the others. They share memory.
    pub(crate) fn split_at(self, count: usize) -> (DataSet, DataSet) {
        let count = count.min(self.len());
        let part = |pixels, classes| DataSet { pixels, classes, ..self.clone() };
        let first = part(self.pixels.slice(..count * PIXELS), self.classes.slice(..count));
        let others = part(self.pixels.slice(count * PIXELS..), self.classes.slice(count..));
        (first, others)
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// All images in the order of their file: `f32` of shape `[len, 784]`, from 0 (paper) to 1 (ink). Converts them anew on
    /// each call.
    pub fn images(&self) -> Result<Tensor> {
        Tensor::build(Shape::new(&[self.len(), PIXELS])?, |rows| {
            convert(&self.pixels, rows);
            Ok(())
        })
    }

    /// All classes in the order of their file, one-hot: `f32` of shape `[len, 10]` with a single 1 in each row.
    pub fn labels(&self) -> Result<Tensor> {
        let mut labels = Tensor::zeros(DType::Float, Shape::new(&[self.len(), CLASSES])?)?;
        for (row, &class) in labels.make_mut::<f32>()?.chunks_exact_mut(CLASSES).zip(&self.classes) {
            mark(row, class);
        }
        Ok(labels)
    }

    /// All classes in the order of their file, as numbers from 0 to 9.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// How often [`DataSet::next_batch`] went through all images.
    pub fn epochs_completed(&self) -> u64 {
        self.epochs_completed
    }

    /// Begins anew with the orders that belong to `seed`; without this, they are those of seed 0. Workers of one training
    /// use different seeds, or else all see the same images at the same time.
    pub fn shuffle_with(&mut self, seed: u64) {
        self.shuffle = Shuffle::new(seed);
        self.order = Vec::new();
        self.used = 0;
        self.epochs_completed = 0;
    }

    /// The next `size` images and labels, as [`DataSet::images`] and [`DataSet::labels`] have them.
    ///
    /// The images are shuffled before the first batch and after each epoch. A batch that reaches the end of an epoch takes
    /// what is left of it and goes on with the next, like TensorFlow 1.15's `DataSet.next_batch`; but where that gives fewer
    /// images than asked for because there are no more, this one goes on.
    ///
    /// ```
    /// let mut train = tensorfleet_datasets::mnist::embedded()?.train;
    /// let half = train.len() / 2 + 1;
    /// train.next_batch(half)?;
    /// let (images, _) = train.next_batch(half)?;
    /// assert_eq!(images.shape().dims()[0], half);
    /// assert_eq!(train.epochs_completed(), 1);
    /// # Ok::<(), tensorfleet_core::Status>(())
    /// ```
    pub fn next_batch(&mut self, size: usize) -> Result<(Tensor, Tensor)> {
        ensure!(size > 0, InvalidArgument, "a batch of 0 images teaches nothing: ask for at least 1");
        ensure!(!self.is_empty(), FailedPrecondition, "the data set is empty, so it has no batches");
        let mut images = Tensor::allocate(DType::Float, Shape::new(&[size, PIXELS])?)?;
        let mut labels = Tensor::zeros(DType::Float, Shape::new(&[size, CLASSES])?)?;
        let image_rows = images.make_mut::<f32>()?.chunks_exact_mut(PIXELS);
        let label_rows = labels.make_mut::<f32>()?.chunks_exact_mut(CLASSES);
        for (image_row, label_row) in image_rows.zip(label_rows) {
            let example = self.next_example();
            let pixels = self.pixels.get(example * PIXELS..(example + 1) * PIXELS);
            let (Some(pixels), Some(&class)) = (pixels, self.classes.get(example)) else {
                return Err(Status::internal(format!("there is no image {example} of {}", self.len())));
            };
            convert(pixels, image_row);
            mark(label_row, class);
        }
        Ok((images, labels))
    }

    /// The index of the next image of this epoch, or of the first of the next epoch.
    fn next_example(&mut self) -> usize {
        if self.order.is_empty() {
            // Cannot truncate: `new` counted the images.
            self.order = (0..self.len() as u32).collect();
            self.shuffle.apply(&mut self.order);
        }
        if self.used == self.order.len() {
            self.epochs_completed += 1;
            self.used = 0;
            self.shuffle.apply(&mut self.order);
        }
        let example = self.order.get(self.used).copied().unwrap_or_default();
        self.used += 1;
        example as usize
    }
}

/// Multiplied by the nearest `f32` of 1/255, as TensorFlow's `input_data` does; 255 becomes exactly 1.
fn convert(pixels: &[u8], row: &mut [f32]) {
    #[inline(always)]
    fn by_any_processor(pixels: &[u8], row: &mut [f32]) {
        for (value, &pixel) in row.iter_mut().zip(pixels) {
            *value = f32::from(pixel) * (1.0 / 255.0);
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        // A batch is made between two steps, while nothing else goes on; AVX2 widens bytes in one instruction instead of three.
        #[target_feature(enable = "avx2")]
        fn by_avx2(pixels: &[u8], row: &mut [f32]) {
            by_any_processor(pixels, row);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: `by_avx2` is unsafe only because the processor must have AVX2, which was just found; its body is safe
            // code.
            return unsafe { by_avx2(pixels, row) };
        }
    }
    by_any_processor(pixels, row);
}

/// Makes a row of zeros one-hot.
fn mark(row: &mut [f32], class: u8) {
    if let Some(value) = row.get_mut(usize::from(class)) {
        *value = 1.0;
    }
}

#[cfg(test)]
#[path = "data_set_tests.rs"]
mod tests;
