#!/usr/bin/env python3
"""Reads the TensorBoard files that tests/nn/programs/peers.cpp wrote into FOLDER with the tensorboard package: python3 events.py FOLDER

Its EventAccumulator checks every record's sums; values, steps and times must be those that were written.
"""
import pathlib
import struct
import sys
import zlib

import numpy as np
from tensorboard.backend.event_processing import event_accumulator



def unfiltered(rows, step):
    """The bytes of a PNG's rows, each of which begins with the number of its filter (PNG specification, section 9)."""
    out = np.zeros((len(rows) + 1, rows.shape[1] - 1 + step), np.int64)  # above and left of the picture are zeros
    for y, row in enumerate(rows, 1):
        for x, byte in enumerate(row[1:], step):
            left, above, corner = out[y, x - step], out[y - 1, x], out[y - 1, x - step]
            nearest = min((left, above, corner), key=lambda candidate: abs(left + above - corner - candidate))
            out[y, x] = (byte + (0, left, above, (left + above) // 2, nearest)[row[0]]) % 256
    return out[1:, step:]


folder = pathlib.Path(sys.argv[1])
events = event_accumulator.EventAccumulator(str(folder), size_guidance={kind: 0 for kind in event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE})
events.Reload()
tags = events.Tags()
assert sorted(tags["scalars"]) == ["loss/train", "loss/valid"], tags
for tag, first in (("loss/train", 1), ("loss/valid", 2)):
    points = events.Scalars(tag)
    assert [point.step for point in points] == list(range(100)), points
    assert [point.wall_time for point in points] == [1700000000 + step for step in range(100)], points
    assert [point.value for point in points] == [float(np.float32(first / (step + 1))) for step in range(100)], points

values = np.load(folder / "values.npy").astype(np.float64).reshape(-1)
(event,) = events.Histograms("weights")
histogram = event.histogram_value
assert event.step == 7 and histogram.num == values.size, event
assert histogram.min == values.min() and histogram.max == values.max(), event
assert np.isclose(histogram.sum, values.sum()) and np.isclose(histogram.sum_squares, values.dot(values)), event
limits = np.array(histogram.bucket_limit)
assert len(limits) == len(histogram.bucket) and histogram.bucket[0] == 0 and sum(histogram.bucket) == values.size, event
assert list(histogram.bucket[1:]) == np.histogram(values, limits)[0].tolist(), event

assert events.Tensors("sample/text_summary")[0].tensor_proto.string_val == [b"to be or *not*"], tags

if (folder / "picture.npy").exists():
    picture = np.load(folder / "picture.npy")
    (event,) = events.Images("picture")
    channels, height, width = picture.shape
    assert (event.step, event.height, event.width) == (9, height, width), event
    png, data, at = event.encoded_image_string, b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert np.array_equal(unfiltered(rows, channels).reshape(height, width, channels).transpose(2, 0, 1), picture)
