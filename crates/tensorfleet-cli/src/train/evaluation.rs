//! How well the trained network reads digits that it has not learnt from.

use serde::{Deserialize, Serialize};
use tensorfleet::{Result, Session, Status};
use tensorfleet_datasets::{DataSet, DataSets};

use super::digits_model::{CLASSES, DigitsModel};

/// Digits per run: a request of a few megabytes.
const BATCH: usize = 1000;

/// The network's answers on the test digits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Evaluation {
    /// `confusion[truth][guess]`: how often a digit was taken for which.
    pub(super) confusion: [[u32; CLASSES]; CLASSES],
    /// The cross entropy per digit of the validation set.
    pub(super) validation_cross_entropy: f64,
}

impl Evaluation {
    /// Judges the network of `session`.
    pub(super) fn make(session: &Session, model: &DigitsModel, data: &DataSets) -> Result<Evaluation> {
        let validation_cross_entropy = Validation::make(session, model, data)?.cross_entropy;
        let mut evaluation = Evaluation { validation_cross_entropy, ..Evaluation::default() };
        in_batches(&data.test, |images, labels, _| {
            let guesses = session.feed(&model.images, images).run(&model.guess)?;
            for (label, &guess) in labels.as_slice::<f32>()?.chunks(CLASSES).zip(guesses.as_slice::<i64>()?) {
                let truth = label.iter().position(|&value| value == 1.0);
                let cell = truth
                    .and_then(|truth| evaluation.confusion.get_mut(truth))
                    .and_then(|row| row.get_mut(usize::try_from(guess).ok()?));
                *cell.ok_or_else(|| Status::internal(format!("there is no digit {guess}")))? += 1;
            }
            Ok(())
        })?;
        Ok(evaluation)
    }

    pub(super) fn num_digits(&self) -> u32 {
        self.confusion.iter().flatten().sum()
    }

    pub(super) fn num_right(&self) -> u32 {
        self.confusion.iter().enumerate().filter_map(|(digit, row)| row.get(digit)).sum()
    }

    /// The part of the test digits that was recognised.
    pub(super) fn accuracy(&self) -> f64 {
        f64::from(self.num_right()) / f64::from(self.num_digits().max(1))
    }

    /// The most frequent mistakes: truth, guess and how often, at most `limit` of them.
    pub(super) fn worst_pairs(&self, limit: usize) -> Vec<(usize, usize, u32)> {
        let cells = self.confusion.iter().enumerate().flat_map(|(truth, row)| {
            row.iter().enumerate().map(move |(guess, &count)| (truth, guess, count))
        });
        let mut pairs: Vec<_> = cells.filter(|&(truth, guess, count)| truth != guess && count > 0).collect();
        pairs.sort_by_key(|&(truth, guess, count)| (std::cmp::Reverse(count), truth, guess));
        pairs.truncate(limit);
        pairs
    }
}

/// How the network does on the digits that are kept for looking at it while it learns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validation {
    /// Per digit.
    pub(super) cross_entropy: f64,
    /// The part that is recognised.
    pub(super) accuracy: f64,
}

impl Validation {
    pub(super) fn make(session: &Session, model: &DigitsModel, data: &DataSets) -> Result<Validation> {
        let (mut cross_entropy, mut right, mut count) = (0.0, 0.0, 0.0);
        in_batches(&data.validation, |images, labels, size| {
            let step = session.feed(&model.images, images).feed(&model.labels, labels);
            let (loss, accuracy) = step.run((&model.loss, &model.accuracy))?;
            cross_entropy += f64::from(loss.to_scalar::<f32>()?) * size as f64;
            right += f64::from(accuracy.to_scalar::<f32>()?) * size as f64;
            count += size as f64;
            Ok(())
        })?;
        let count = count.max(1.0);
        Ok(Validation { cross_entropy: cross_entropy / count, accuracy: right / count })
    }
}

/// Visits every digit once.
fn in_batches(
    data: &DataSet,
    mut visit: impl FnMut(tensorfleet::Tensor, &tensorfleet::Tensor, usize) -> Result<()>,
) -> Result<()> {
    // A clone has its own order, and one epoch of it has every digit once.
    let (mut batches, mut left) = (data.clone(), data.len());
    while left > 0 {
        let size = left.min(BATCH);
        let (images, labels) = batches.next_batch(size)?;
        visit(images, &labels, size)?;
        left -= size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_accuracy_and_the_worst_mistakes() {
        let mut evaluation = Evaluation::default();
        for digit in 0..CLASSES {
            evaluation.confusion[digit][digit] = 9;
        }
        evaluation.confusion[4][9] = 7;
        evaluation.confusion[2][7] = 3;
        assert_eq!((evaluation.num_digits(), evaluation.num_right()), (100, 90));
        assert_eq!(evaluation.accuracy(), 0.9);
        assert_eq!(evaluation.worst_pairs(3), [(4, 9, 7), (2, 7, 3)]);
        assert_eq!(evaluation.worst_pairs(1), [(4, 9, 7)]);
    }
}
