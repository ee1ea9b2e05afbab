//! Batches: which images, in which order, with which numbers.

use super::*;

/// `count` images; the pixels of image `i` are all `i`, its class is `i % 10`.
fn numbered(count: u8) -> DataSet {
    let pixels = (0..count).flat_map(|image| [image; PIXELS]).collect::<Vec<u8>>();
    let classes = (0..count).map(|image| image % 10).collect::<Vec<u8>>();
    DataSet::new(pixels.into(), classes.into()).unwrap()
}

/// The numbers of a batch's images, after a check that all pixels and the label belong to it.
fn numbers((images, labels): (Tensor, Tensor)) -> Vec<u8> {
    let images = images.as_slice::<f32>().unwrap().chunks(PIXELS);
    let labels = labels.as_slice::<f32>().unwrap().chunks(CLASSES);
    images
        .zip(labels)
        .map(|(image, label)| {
            assert!(image.iter().all(|&pixel| pixel == image[0]));
            let number = (image[0] * 255.0).round() as u8;
            let expected: Vec<f32> = (0..10).map(|class| f32::from(class == number % 10)).collect();
            assert_eq!(label, expected);
            number
        })
        .collect()
}

fn sorted(mut numbers: Vec<u8>) -> Vec<u8> {
    numbers.sort_unstable();
    numbers
}

#[test]
fn pixels_are_numbers_from_0_to_1() {
    let pixels: Vec<u8> = (0..PIXELS).map(|pixel| pixel as u8).collect();
    let set = DataSet::new(pixels.into(), vec![9].into()).unwrap();
    let images = set.images().unwrap();
    let images = images.as_slice::<f32>().unwrap();
    assert_eq!((images[0], images[255], images[256]), (0.0, 1.0, 0.0));
    for (pixel, &value) in images[..256].iter().enumerate() {
        assert!((value - pixel as f32 / 255.0).abs() < 1e-7, "{pixel} became {value}");
    }
    let labels = set.labels().unwrap();
    assert_eq!(labels.as_slice::<f32>().unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn an_epoch_has_each_image_once_in_random_order() {
    let mut set = numbered(30);
    let first = (0..3).flat_map(|_| numbers(set.next_batch(10).unwrap())).collect::<Vec<u8>>();
    let second = (0..3).flat_map(|_| numbers(set.next_batch(10).unwrap())).collect::<Vec<u8>>();
    let all: Vec<u8> = (0..30).collect();
    assert_ne!(first, all);
    assert_ne!(first, second);
    assert_eq!((sorted(first), sorted(second)), (all.clone(), all));
    // As in TensorFlow, an epoch that ended exactly counts when the next begins.
    assert_eq!(set.epochs_completed(), 1);
}

#[test]
fn a_batch_takes_the_rest_of_an_epoch_and_goes_on_with_the_next() {
    let mut set = numbered(25);
    let batches: Vec<_> = (0..5).map(|_| numbers(set.next_batch(10).unwrap())).collect();
    let visited: Vec<u8> = batches.concat();
    let all: Vec<u8> = (0..25).collect();
    assert_eq!(sorted(visited[..25].to_vec()), all);
    assert_eq!(sorted(visited[25..].to_vec()), all);
    assert_eq!(set.epochs_completed(), 1);
}

#[test]
fn a_batch_may_be_larger_than_the_set() {
    let mut set = numbered(4);
    let visited = numbers(set.next_batch(10).unwrap());
    assert_eq!(visited.len(), 10);
    assert_eq!(sorted(visited[..4].to_vec()), [0, 1, 2, 3]);
    assert_eq!(sorted(visited[4..8].to_vec()), [0, 1, 2, 3]);
    assert_eq!(set.epochs_completed(), 2);
}

#[test]
fn a_seed_decides_the_batches() {
    let visited = |seed| {
        let mut set = numbered(40);
        set.next_batch(7).unwrap();
        set.shuffle_with(seed);
        (0..9).flat_map(|_| numbers(set.next_batch(10).unwrap())).collect::<Vec<u8>>()
    };
    assert_eq!(visited(1), visited(1));
    assert_ne!(visited(1), visited(2));
    // Seed 0 is that of a set that was given none.
    let mut fresh = numbered(40);
    assert_eq!(visited(0)[..10], numbers(fresh.next_batch(10).unwrap()));
}

#[test]
fn batches_leave_the_whole_as_it_is() {
    let mut set = numbered(20);
    set.next_batch(15).unwrap();
    let whole = (set.images().unwrap(), set.labels().unwrap());
    assert!(numbers(whole).into_iter().eq(0..20));
    assert!(set.classes().iter().copied().eq((0..20).map(|image| image % 10)));
}

#[test]
fn the_two_parts_of_a_split_have_each_image_once() {
    let (first, others) = numbered(12).split_at(5);
    assert!(numbers((first.images().unwrap(), first.labels().unwrap())).into_iter().eq(0..5));
    assert!(numbers((others.images().unwrap(), others.labels().unwrap())).into_iter().eq(5..12));
    let (all, none) = numbered(3).split_at(9);
    assert_eq!((all.len(), none.len(), none.is_empty()), (3, 0, true));
    assert_eq!(none.images().unwrap().shape().dims(), [0, PIXELS]);
}

#[test]
fn batches_that_cannot_be_are_refused() {
    assert!(numbered(3).next_batch(0).unwrap_err().text().contains("at least 1"));
    assert!(numbered(0).next_batch(1).unwrap_err().text().contains("empty"));
    // More than any memory: refused before it is allocated.
    assert!(numbered(3).next_batch(usize::MAX / 8).is_err());
    assert!(numbered(3).next_batch(1 << 50).is_err());
}
