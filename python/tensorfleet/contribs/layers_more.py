"""`tf.contrib.layers`: what is neither dense, convolution nor normalization."""


import tensorfleet as tf
from tensorfleet.contribs import layers
from tensorfleet.contribs.arg_scope import add_arg_scope
from tensorfleet.contribs.framework import model_variable
from tensorfleet.contribs.layers import collect, exported, renaming_getter, variable_collections
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export_values
from tensorfleet.modeling.initializers import Zeros
from tensorfleet.modeling.layers import core
from tensorfleet.ops import variable_scope as scopes

relu, relu6, linear, elu = layers.relu, layers.relu6, layers.linear, layers.elu
export_values(__name__, {f"contrib.{place}.{name}": name for place in ("layers", "slim") for name in ("relu", "relu6", "linear", "elu")})


@exported("bias_add")
@add_arg_scope
def bias_add(
    inputs, activation_fn=None, initializer=Zeros(), regularizer=None, reuse=None, variables_collections=None, outputs_collections=None, trainable=True, data_format="NHWC", scope=None
):
    """Adds a bias to each channel."""
    with scopes.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        channels = inputs.shape.as_list()[1 if data_format == "NCHW" else -1]
        biases = model_variable(
            "biases",
            shape=[channels],
            dtype=inputs.dtype.base_dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=variable_collections(variables_collections, "biases"),
            trainable=trainable,
        )
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)


@exported("dropout")
@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True, outputs_collections=None, scope=None, seed=None):
    """Dropout while training."""
    with scopes.variable_scope(scope, "Dropout", [inputs], custom_getter=renaming_getter()) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = core.Dropout(rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=sc.name, _scope=sc)
        return collect(outputs_collections, sc.name, layer.apply(inputs, training=is_training))


