#!/usr/bin/env python3
"""Writes the golden frames of tests/rpc/data from docs/wire.md alone: an independent reading of the format.

Uses only Python's standard library. Run it from anywhere; `--check` compares with the files instead of writing them.
"""
import os
import struct
import sys

FLOAT32, FLOAT64, INT64, INT32, UINT8, BOOL = range(6)
REQUEST, REPLY, ERROR, CANCEL, CONTROL, PING, PONG, GOODBYE, CREDIT = range(1, 10)
LENDING = 13


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


CPU = (0, 0)


def cuda(index):
    return (1, index)


def tensor(dtype, sizes, strides, data, requires_grad=False, to=CPU, origin=CPU, lent=None):
    """`lent`: segment, offset and number of a tensor whose data is lent, not included."""
    return (dtype, sizes, strides, data, requires_grad, to, origin, lent)


def fork(kind, owner, owner_incarnation, rref, fork_id):
    return struct.pack("<B3xiQiiQQQQ", kind, owner, owner_incarnation, rref[0], fork_id[0], rref[1], rref[2],
                       fork_id[1], fork_id[2])


def frame(kind, flags=0, depth=0, call_id=0, function=0, timeout_us=0, autograd_context=0, autograd_message=0, trace_id=0,
          span_id=0, extension=b"", payload=b"", tensors=(), forks=()):
    descriptors = b""
    for dtype, sizes, strides, data, requires_grad, to, origin, lent in tensors:
        flags = int(requires_grad) | (2 if lent else 0)
        descriptors += struct.pack("<BBbBBBbxQ", dtype, *to, len(sizes), flags, *origin, len(data))
        descriptors += struct.pack("<%dq" % len(sizes), *sizes) + struct.pack("<%dq" % len(strides), *strides)
        if lent:
            descriptors += struct.pack("<I4xQQ", *lent)
    middle = extension + descriptors + b"".join(forks) + payload
    section = b""
    for _, _, _, data, _, _, _, _ in tensors:
        section += b"\0" * (-(104 + len(middle) + len(section)) % 64) + data
    header = struct.pack("<4sBBBBQQQQQQQQQIIIII", b"TDRL", 0, kind, flags, depth, call_id, function, timeout_us,
                         autograd_context, autograd_message, trace_id, span_id, len(payload), len(section),
                         len(extension), len(descriptors), len(tensors), len(forks), 0)
    return header + struct.pack("<I", crc32c(header)) + middle + section


def in_parts(whole, *parts):
    """The frame split into parts of the given sizes, each with a header. Bytes in `parts` are frames between them."""
    def signed(header):
        return header + struct.pack("<I", crc32c(header))

    result, at = signed(whole[:6] + bytes([whole[6] | 2]) + whole[7:100]), 104
    for part in parts:
        if isinstance(part, bytes):
            result += part
        else:
            result += signed(struct.pack("<4sBB58xQ28x", b"TDRL", 0, 12, part)) + whole[at:at + part]
            at += part
    return result


def record(number, data):
    return struct.pack("<HH", number, len(data)) + data


def hello(refusal=b"", devices=b"", features=()):
    body = struct.pack("<HH", 0, 0)
    body += record(1, struct.pack("<i", 2) + b"obs1")
    body += record(2, struct.pack("<i", 3) + b"cartpole-7")
    body += record(3, struct.pack("<Q", 0x1122334455667788))
    body += record(5, struct.pack("<5Q", 65536, 268435456, 17179869184, 65536, 65536))
    body += record(9, struct.pack("<Q", 268435456))
    if refusal:
        body += record(7, refusal)
    if devices:
        body += record(8, devices)
    for number, data in features:
        body += record(number, data)
    return b"TENDRIL\0" + struct.pack("<I", len(body)) + body


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


