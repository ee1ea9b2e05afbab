"""Made by `python -m tensorfleet.framework.stubs`: `tf.image`."""

from typing import Any
from tensorfleet.ops.image_shape import ResizeMethod as ResizeMethod
from tensorfleet.ops.image_color import adjust_brightness as adjust_brightness
from tensorfleet.ops.image_color import adjust_gamma as adjust_gamma
from tensorfleet.ops.image_shape import central_crop as central_crop
from tensorfleet.ops.image_color import convert_image_dtype as convert_image_dtype
from tensorfleet.ops.image_shape import crop_to_bounding_box as crop_to_bounding_box
from tensorfleet.ops.image_color import decode_image as decode_image
from tensorfleet.ops.image_shape import flip_left_right as flip_left_right
from tensorfleet.ops.image_shape import flip_up_down as flip_up_down
from tensorfleet.ops.image_color import grayscale_to_rgb as grayscale_to_rgb
from tensorfleet.ops.image_color import image_gradients as image_gradients
from tensorfleet.ops.image_color import is_jpeg as is_jpeg
from tensorfleet.ops.image_shape import pad_to_bounding_box as pad_to_bounding_box
from tensorfleet.ops.image_color import per_image_standardization as per_image_standardization
from tensorfleet.ops.image_color import psnr as psnr
from tensorfleet.ops.image_color import random_brightness as random_brightness
from tensorfleet.ops.random import random_crop as random_crop
from tensorfleet.ops.image_shape import random_flip_left_right as random_flip_left_right
from tensorfleet.ops.image_shape import random_flip_up_down as random_flip_up_down
from tensorfleet.ops.image_shape import resize_images as resize
from tensorfleet.ops.image_shape import resize_bilinear as resize_bilinear
from tensorfleet.ops.image_shape import resize_image_with_crop_or_pad as resize_image_with_crop_or_pad
from tensorfleet.ops.image_shape import resize_image_with_pad as resize_image_with_pad
from tensorfleet.ops.image_shape import resize_images as resize_images
from tensorfleet.ops.image_shape import resize_nearest_neighbor as resize_nearest_neighbor
from tensorfleet.ops.image_shape import resize_image_with_crop_or_pad as resize_with_crop_or_pad
from tensorfleet.ops.image_color import rgb_to_grayscale as rgb_to_grayscale
from tensorfleet.ops.image_color import rgb_to_yiq as rgb_to_yiq
from tensorfleet.ops.image_color import rgb_to_yuv as rgb_to_yuv
from tensorfleet.ops.image_shape import rot90 as rot90
from tensorfleet.ops.image_color import sobel_edges as sobel_edges
from tensorfleet.ops.image_likeness import ssim as ssim
from tensorfleet.ops.image_color import total_variation as total_variation
from tensorfleet.ops.image_shape import transpose as transpose
from tensorfleet.ops.image_shape import transpose as transpose_image
from tensorfleet.ops.image_color import yiq_to_rgb as yiq_to_rgb
from tensorfleet.ops.image_color import yuv_to_rgb as yuv_to_rgb

def decode_bmp(contents, channels=0, name=None) -> Any: ...
def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False, acceptable_fraction=1, dct_method='', name=None) -> Any: ...
def decode_png(contents, channels=0, dtype=..., name=None) -> Any: ...
def encode_png(image, compression=-1, name=None) -> Any: ...