@exported("flatten")
@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    """All dimensions but the first as one."""
    with ops.name_scope(scope, "Flatten", [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        return collect(outputs_collections, sc, core.flatten(inputs))


@exported("one_hot_encoding")
@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0, outputs_collections=None, scope=None):
    """Numbers of classes as vectors with one 1."""
    with ops.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = ops.convert_to_tensor(labels)
        if labels.dtype == dtypes.int32:
            labels = tf.to_int64(labels)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect(outputs_collections, sc, outputs)


@exported("softmax")
@add_arg_scope
def softmax(logits, scope=None):
    """The softmax over the last dimension."""
    with scopes.variable_scope(scope, "softmax", [logits]):
        classes = logits.shape.as_list()[-1]
        flat = tf.reshape(logits, [-1, classes])
        predictions = tf.reshape(tf.nn.softmax(flat), tf.shape(logits))
        predictions.set_shape(logits.shape)
        return predictions


@exported("repeat")
@add_arg_scope
def repeat(inputs, repetitions, layer, *args, **kwargs):
    """A layer applied several times, in scopes `SCOPE/SCOPE_1`, `SCOPE/SCOPE_2`, …."""
    scope = kwargs.pop("scope", None)
    with scopes.variable_scope(scope, "Repeat", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        if scope is None:
            if hasattr(layer, "__name__"):
                scope = layer.__name__
            elif hasattr(layer, "func") and hasattr(layer.func, "__name__"):
                scope = layer.func.__name__
            else:
                scope = "repeat"
        outputs = inputs
        for index in range(repetitions):
            kwargs["scope"] = f"{scope}_{index + 1}"
            outputs = layer(outputs, *args, **kwargs)
        return outputs


@exported("stack")
@add_arg_scope
def stack(inputs, layer, stack_args, **kwargs):
    """A layer applied once for each set of arguments."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with scopes.variable_scope(scope, "Stack", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        if scope is None:
            scope = layer.__name__ if hasattr(layer, "__name__") else getattr(getattr(layer, "func", None), "__name__", "stack")
        outputs = inputs
        for index, arguments in enumerate(stack_args):
            kwargs["scope"] = f"{scope}_{index + 1}"
            outputs = layer(outputs, *(arguments if isinstance(arguments, (list, tuple)) else [arguments]), **kwargs)
        return outputs


@exported("unit_norm")
@add_arg_scope
def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    """Divides by the length along a dimension."""
    with scopes.variable_scope(scope, "UnitNorm", [inputs]):
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("The input rank must be known.")
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = gen.Sqrt(epsilon + tf.reduce_sum(gen.Square(inputs), dim, keepdims=True))
        multiples = []
        if dim > 0:
            multiples.append(tf.ones([dim], dtypes.int32))
        multiples.append(tf.strided_slice(tf.shape(inputs), [dim], [dim + 1]))
        if dim < rank - 1:
            multiples.append(tf.ones([rank - 1 - dim], dtypes.int32))
        return tf.div(inputs, tf.tile(lengths, tf.concat(multiples, 0)))


@exported("maxout")
@add_arg_scope
def maxout(inputs, num_units, axis=-1, scope=None):
    """The largest of groups of channels."""
    with scopes.variable_scope(scope, "MaxOut", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        shape = inputs.shape.as_list()
        channels = shape[axis]
        if channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of num_units({num_units})")
        shape[axis] = num_units
        shape += [channels // num_units]
        for index, size in enumerate(shape):
            if size is None:
                shape[index] = tf.shape(inputs)[index]
        return tf.reduce_max(tf.reshape(inputs, shape), -1)


@exported("embed_sequence")
def embed_sequence(ids, vocab_size=None, embed_dim=None, unique=False, initializer=None, regularizer=None, trainable=True, scope=None, reuse=None):
    """Embeddings of ids from a variable of the layer."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(f"Must specify vocab size and embedding dimension when not reusing. Got vocab_size={vocab_size} and embed_dim={embed_dim}")
    with scopes.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if reuse and (vocab_size is None or embed_dim is None):
            shape = None
        embeddings = model_variable("embeddings", shape=shape, initializer=initializer, regularizer=regularizer, trainable=trainable)
        if unique:
            return embedding_lookup_unique(embeddings, ids)
        return tf.nn.embedding_lookup(embeddings, ids)


@exported("embedding_lookup_unique")
def embedding_lookup_unique(params, ids, partition_strategy="mod", name=None):
    """`tf.nn.embedding_lookup` that reads each row once."""
    with ops.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = ops.convert_to_tensor(ids)
        shape = tf.shape(ids)
        flat = tf.reshape(ids, tf.reduce_prod(shape, keepdims=True))
        unique_ids, positions = tf.unique(flat)
        rows = tf.nn.embedding_lookup(params, unique_ids, partition_strategy)
        flat_rows = tf.gather(rows, positions)
        result = tf.reshape(flat_rows, tf.concat([shape, tf.shape(flat_rows)[1:]], 0))
        result.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return result


@exported("safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None, combiner=None, default_id=None, name=None, partition_strategy="div", max_norm=None):
    """`tf.nn.safe_embedding_lookup_sparse` whose default is the mean."""
    return tf.nn.safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner or "mean", default_id, name, partition_strategy, max_norm)


@exported("bow_encoder")
def bow_encoder(ids, vocab_size, embed_dim, sparse_lookup=True, initializer=None, regularizer=None, trainable=True, scope=None, reuse=None):
    """The mean of the embeddings of each example's ids."""
    with scopes.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable("embeddings", shape=[vocab_size, embed_dim], initializer=initializer, regularizer=regularizer, trainable=trainable)
        if sparse_lookup:
            sparse = ids if isinstance(ids, SparseTensor) else _sparse_of(ids)
            return safe_embedding_lookup_sparse([embeddings], sparse, None, "mean", default_id=0)
        if isinstance(ids, SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: %s" % ids)
        return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), axis=1)


@exported("dense_to_sparse")
@add_arg_scope
def dense_to_sparse(tensor, eos_token=0, outputs_collections=None, scope=None):
    """The elements that are not `eos_token` as a `SparseTensor`."""
    with scopes.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        return collect(outputs_collections, sc.name, _sparse_of(tensor, eos_token))


def _sparse_of(tensor, ignored=0):
    with ops.name_scope("DenseToSparseTensor"):
        tensor = ops.convert_to_tensor(tensor)
        ignored = tf.cast(ignored, tensor.dtype, name="ignore_value")
        indices = tf.where(gen.NotEqual(tensor, ignored), name="indices")
        values = tf.gather_nd(tensor, indices, name="values")
        return SparseTensor(indices, values, tf.shape(tensor, name="dense_shape", out_type=dtypes.int64))


@exported("spatial_softmax")
@add_arg_scope
def spatial_softmax(features, temperature=None, name=None, variables_collections=None, trainable=True, data_format="NHWC"):
    """The expected position of each channel's activation, by a softmax over the image."""
    with scopes.variable_scope(name, "spatial_softmax"):
        shape = features.shape
        static = shape.as_list()
        if data_format == "NHWC":
            height, width, channels = static[1], static[2], static[3]
        elif data_format == "NCHW":
            channels, height, width = static[1], static[2], static[3]
        else:
            raise ValueError("data_format has to be either NCHW or NHWC.")
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to `spatial_softmax` should be defined. Found `None`.")
        with ops.name_scope("spatial_softmax_op", "spatial_softmax_op", [features]):
            pos_x, pos_y = tf.meshgrid(tf.lin_space(-1.0, 1.0, num=height), tf.lin_space(-1.0, 1.0, num=width), indexing="ij")
            pos_x, pos_y = tf.reshape(pos_x, [height * width]), tf.reshape(pos_y, [height * width])
            if temperature is None:
                temperature = model_variable(
                    "temperature", shape=(), dtype=dtypes.float32, initializer=tf.ones_initializer(), trainable=trainable, collections=variable_collections(variables_collections, "temperature")
                )
            if data_format == "NHWC":
                features = tf.transpose(features, [0, 3, 1, 2])
            attention = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / temperature)
            expected = [tf.reduce_sum(position * attention, [1], keepdims=True) for position in (pos_x, pos_y)]
            points = tf.reshape(tf.concat(expected, 1), [-1, channels * 2])
            points.set_shape([None, channels * 2])
            return points