FILES = {
    "ping.bin": frame(PING),
    "request.bin": frame(REQUEST, call_id=7, function=0x0123456789ABCDEF, timeout_us=60_000_000,
                         payload=struct.pack("<iQ5s", -3, 5, b"hello")),
    "context.bin": frame(REQUEST, depth=3, call_id=8, function=1, autograd_context=0x0002000000000005,
                         autograd_message=0x0002000000000009, trace_id=0xAAAAAAAAAAAAAAAA,
                         span_id=0xBBBBBBBBBBBBBBBB, extension=b"who am I", payload=b"\1"),
    "tensors.bin": frame(REPLY, call_id=9, payload=struct.pack("<6I", 0, 1, 2, 3, 4, 5), tensors=[
        tensor(FLOAT32, (2, 3), (3, 1), floats(0, 1, 2, 3, 4, 5), requires_grad=True),
        tensor(INT64, (), (), struct.pack("<q", -1)),
        # [2, 3] transposed: the same bytes in memory, read with other strides
        tensor(FLOAT32, (3, 2), (1, 3), floats(0, 1, 2, 3, 4, 5)),
        # one row, repeated four times
        tensor(FLOAT64, (4, 2), (0, 1), struct.pack("<2d", 0.5, 0.25)),
        tensor(UINT8, (0, 5), (5, 1), b""),
        tensor(BOOL, (3,), (1,), b"\1\0\1"),
    ]),
    "devices.bin": frame(REQUEST, call_id=11, function=3, payload=struct.pack("<3I", 0, 1, 2), tensors=[
        tensor(FLOAT32, (2,), (1,), floats(1, 2), requires_grad=True, to=cuda(1), origin=cuda(0)),
        tensor(FLOAT32, (1,), (1,), floats(3), to=CPU, origin=cuda(127)),
        tensor(FLOAT32, (1,), (1,), floats(4), to=cuda(0), origin=CPU),
    ]),
    "lent.bin": frame(REPLY, call_id=13, payload=struct.pack("<2I", 0, 1), tensors=[
        tensor(FLOAT32, (2, 3), (1, 2), b"", requires_grad=True, to=cuda(1), origin=cuda(0), lent=(2, 1536, 7)),
        tensor(UINT8, (3,), (1,), b"abc", to=cuda(1), origin=cuda(0)),
    ]),
    "lending_offer.bin": frame(LENDING, payload=struct.pack("<BIB16sQ64s", 1, 2, 1, bytes(range(16)), 1 << 25,
                                                            bytes(range(100, 164)))),
    "lending_answer.bin": frame(LENDING, payload=struct.pack("<BIBB", 2, 2, 1, 0) + b"no such device"),
    "lending_return.bin": frame(LENDING, payload=struct.pack("<BQQ", 3, 7, 1 << 40)),
    "references.bin": frame(REQUEST, flags=1, call_id=10, function=2, payload=struct.pack("<I", 0), forks=[
        fork(0, 1, 0x1111, (0, 0x2222, 3), (2, 0x3333, 4)),
        fork(1, 1, 0x1111, (2, 0x3333, 5), (2, 0x3333, 6)),
    ]),
    "parts.bin": in_parts(frame(REPLY, call_id=12, payload=struct.pack("<I", 0),
                                tensors=[tensor(FLOAT32, (2,), (1,), floats(1, 2))]), 30, frame(PING), 1, 65),
    "error.bin": frame(ERROR, call_id=7, payload=b"what went wrong"),
    "goodbye.bin": frame(GOODBYE),
    "credit.bin": frame(CREDIT, payload=struct.pack("<Q", 0x123456789)),
    "hello.bin": hello(features=[(64, b""), (65, b"abc")]),
    "devices_hello.bin": hello(devices=struct.pack("<B8B", 2, *cuda(0), *cuda(1), *CPU, *cuda(0))),
    "refusal.bin": hello(refusal=b"the name 'obs1' is taken"),
}


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    for name, data in FILES.items():
        path = os.path.join(folder, name)
        if "--check" in sys.argv[1:]:
            with open(path, "rb") as file:
                if file.read() != data:
                    sys.exit("%s differs from what this script writes" % name)
        else:
            with open(path, "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
