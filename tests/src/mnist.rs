//! The digits in `tests/data`: 4 000 of MNIST, as images of 784 numbers between 0 and 1 and as one-hot labels.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use tensorfleet_core::{Result, Status, Tensor};

use crate::packed::data_directory;

/// Images and labels.
pub struct Digits {
    images: Vec<f32>,
    labels: Vec<u8>,
}

const PIXELS: usize = 28 * 28;

impl Digits {
    /// Reads the files.
    pub fn read() -> Result<Digits> {
        let images = idx("mnist_images.idx.gz", 16)?;
        let labels = idx("mnist_labels.idx.gz", 8)?;
        let images = images.into_iter().map(|pixel| f32::from(pixel) / 255.0).collect();
        Ok(Digits { images, labels })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The digits `start..start + count`, as images and labels.
    pub fn batch(&self, start: usize, count: usize) -> Result<(Tensor, Tensor)> {
        let images = self.images.get(start * PIXELS..(start + count) * PIXELS);
        let labels = self.labels.get(start..start + count);
        let (Some(images), Some(labels)) = (images, labels) else {
            return Err(Status::out_of_range(format!("there are {} digits", self.len())));
        };
        let mut one_hot = vec![0.0f32; count * 10];
        for (row, &label) in labels.iter().enumerate() {
            one_hot[row * 10 + usize::from(label)] = 1.0;
        }
        Ok((Tensor::from_slice(images, &[count, PIXELS])?, Tensor::from_slice(&one_hot, &[count, 10])?))
    }
}

/// The bytes of an idx file after its header.
fn idx(name: &str, header: usize) -> Result<Vec<u8>> {
    let path = data_directory().join(name);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| GzDecoder::new(file).read_to_end(&mut bytes));
    read.map_err(|error| Status::not_found(format!("{}: {error}", path.display())))?;
    Ok(bytes.split_off(header.min(bytes.len())))
}
