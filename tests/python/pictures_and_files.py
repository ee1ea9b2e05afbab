"""Checks: pictures, checkpoints of the first format, caches in files, windows of datasets, and other ops that clients
bring seldom, on servers.

What a server gives is compared with a session inside this process.
"""

import os
import struct
import tempfile
import zlib

import numpy as np

import checks
from checks import check, check_for, expect, expect_error
from compat import IS_TF1, tf

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"


def evaluate(build, target, steps=1):
    with tf.Graph().as_default(), tf.device(WORKER if target else None), tf.Session(target) as session:
        fetches = build()
        session.run(tf.global_variables_initializer())
        return [session.run(fetches) for _ in range(steps)]


def flat(value):
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


def compare(cluster, build, steps=1, tolerance=0.0):
    got, expected = flat(evaluate(build, cluster.worker_target(), steps)), flat(evaluate(build, "", steps))
    expect(len(got) == len(expected), "%d results, expected %d", len(got), len(expected))
    furthest = 0.0
    for one, other in zip(got, expected):
        expect(one.shape == other.shape and one.dtype == other.dtype, "%s %s, expected %s %s", one.dtype, one.shape,
               other.dtype, other.shape)
        if one.dtype.kind in "fiu" and one.size:
            distance = np.abs(one.astype(np.float64) - other.astype(np.float64)).max()
            furthest = max(furthest, distance)
            expect(distance <= tolerance, "differs by %s: got %s, expected %s", distance, one, other)
        else:
            expect((one == other).all(), "got %s, expected %s", one, other)
    return "differs by %g at most" % furthest


def painting(height=37, width=51):
    """Blocks of color with some noise."""
    random = np.random.RandomState(1)
    blocks = np.kron(random.randint(0, 256, (16, 16, 3)), np.ones((8, 8, 1)))
    return np.clip(blocks + random.randn(128, 128, 3) * 10, 0, 255).astype(np.uint8)[:height, :width]


