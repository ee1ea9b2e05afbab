"""Candidate samplers, and the losses that look at a sample of the classes only."""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops, random_seed
from tensorfleet.framework.export import export
from tensorfleet.ops.embedding import embedding_lookup
from tensorfleet.ops.partitioned_variable import PartitionedVariable


def _seeds(seed):
    seed, seed2 = random_seed.get_seed(seed)
    return {"seed": seed or 0, "seed2": seed2 or 0}


@export("nn.uniform_candidate_sampler", "random.uniform_candidate_sampler")
def uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """Classes drawn evenly."""
    return gen.UniformCandidateSampler(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max, name=name, **_seeds(seed))


@export("nn.log_uniform_candidate_sampler", "random.log_uniform_candidate_sampler")
def log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """Classes drawn by Zipf's law: number 0 is the most frequent."""
    return gen.LogUniformCandidateSampler(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max, name=name, **_seeds(seed))


@export("nn.learned_unigram_candidate_sampler", "random.learned_unigram_candidate_sampler")
def learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None, name=None):
    """Classes drawn as often as they were seen so far."""
    return gen.LearnedUnigramCandidateSampler(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, range_max=range_max, name=name, **_seeds(seed))


@export("nn.fixed_unigram_candidate_sampler", "random.fixed_unigram_candidate_sampler")
def fixed_unigram_candidate_sampler(
    true_classes, num_true, num_sampled, unique, range_max, vocab_file="", distortion=1.0, num_reserved_ids=0, num_shards=1, shard=0, unigrams=(), seed=None, name=None
):
    """Classes drawn by given frequencies."""
    return gen.FixedUnigramCandidateSampler(
        true_classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=unigrams,
        name=name,
        **_seeds(seed),
    )


@export("nn.all_candidate_sampler", "random.all_candidate_sampler")
def all_candidate_sampler(true_classes, num_true, num_sampled, unique, seed=None, name=None):
    """All classes; for tests."""
    return gen.AllCandidateSampler(true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, name=name, **_seeds(seed))


@export("nn.compute_accidental_hits")
def compute_accidental_hits(true_classes, sampled_candidates, num_true, seed=None, name=None):
    """Where sampled classes are true classes: rows, positions in the sample, and very negative weights."""
    return gen.ComputeAccidentalHits(true_classes, sampled_candidates, num_true=num_true, name=name, **_seeds(seed))


def _sum_rows(x):
    """Sums of rows as a product: it is faster than a reduction."""
    columns = tf.shape(x)[1]
    ones = tf.ones(tf.stack([columns, 1]), x.dtype)
    return tf.reshape(gen.MatMul(x, ones), [-1])


def _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, subtract_log_q, remove_accidental_hits, partition_strategy, name, seed=None):
    """The logits and labels of the true and the sampled classes."""
    if isinstance(weights, PartitionedVariable):
        weights = list(weights)
    if not isinstance(weights, list):
        weights = [weights]
    with ops.name_scope(name, "compute_sampled_logits", weights + [biases, inputs, labels]):
        if labels.dtype != dtypes.int64:
            labels = tf.cast(labels, dtypes.int64)
        flat_labels = tf.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(true_classes=labels, num_true=num_true, num_sampled=num_sampled, unique=True, range_max=num_classes, seed=seed)
        sampled, true_expected_count, sampled_expected_count = (tf.stop_gradient(value) for value in sampled_values)
        sampled = tf.cast(sampled, dtypes.int64)
        all_ids = tf.concat([flat_labels, sampled], 0)
        all_w = embedding_lookup(weights, all_ids, partition_strategy=partition_strategy)
        if all_w.dtype != inputs.dtype:
            all_w = tf.cast(all_w, inputs.dtype)
        true_w = tf.slice(all_w, [0, 0], tf.stack([tf.shape(flat_labels)[0], -1]))
        sampled_w = tf.slice(all_w, tf.stack([tf.shape(flat_labels)[0], 0]), [-1, -1])
        sampled_logits = tf.matmul(inputs, sampled_w, transpose_b=True)
        all_b = embedding_lookup(biases, all_ids, partition_strategy=partition_strategy)
        if all_b.dtype != inputs.dtype:
            all_b = tf.cast(all_b, inputs.dtype)
        true_b = tf.slice(all_b, [0], tf.shape(flat_labels))
        sampled_b = tf.slice(all_b, tf.shape(flat_labels), [-1])
        dim = tf.shape(true_w)[1:2]
        new_true_w_shape = tf.concat([[-1, num_true], dim], 0)
        row_wise_dots = gen.Mul(tf.expand_dims(inputs, 1), tf.reshape(true_w, new_true_w_shape))
        dots_as_matrix = tf.reshape(row_wise_dots, tf.concat([[-1], dim], 0))
        true_logits = tf.reshape(_sum_rows(dots_as_matrix), [-1, num_true])
        true_b = tf.reshape(true_b, [-1, num_true])
        true_logits += true_b
        sampled_logits += sampled_b
        if remove_accidental_hits:
            hits = compute_accidental_hits(labels, sampled, num_true=num_true)
            indices, ids, hit_weights = hits
            indices_2d = tf.reshape(indices, [-1, 1])
            ids_2d = tf.reshape(tf.cast(ids, dtypes.int32), [-1, 1])
            sparse_indices = tf.concat([indices_2d, ids_2d], 1, "sparse_indices")
            shape = tf.concat([tf.shape(labels)[:1], tf.expand_dims(num_sampled, 0)], 0)
            if sampled_logits.dtype != hit_weights.dtype:
                hit_weights = tf.cast(hit_weights, sampled_logits.dtype)
            sampled_logits += tf.sparse_to_dense(sparse_indices, shape, hit_weights, default_value=0.0, validate_indices=False)
        if subtract_log_q:
            true_logits -= gen.Log(true_expected_count)
            sampled_logits -= gen.Log(sampled_expected_count)
        out_logits = tf.concat([true_logits, sampled_logits], 1)
        # A true class has its share of one; sampled ones have zero.
        out_labels = tf.concat([tf.ones_like(true_logits) / num_true, tf.zeros_like(sampled_logits)], 1)
        return out_logits, out_labels


@export("nn.nce_loss")
def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None, remove_accidental_hits=False, partition_strategy="mod", name="nce_loss"):
    """The noise-contrastive loss of each example."""
    from tensorfleet.ops.nn_loss import sigmoid_cross_entropy_with_logits

    logits, labels = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, remove_accidental_hits, partition_strategy, name
    )
    losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="sampled_losses")
    return _sum_rows(losses)


@export("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights, biases, labels, inputs, num_sampled, num_classes, num_true=1, sampled_values=None, remove_accidental_hits=True, partition_strategy="mod", name="sampled_softmax_loss", seed=None
):
    """The softmax cross entropy over the true and some sampled classes."""
    from tensorfleet.ops.nn_loss import softmax_cross_entropy_with_logits_v2

    logits, labels = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, remove_accidental_hits, partition_strategy, name, seed
    )
    labels = tf.stop_gradient(labels, name="labels_stop_gradient")
    return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
