#!/usr/bin/env python3
"""Writes tests/data/data: files as other programs write them, and what other programs read in them.

Run it with a Python that has PyTorch, torchvision, NumPy and Pillow: python3 tests/data/golden.py [FOLDER]. Without FOLDER
the committed files are written again. They were made with PyTorch 2.15.0, torchvision 0.29.2, NumPy 2.4.6, Pillow 13.0.0.
"""
import csv
import pathlib
import struct
import sys
import zlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F


def noise(*sizes):
    """uint8 that neither PNG nor JPEG finds easy: a ramp with a hash on it."""
    i = np.arange(np.prod(sizes), dtype=np.uint64)
    return ((i * 3 + (i * 2654435761 >> 7) % 61) % 256).astype(np.uint8).reshape(sizes)


def smooth(height, width):
    y, x = np.mgrid[0:height, 0:width]
    channels = [128 + 100 * np.sin(x / 5 + y / 9), 255 * x / width, 255 * y / height]
    return np.stack(channels, -1).round().astype(np.uint8)


def chw(image):
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def pngs(folder):
    rgb = noise(9, 13, 3)
    images = {
        "rgb": Image.fromarray(rgb), "gray": Image.fromarray(rgb[..., 0]),
        "rgba": Image.fromarray(noise(9, 13, 4), "RGBA"), "gray_alpha": Image.fromarray(noise(9, 13, 2), "LA"),
        "palette": Image.fromarray(rgb).quantize(11), "bits": Image.fromarray(rgb[..., 0] > 100),
        "deep": Image.fromarray(noise(9, 13, 2).view(np.uint16)[..., 0]),
    }
    for name, image in images.items():
        image.save(folder / f"{name}.png")
        if name == "deep":  # Pillow scales those otherwise
            np.save(folder / "deep_png.npy", (noise(9, 13, 2).view(np.uint16) >> 8).astype(np.uint8).transpose(2, 0, 1))
            continue
        read = Image.open(folder / f"{name}.png")
        np.save(folder / f"{name}_png.npy", chw(read.convert("RGB")))
        np.save(folder / f"{name}_png_gray.npy", chw(read.convert("RGB").convert("L")))


def interlaced(folder):
    """Adam7, which Pillow reads and does not write."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    size, rows = 11, b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        rows += b"".join(bytes([0]) + noise(size, size)[y, x0::dx].tobytes() for y in range(y0, size, dy))
    (folder / "interlaced.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 1)) +
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    read = Image.open(folder / "interlaced.png")
    assert (np.asarray(read) == noise(size, size)).all()
    np.save(folder / "interlaced_png.npy", chw(read.convert("RGB")))
    np.save(folder / "interlaced_png_gray.npy", chw(read))


def jpegs(folder):
    rgb = Image.fromarray(smooth(37, 51))
    rgb.save(folder / "rgb.jpg", quality=90)
    rgb.save(folder / "full_colour.jpg", quality=90, subsampling=0)
    rgb.save(folder / "progressive.jpg", quality=80, progressive=True)
    rgb.convert("L").save(folder / "gray.jpg")
    rgb.convert("CMYK").save(folder / "cmyk.jpg")
    for name in ("rgb", "full_colour", "progressive", "gray"):
        np.save(folder / f"{name}_jpg.npy", chw(Image.open(folder / f"{name}.jpg").convert("RGB")))


def idx(folder):
    """The format's description in words: magic, sizes, elements, all big-endian."""
    def write(name, code, array):
        with open(folder / name, "wb") as file:
            file.write(bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes())

    write("train-images-idx3-ubyte", 8, noise(5, 4, 3))
    write("train-labels-idx1-ubyte", 8, np.array([3, 9, 0, 1, 3], np.uint8))
    write("int.idx", 12, np.arange(-3, 3, dtype=">i4").reshape(2, 3))
    write("float.idx", 13, (np.arange(6, dtype=">f4") / 4).astype(">f4"))
    write("double.idx", 14, np.array(2.5, ">f8"))
    np.save(folder / "mnist_images.npy", torch.from_numpy(noise(5, 4, 3)).unsqueeze(1).numpy())


