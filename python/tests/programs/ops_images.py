"""Images flipped, cut, padded, resized, recoloured."""

import numpy as np


def program(tf, check):
    x = tf.constant(np.arange(48).reshape(4, 4, 3) / 48.0, tf.float32)
    b = tf.constant(np.arange(96).reshape(2, 4, 4, 3) / 96.0, tf.float32)
    u = tf.constant(np.arange(48).reshape(4, 4, 3), tf.uint8)
    found = [("left", tf.image.flip_left_right(x)), ("up", tf.image.flip_up_down(b)), ("transpose", tf.image.transpose_image(x)), ("brightness", tf.image.adjust_brightness(x, 0.1)), ("brightness int", tf.image.adjust_brightness(u, 0.1)), ("gamma", tf.image.adjust_gamma(x, 2.0))]
    found += [("standardize", tf.image.per_image_standardization(x)), ("float", tf.image.convert_image_dtype(u, tf.float32)), ("int", tf.image.convert_image_dtype(x, tf.uint8)), ("saturate", tf.image.convert_image_dtype(x, tf.uint8, saturate=True)), ("crop", tf.image.central_crop(x, 0.5))]
    found += [("box", tf.image.crop_to_bounding_box(b, 1, 0, 2, 3)), ("pad", tf.image.pad_to_bounding_box(x, 1, 1, 6, 6)), ("crop or pad", tf.image.resize_image_with_crop_or_pad(x, 2, 6)), ("resize", tf.image.resize_images(b, [2, 2])), ("nearest", tf.image.resize_images(x, [3, 3], method=1))]
    found += [("bilinear", tf.image.resize_bilinear(b, [3, 5], align_corners=True)), ("with pad", tf.image.resize_image_with_pad(x, 6, 8)), ("gray", tf.image.rgb_to_grayscale(x)), ("gray int", tf.image.rgb_to_grayscale(u)), ("rgb", tf.image.grayscale_to_rgb(x[:, :, :1]))]
    found += [("yiq", tf.image.rgb_to_yiq(x)), ("yuv", tf.image.yuv_to_rgb(x)), ("variation", tf.image.total_variation(b)), ("gradients", tf.image.image_gradients(b)), ("psnr", tf.image.psnr(x, x * 0.9, 1.0)), ("sobel", tf.image.sobel_edges(b))]
    found += [("random brightness", tf.image.random_brightness(x, 0.3, seed=1)), ("random flip", tf.image.random_flip_left_right(x, seed=2)), ("random flip batch", tf.image.random_flip_up_down(b, seed=3)), ("encode", tf.image.decode_png(tf.image.encode_png(u)))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