def local(function):
    """The value of a tensor, computed here."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function())


def png(width, depth, color, row, **chunks):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, 1, depth, color, 0, 0, 0))
    for kind, content in chunks.items():
        out += chunk(kind.encode(), content)
    return out + chunk(b"IDAT", zlib.compress(b"\0" + row)) + chunk(b"IEND", b"")


PALETTE = bytes([1, 2, 3, 40, 50, 60, 7, 8, 9])


@check_for(
    grey_1=png(4, 1, 0, b"\xa0"),
    grey_2=png(4, 2, 0, b"\x1b"),
    grey_4=png(2, 4, 0, b"\x3c"),
    grey_8=png(3, 8, 0, bytes([0, 100, 255])),
    grey_16=png(2, 16, 0, b"\x12\x34\xfe\xdc"),
    grey_see_through=png(3, 8, 0, bytes([0, 100, 255]), tRNS=b"\0\x64"),
    color_8=png(2, 8, 2, bytes([10, 200, 30, 255, 0, 7])),
    color_16=png(1, 16, 2, b"\x12\x34\xfe\xdc\x80\x7f"),
    palette=png(3, 8, 3, bytes([0, 1, 2]), PLTE=PALETTE),
    palette_see_through=png(3, 8, 3, bytes([0, 1, 2]), PLTE=PALETTE, tRNS=b"\x05\x80"),
    palette_2=png(3, 2, 3, b"\x18", PLTE=PALETTE),
    grey_alpha=png(2, 8, 4, bytes([9, 200, 77, 10])),
    color_alpha_16=png(1, 16, 6, b"\x12\x34\xfe\xdc\x80\x7f\x09\x09"),
)
def png_pictures_are_decoded_as_in_tensorflow(cluster, case):
    def build():
        contents = tf.constant(case)
        outputs = []
        for channels in (0, 1, 3, 4):
            outputs += [tf.image.decode_png(contents, channels, dtype) for dtype in (tf.uint8, tf.uint16)]
        return outputs

    return compare(cluster, build)


@check
def png_pictures_are_encoded(cluster):
    picture = painting()
    for dtype in (np.uint8, np.uint16):
        for channels in (1, 3):
            pixels = picture[:, :, :channels].astype(dtype) * (257 if dtype == np.uint16 else 1)

            def build():
                return tf.image.encode_png(tf.constant(pixels))

            file = evaluate(build, cluster.worker_target())[0]
            again = local(lambda: tf.image.decode_png(file, dtype=tf.as_dtype(dtype)))
            expect((again == pixels).all(), "%s with %d channels", dtype, channels)


@check_for(
    color=lambda: tf.image.encode_jpeg(painting()),
    fine_color=lambda: tf.image.encode_jpeg(painting(), chroma_downsampling=False),
    progressive=lambda: tf.image.encode_jpeg(painting(128, 128), quality=75, progressive=True),
    grey=lambda: tf.image.encode_jpeg(painting()[:, :, :1], format="grayscale"),
)
def jpeg_pictures_are_within_rounding_of_tensorflows(cluster, case):
    """Decoders may round: the accurate method of TensorFlow is met within 4, its fast default within twice that."""
    contents = local(case)

    def decode(method):
        return lambda: [tf.image.decode_jpeg(tf.constant(contents), channels, dct_method=method) for channels in (0, 1, 3)]

    accurate = compare(cluster, decode("INTEGER_ACCURATE"), tolerance=4)
    fast = compare(cluster, decode(""), tolerance=8)
    return "%s, with the fast method %s" % (accurate, fast)


@check
def pictures_know_their_kind(cluster):
    jpeg = local(lambda: tf.image.encode_jpeg(painting()[:, :, :1], format="grayscale"))
    deep = png(1, 16, 2, b"\x12\x34\xfe\xdc\x80\x7f")
    bmp = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 62, 0, 0, 54, 40, 2, 1, 1, 24, 0, 8, 0, 0, 0, 0) + bytes(range(8))

    def build():
        outputs = [tf.image.decode_png(jpeg), tf.image.decode_jpeg(deep), tf.image.decode_bmp(bmp)]
        outputs += [tf.image.decode_image(file, dtype=tf.float32) for file in (deep, bmp)]
        return outputs

    if IS_TF1:
        return "TensorFlow 1.15 decodes only what the op is named after"
    return compare(cluster, build, tolerance=8)


@check
def damaged_pictures_are_errors(cluster):
    jpeg = local(lambda: tf.image.encode_jpeg(painting()))
    whole = png(2, 8, 2, bytes([10, 200, 30, 255, 0, 7]))
    with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
        contents = tf.placeholder(tf.string, [])
        picture = tf.image.decode_png(contents)
        for file in (b"", b"nonsense", whole[:40], whole[:-20], jpeg[:-40], jpeg[:100]):
            expect_error(errors.InvalidArgumentError, session.run, picture, {contents: file})


def variables():
    a = tf.get_variable("a", initializer=np.arange(6, dtype=np.float32).reshape(2, 3))
    b = tf.get_variable("b", initializer=np.int64(7))
    c = tf.get_variable("c", initializer=np.array([True, False]))
    parts = tf.get_variable("parts", shape=[5, 2], initializer=tf.random_uniform_initializer(seed=3),
                            partitioner=tf.fixed_size_partitioner(2))
    return [a, b, c] + list(parts)


@check
def checkpoints_of_the_first_format_go_both_ways(cluster):
    with tempfile.TemporaryDirectory() as directory:
        for writer, reader in ((cluster.worker_target(), ""), ("", cluster.worker_target())):
            path = os.path.join(directory, "by_" + ("servers" if writer else "tensorflow"))
            with tf.Graph().as_default(), tf.device(WORKER if writer else None), tf.Session(writer) as session:
                all_variables = variables()
                session.run(tf.global_variables_initializer())
                saver = tf.train.Saver(write_version=tf.train.SaverDef.V1)
                saver.save(session, path, write_meta_graph=False)
                expected = session.run(all_variables)
                kinds = {op.type for op in session.graph.get_operations()}
                expect("SaveSlices" in kinds, "the graph has %s", sorted(kinds))
            with tf.Graph().as_default(), tf.device(WORKER if reader else None), tf.Session(reader) as session:
                all_variables = variables()
                saver = tf.train.Saver(write_version=tf.train.SaverDef.V1)
                saver.restore(session, path)
                got = session.run(all_variables)
                for one, other in zip(got, expected):
                    expect((one == other).all(), "%s restored what %s wrote: %s instead of %s", reader, writer, one, other)
                if not IS_TF1:
                    part = tf.raw_ops.RestoreSlice(
                        file_pattern=path, tensor_name="a", shape_and_slice="2 3 1,1:0,2", dt=tf.float32
                    )
                    whole = tf.raw_ops.Restore(file_pattern=path, tensor_name="b", dt=tf.int64)
                    expect(session.run(part).tolist() == [[3.0, 4.0]] and session.run(whole) == 7, "by the old ops")
                    missing = tf.raw_ops.Restore(file_pattern=path, tensor_name="z", dt=tf.int64)
                    expect_error(errors.NotFoundError, session.run, missing)


def all_elements(session, next_element):
    elements = []
    while True:
        try:
            elements.append(session.run(next_element))
        except errors.OutOfRangeError:
            return elements


def one_shot(make, target):
    with tf.Graph().as_default(), tf.device(WORKER if target else None), tf.Session(target) as session:
        return all_elements(session, tf.data.make_one_shot_iterator(make()).get_next())


def windows(size, shift, stride, drop):
    def make():
        dataset = tf.data.Dataset.range(11).window(size, shift, stride, drop)
        return dataset.flat_map(lambda window: window.batch(size))

    return make


def pairs():
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(7), np.arange(7) * 2.0)).window(3, 2)
    return dataset.flat_map(lambda x, y: tf.data.Dataset.zip((x.batch(3), y.batch(3))))


def grouped():
    window = tf.data.experimental.group_by_window(
        lambda x: x % 3, lambda key, group: group.batch(4).map(lambda rows: rows + key * 100), window_size_func=lambda key: key + 2
    )
    return tf.data.Dataset.range(20).apply(window)


def bucketed():
    lengths = tf.data.Dataset.range(1, 15).map(lambda x: tf.fill([x], x))
    return lengths.apply(tf.data.experimental.bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [4, 9], [3, 2, 2]))


def interleaved(calls, block, deterministic=True):
    def make():
        dataset = tf.data.Dataset.range(9).interleave(
            lambda x: tf.data.Dataset.range(x * 10, x * 10 + x % 4), cycle_length=4, block_length=block,
            num_parallel_calls=calls)
        return dataset.repeat(2)

    return make


@check_for(
    windows=windows(3, 3, 1, False),
    overlapping=windows(4, 1, 1, False),
    strided=windows(3, 2, 2, False),
    dropped=windows(4, 3, 1, True),
    apart=windows(2, 4, 1, False),
    pairs=pairs,
    grouped=grouped,
    bucketed=bucketed,
    interleaved_by_two=interleaved(2, 1),
    interleaved_by_four=interleaved(4, 3),
    interleaved_as_it_likes=interleaved(tf.data.experimental.AUTOTUNE, 2),
)
def datasets_give_what_tensorflow_gives(cluster, case):
    got, expected = one_shot(case, cluster.worker_target()), one_shot(case, "")
    plain = lambda elements: [[array.tolist() for array in flat(element)] for element in elements]
    expect(plain(got) == plain(expected), "got %s, expected %s", plain(got), plain(expected))


@check
def caches_in_files_go_both_ways_and_are_whole_or_absent(cluster):
    with tempfile.TemporaryDirectory() as directory:
        def cached(name, limit):
            path = os.path.join(directory, name)
            return lambda: tf.data.Dataset.range(limit).map(lambda x: (x * 3, tf.as_string(x))).cache(path)

        for writer, reader in ((cluster.worker_target(), ""), ("", cluster.worker_target())):
            name = "by_" + ("servers" if writer else "tensorflow")
            expected = one_shot(cached(name, 5), writer)
            # Another source under the same name shows that the file was read.
            got = one_shot(cached(name, 99), reader)
            expect(len(got) == 5 and got == expected, "%s gives %s, expected %s", name, got, expected)
        with tf.Graph().as_default(), tf.device(WORKER), tf.Session(cluster.worker_target()) as session:
            element = tf.data.make_one_shot_iterator(cached("given_up", 50)()).get_next()
            for _ in range(3):
                session.run(element)
        expect(not os.path.exists(os.path.join(directory, "given_up.index")), "part of a cache is no cache")
        expect(len(one_shot(cached("given_up", 4), cluster.worker_target())) == 4, "another walk starts afresh")


@check
def learned_samplers_learn_as_in_tensorflow(cluster):
    def build():
        labels = tf.constant([[1, 2], [3, 1]], tf.int64)
        return [
            list(tf.nn.learned_unigram_candidate_sampler(labels, 2, 4, unique, 50, seed=7)) for unique in (True, False)
        ]

    compare(cluster, build, steps=6, tolerance=1e-6)


@check
def pools_have_second_derivatives(cluster):
    def build():
        picture = tf.constant(np.sin(np.arange(2 * 5 * 5 * 2)).reshape(2, 5, 5, 2).astype(np.float32))
        outputs = []
        for padding in ("SAME", "VALID"):
            for pool in (tf.nn.max_pool, tf.nn.avg_pool):
                pooled = pool(picture, [1, 3, 3, 1], [1, 2, 2, 1], padding)
                first = tf.gradients(tf.reduce_sum(pooled ** 3), picture)[0]
                outputs += [first, tf.gradients(first ** 2, picture)[0]]
        return outputs

    compare(cluster, build, tolerance=1e-4)


@check
def samples_of_gamma_distributions_have_gradients(cluster):
    def build():
        alpha = tf.constant([0.3, 1.0, 8.0])
        samples = tf.random_gamma([5], alpha, seed=4)
        return [samples] + tf.gradients(samples * [1.0, 2.0, 3.0], alpha)

    compare(cluster, build, steps=2, tolerance=1e-4)


if __name__ == "__main__":
    checks.main(__doc__)
