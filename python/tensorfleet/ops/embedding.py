"""Embeddings: rows of one table, or of one that is divided over several variables."""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.ops.partitioned_variable import PartitionedVariable


def _is_resource(variable):
    return getattr(variable, "handle", None) is not None and not isinstance(variable, ops.Tensor)


def _gather(params, ids, name=None):
    """Rows of one table, read where the table is."""
    if _is_resource(params):
        return params.sparse_read(ids, name=name)
    return tf.gather(params, ids, name=name)


def _clip(rows, ids, max_norm):
    """Rows that are longer than `max_norm` cut to that length."""
    if max_norm is None:
        return rows

    def rank(tensor):
        known = tensor.shape.ndims
        return (known, True) if known is not None else (tf.rank(tensor), False)

    ids_rank, ids_static = rank(ids)
    rows_rank, rows_static = rank(rows)
    axes = list(range(ids_rank, rows_rank)) if ids_static and rows_static else tf.range(ids_rank, rows_rank)
    return tf.clip_by_norm(rows, max_norm, axes=axes)


@export("nn.embedding_lookup")
def embedding_lookup(params, ids, partition_strategy="mod", name=None, validate_indices=True, max_norm=None):
    """The rows `ids` of a table, or of its parts (`"mod"`: row `i` is in part `i % n`; `"div"`: parts hold ranges)."""
    return _lookup(params, ids, partition_strategy, name, max_norm)


def _lookup(params, ids, partition_strategy="mod", name=None, max_norm=None, transform_fn=None):
    if params is None:
        raise ValueError("params must be specified")
    if isinstance(params, (list, tuple)) and not params:
        raise ValueError("Need at least one param")
    if isinstance(params, PartitionedVariable):
        params = list(params)
    if not isinstance(params, list):
        params = [params]
    with ops.name_scope(name, "embedding_lookup", params + [ids]) as name:
        parts = len(params)
        if not any(_is_resource(param) for param in params):
            params = ops.convert_n_to_tensor(params, name="params")
        ids = ops.convert_to_tensor(ids, name="ids")
        if parts == 1 and (not transform_fn or ids.shape.ndims == 1):
            with ops.colocate_with(params[0]):
                result = _clip(_gather(params[0], ids, name=name), ids, max_norm)
                if transform_fn:
                    result = transform_fn(result)
            # The name must be of a tensor outside the colocation: gradients read rows there.
            return gen.Identity(result)
        return _from_parts(params, ids, partition_strategy, name, max_norm, transform_fn)