def cifar(folder):
    records = noise(4, 3073)
    records[:, 0] = [1, 0, 9, 4]
    records.tofile(folder / "cifar10.bin")
    np.save(folder / "cifar10_images.npy", records[:, 1:].reshape(4, 3, 32, 32))


CSV = ('name,"the value", n \r\n'
       'plain,1.5,3\r\n'
       '"a, b","-2e3",-4\n'
       '"say ""hi""", +7 ,+0\n'
       '\n'
       '"two\nlines",.5,9007199254740993\n'
       'é"x"é,0x,\r\n'
       ',1e999,5')


def tables(folder):
    (folder / "table.csv").write_bytes(CSV.encode())
    with open(folder / "table.csv", newline="", encoding="utf8") as file:
        rows = [row for row in csv.reader(file) if row]
    # one field a line, in hexadecimal digits of its UTF-8
    lines = [f"{len(rows)} {len(rows[0])}"] + ["x" + field.encode().hex() for row in rows for field in row]
    (folder / "table_fields.txt").write_text("\n".join(lines) + "\n")


TEXTS = {
    "train": " = Title = \n\n the  cat\tsat on the\u00a0mat .\r\nthe\u2009end\rnext \u00fcber\n",
    "valid": "the dog sat\nno line end",
    "test": "\n\n  \x1f x\u3000y \n",
}


def words(folder):
    """The classes Dictionary and Corpus of PyTorch's examples/word_language_model/data.py."""
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_bytes(text.encode("utf8"))
    word2idx, idx2word, lines = {}, [], []

    def add(word):
        if word not in word2idx:
            idx2word.append(word)
            word2idx[word] = len(idx2word) - 1

    for name in TEXTS:
        with open(folder / f"{name}.txt", encoding="utf8") as file:
            for line in file:
                for word in line.split() + ["<eos>"]:
                    add(word)
        with open(folder / f"{name}.txt", encoding="utf8") as file:
            ids = [word2idx[word] for line in file for word in line.split() + ["<eos>"]]
        lines.append(f"{name} int64 {len(ids)}\n{' '.join(map(str, ids))}")
    data = torch.arange(10).narrow(0, 0, 9).view(3, -1).t().contiguous()  # batchify(data, 3)
    lines.append(f"batchify int64 3 3\n{' '.join(map(str, data.flatten().tolist()))}")
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    (folder / "vocabulary.txt").write_text("\n".join(idx2word) + "\n", encoding="utf8")


def transforms(folder):
    lines = []

    def put(name, tensor):
        values = " ".join(repr(v) for v in tensor.double().flatten().tolist())
        lines.append(f"{name} float64 {' '.join(map(str, tensor.shape))}\n{values}")

    image = torch.from_numpy(chw(smooth(11, 7)).copy())
    real = image.float() / 255
    put("image", image)
    put("normalized", F.normalize(real, [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]))
    put("flipped", F.horizontal_flip(image))
    put("padded", F.pad(image, [2], 5))
    for size in ((4, 4), (5, 6), (13, 4), (6, 8), (20, 20)):
        put(f"center_{size[0]}_{size[1]}", F.center_crop(image, list(size)))
    for size in ((5, 3), (22, 14), (11, 5), (3, 9), (1, 1)):
        put(f"resized_{size[0]}_{size[1]}", F.resize(real, list(size), antialias=True))
        pillow = Image.fromarray(smooth(11, 7)).resize((size[1], size[0]), Image.Resampling.BILINEAR)
        put(f"resized_bytes_{size[0]}_{size[1]}", torch.from_numpy(chw(pillow).copy()))
    for factor in (0.0, 0.4, 1.7):
        put(f"brightness_{factor}", F.adjust_brightness(real, factor))
        put(f"contrast_{factor}", F.adjust_contrast(real, factor))
        put(f"saturation_{factor}", F.adjust_saturation(real, factor))
    for turn in (-0.5, -0.2, 0.3):
        put(f"hue_{turn}", F.adjust_hue(real, turn))
    (folder / "transforms.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
    target.mkdir(parents=True, exist_ok=True)
    for write in (pngs, interlaced, jpegs, idx, cifar, tables, words, transforms):
        write(target)
