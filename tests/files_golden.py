#!/usr/bin/env python3
"""Writes tests/{tensor,nn}/data/files: files as PyTorch, NumPy and safetensors write them, that Tendril's readers are tested with.

Run it with a Python that has the three: python3 tests/files_golden.py [FOLDER]. Without FOLDER the committed files are
written again; with it, FOLDER/tensor and FOLDER/nn. Elements are those of `pattern`, which the tests compute too. They
were made with PyTorch 2.15.0, NumPy 2.4.6 and safetensors 0.8.0.
"""
import collections
import importlib.util
import os
import pathlib
import sys
import zipfile

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

TESTS = pathlib.Path(__file__).parent
DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool,
}


def pattern(sizes, dtype):
    """Element i: 0.5 i - 2 (floating), i - 3 (signed), 7 i (uint8), whether i is a multiple of 3 (bool)."""
    count = int(np.prod(sizes))
    i = torch.arange(count)
    if dtype == torch.bool:
        values = i % 3 == 0
    elif dtype == torch.uint8:
        values = 7 * i
    elif dtype in (torch.int64, torch.int32):
        values = i - 3
    else:
        values = 0.5 * i - 2
    return values.to(dtype).reshape(sizes)


class RunsCode:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def tensors(folder):
    all_dtypes = {name: pattern((3, 4), dtype) for name, dtype in DTYPES.items()}
    save_file({**all_dtypes, "scalar": pattern((), torch.float32), "empty": pattern((0, 5), torch.float32)},
              folder / "dtypes.safetensors", metadata={"format": "pt"})
    base = pattern((4, 6), torch.float32)
    nested = {
        "dtypes": all_dtypes,
        "views": {"whole": base, "row": base[1], "transposed": base.t(), "step": base[:, ::2], "expanded": base[:1].expand(3, 6)},
        "parameter": nn.Parameter(pattern((2,), torch.float32)),
        "scalar": pattern((), torch.float64), "empty": pattern((0, 5), torch.float32),
        "numbers": {"int": 7, "negative": -70000, "large": 1 << 40, "least": -(1 << 63), "float": 0.1, "true": True},
        "list": [pattern((2,), torch.int64), (1.5, 2)], "ints": [1, 2, 3], "text": "héllo", "none": None,
        "sizes": torch.Size([2, 3]), 5: pattern((1,), torch.float32),
    }
    torch.save(nested, folder / "nested.pt")
    torch.save(pattern((3,), torch.float32), folder / "one_tensor.pt")
    torch.save(nested["dtypes"], folder / "protocol4.pt", pickle_protocol=4)
    torch.save({"weight": base, "evil": RunsCode()}, folder / "runs_code.pt")
    torch.save({"weight": base}, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"weight": torch.zeros(2, dtype=torch.int16)}, folder / "int16.pt")
    torch.save({"layer": {"bias": base, "weight": nn.Parameter(torch.zeros(2).to(torch.float8_e4m3fn))}},
               folder / "float8.pt")
    torch.save({"weight": base.to_sparse()}, folder / "sparse.pt")
    itself = []
    itself.append(itself)
    torch.save({"list": itself}, folder / "itself.pt")

    for name in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool"):
        np.save(folder / f"{name}.npy", all_dtypes[name].numpy())
    array = all_dtypes["float32"].numpy()
    np.save(folder / "fortran.npy", np.asfortranarray(array))
    np.save(folder / "big_endian.npy", array.astype(">f4"))
    np.save(folder / "scalar.npy", np.float64(2.5))
    np.save(folder / "empty.npy", np.zeros((0, 3), np.float32))
    np.save(folder / "vector.npy", array[0])
    np.save(folder / "complex.npy", array.astype(np.complex64))
    np.save(folder / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    with open(folder / "version2.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=(2, 0))
    arrays = {"a": array, "layer.weight": array.astype(np.float64)}
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "compressed.npz", **arrays)
    with zipfile.ZipFile(folder / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.write(folder / "vector.npy", "vector.npy")


def networks(folder):
    specification = importlib.util.spec_from_file_location("golden", TESTS / "nn" / "golden.py")
    golden = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(golden)
    torch.manual_seed(7)
    images = torch.rand(2, 3, 24, 24)
    for name, bottleneck, blocks in (("basic", False, (1, 1, 1, 1)), ("bottleneck", True, (1, 1, 1, 1))):
        model = golden.ResNet(bottleneck, blocks, 2, 3)
        for _ in range(3):  # running statistics that are not the initial ones
            model(torch.rand(4, 3, 24, 24) * 2 - 1)
        model.eval()
        torch.save(model.state_dict(), folder / f"{name}.pt")
        save_file(model.state_dict(), folder / f"{name}.safetensors")
        np.savez(folder / f"{name}_run.npz", images=images.numpy(), logits=model(images).detach().numpy())
    for name, make in (("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
                       ("adam", lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.99), weight_decay=0.01))):
        parameters = [nn.Parameter(pattern((2, 3), torch.float32)), nn.Parameter(pattern((4,), torch.float32))]
        optimizer = make(parameters)

        def step():
            for p in parameters:
                p.grad = 0.1 * p.detach() + 0.3
            optimizer.step()

        step(), step()
        torch.save({"optimizer": optimizer.state_dict(), "parameters": [p.detach().clone() for p in parameters]},
                   folder / f"{name}.pt")
        step(), step()
        torch.save({"parameters": [p.detach() for p in parameters]}, folder / f"{name}_later.pt")


if __name__ == "__main__":
    for part, write in (("tensor", tensors), ("nn", networks)):
        target = pathlib.Path(sys.argv[1]) / part if len(sys.argv) > 1 else TESTS / part / "data" / "files"
        target.mkdir(parents=True, exist_ok=True)
        write(target)