def _assignments(params, flat_ids, partition_strategy):
    parts = len(params)
    if partition_strategy == "mod":
        return flat_ids % parts, flat_ids // parts
    if partition_strategy != "div":
        raise ValueError("Unrecognized partition strategy: " + partition_strategy)
    first = tf.Dimension(params[0].shape.as_list()[0])
    for param in params[1:]:
        first += tf.Dimension(param.shape.as_list()[0])
    if first.value is not None:
        total = tf.constant(first.value, flat_ids.dtype)
    else:
        sizes = []
        for param in params:
            size = param.shape.as_list()[0]
            if size is not None:
                sizes.append(size)
            else:
                with ops.colocate_with(param):
                    sizes.append(tf.shape(param)[0])
        total = tf.reduce_sum(tf.cast(tf.stack(sizes), flat_ids.dtype))
    per_part = total // parts
    extras = total % parts
    assignments = gen.Maximum(flat_ids // (per_part + 1), (flat_ids - extras) // per_part)
    new_ids = tf.where(assignments < extras, flat_ids % (per_part + 1), (flat_ids - extras) % per_part)
    return assignments, new_ids


def _from_parts(params, ids, partition_strategy, name, max_norm, transform_fn):
    parts = len(params)
    flat_ids = tf.reshape(ids, [-1])
    positions = tf.range(tf.size(flat_ids))
    assignments, new_ids = _assignments(params, flat_ids, partition_strategy)
    assignments = tf.cast(assignments, dtypes.int32)
    gather_ids = gen.DynamicPartition(new_ids, assignments, num_partitions=parts)
    position_lists = gen.DynamicPartition(positions, assignments, num_partitions=parts)
    rows = []
    for part in range(parts):
        part_ids = gather_ids[part]
        with ops.colocate_with(params[part]):
            result = _gather(params[part], part_ids)
            if transform_fn:
                result = transform_fn(_clip(result, part_ids, max_norm))
        rows.append(result)
    stitched = gen.ParallelDynamicStitch(position_lists, rows, name=name)
    if transform_fn is None:
        element = params[0].shape[1:]
        for param in params[1:]:
            element = element.merge_with(param.shape[1:])
    else:
        element = stitched.shape[1:]
    if element.is_fully_defined():
        stitched = tf.reshape(stitched, tf.concat([tf.shape(ids), element], 0))
    else:
        with ops.colocate_with(params[0]):
            row_shape = tf.shape(params[0])
        stitched = tf.reshape(stitched, tf.concat([tf.shape(ids), tf.slice(row_shape, [1], [-1])], 0))
    stitched.set_shape(ids.shape.concatenate(element))
    return stitched if transform_fn else _clip(stitched, ids, max_norm)


def embedding_lookup_and_transform(params, ids, partition_strategy="mod", name=None, max_norm=None, transform_fn=None):
    return _lookup(params, ids, partition_strategy, name, max_norm, transform_fn)


@export("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(params, sp_ids, sp_weights, partition_strategy="mod", name=None, combiner=None, max_norm=None):
    """For each row of `sp_ids` the sum, the mean or the sum over the root of squares of its embeddings."""
    if combiner is None:
        combiner = "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    if isinstance(params, PartitionedVariable):
        params = list(params)
    if not isinstance(params, list):
        params = [params]
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    ignore_weights = sp_weights is None
    if not ignore_weights:
        if not isinstance(sp_weights, SparseTensor):
            raise TypeError("sp_weights must be either None or SparseTensor")
        sp_ids.values.shape.assert_is_compatible_with(sp_weights.values.shape)
        sp_ids.indices.shape.assert_is_compatible_with(sp_weights.indices.shape)
        sp_ids.dense_shape.shape.assert_is_compatible_with(sp_weights.dense_shape.shape)
    with ops.name_scope(name, "embedding_lookup_sparse", params + [sp_ids]) as name:
        segment_ids = sp_ids.indices[:, 0]
        if segment_ids.dtype != dtypes.int32:
            segment_ids = tf.cast(segment_ids, dtypes.int32)
        ids, positions = gen.Unique(sp_ids.values)
        embeddings = embedding_lookup(params, ids, partition_strategy=partition_strategy, max_norm=max_norm)
        if ignore_weights:
            op = {"sum": gen.SparseSegmentSum, "mean": gen.SparseSegmentMean, "sqrtn": gen.SparseSegmentSqrtN}[combiner]
            return op(embeddings, positions, segment_ids, name=name)
        return _weighted(embeddings, positions, segment_ids, sp_weights.values, combiner, name)


def _weighted(embeddings, positions, segment_ids, weights, combiner, name):
    if weights.dtype != embeddings.dtype:
        weights = tf.cast(weights, embeddings.dtype)
    embeddings = tf.gather(embeddings, positions)
    ones = tf.fill(tf.expand_dims(tf.rank(embeddings) - 1, 0), 1)
    weights_shape = weights.shape
    weights = tf.reshape(weights, tf.concat([tf.shape(weights), ones], 0))
    if embeddings.shape.ndims is not None:
        weights.set_shape(weights_shape.concatenate([1] * (embeddings.shape.ndims - 1)))
    embeddings *= weights
    if combiner == "sum":
        return tf.segment_sum(embeddings, segment_ids, name=name)
    embeddings = tf.segment_sum(embeddings, segment_ids)
    if combiner == "mean":
        return gen.RealDiv(embeddings, tf.segment_sum(weights, segment_ids), name=name)
    squares = tf.segment_sum(gen.Pow(weights, 2), segment_ids)
    return gen.RealDiv(embeddings, gen.Sqrt(squares), name=name)


@export("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None, combiner="mean", default_id=None, name=None, partition_strategy="div", max_norm=None):
    """`embedding_lookup_sparse` that leaves out invalid ids and gives rows without ids the embedding `default_id`, or zeros."""
    if embedding_weights is None:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    if isinstance(embedding_weights, PartitionedVariable):
        embedding_weights = list(embedding_weights)
    if not isinstance(embedding_weights, list):
        embedding_weights = [embedding_weights]
    if not embedding_weights:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    dtype = sparse_weights.dtype if sparse_weights is not None else None
    embedding_weights = [weights if _is_resource(weights) and dtype in (None, weights.dtype) else ops.convert_to_tensor(weights, dtype=dtype) for weights in embedding_weights]
    with ops.name_scope(name, "embedding_lookup", embedding_weights + [sparse_ids, sparse_weights]) as scope:
        original_shape = sparse_ids.dense_shape
        rank_dimension = tf.Dimension(sparse_ids.dense_shape.shape.as_list()[0])
        rank = tf.size(original_shape) if rank_dimension.value is None else rank_dimension.value
        sparse_ids = tf.sparse_reshape(sparse_ids, [tf.reduce_prod(tf.slice(original_shape, [0], [rank - 1])), tf.gather(original_shape, rank - 1)])
        if sparse_weights is not None:
            sparse_weights = SparseTensor(sparse_ids.indices, sparse_weights.values, sparse_ids.dense_shape)
        sparse_ids, sparse_weights = _pruned_ids(sparse_ids, sparse_weights)
        if combiner != "sum":
            sparse_ids, sparse_weights = _pruned_weights(sparse_ids, sparse_weights)
        sparse_ids, is_row_empty = tf.sparse_fill_empty_rows(sparse_ids, default_id or 0)
        if sparse_weights is not None:
            sparse_weights, _ = tf.sparse_fill_empty_rows(sparse_weights, 1.0)
        result = embedding_lookup_sparse(
            embedding_weights,
            sparse_ids,
            sparse_weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            name=None if default_id is None else scope,
            max_norm=max_norm,
        )
        if default_id is None:
            is_row_empty = tf.tile(tf.reshape(is_row_empty, [-1, 1]), tf.stack([1, tf.shape(result)[1]]))
            result = tf.where(is_row_empty, tf.zeros_like(result), result, name=scope)
        final = tf.reshape(
            result,
            tf.concat([tf.slice(tf.cast(original_shape, dtypes.int32), [0], [rank - 1]), tf.slice(tf.shape(result), [1], [-1])], 0),
        )
        final.set_shape(tf.TensorShape([None] * (rank_dimension.value - 1) if rank_dimension.value is not None else None).concatenate(result.shape[1:]))
        return final


def _pruned_ids(sparse_ids, sparse_weights):
    valid = sparse_ids.values >= 0
    if sparse_weights is not None:
        valid = gen.LogicalAnd(valid, tf.ones_like(sparse_weights.values, dtype=dtypes.bool))
    sparse_ids = tf.sparse_retain(sparse_ids, valid)
    if sparse_weights is not None:
        sparse_weights = tf.sparse_retain(sparse_weights, valid)
    return sparse_ids, sparse_weights


def _pruned_weights(sparse_ids, sparse_weights):
    if sparse_weights is not None:
        valid = sparse_weights.values > 0
        sparse_ids = tf.sparse_retain(sparse_ids, valid)
        sparse_weights = tf.sparse_retain(sparse_weights, valid)
    return sparse_ids, sparse_weights
