"""Reads a safetensors file strictly by its published format.

The file has eight bytes of length, least significant byte first, then a JSON
header, then the tensors without gaps. This module does not use rollcall.
"""
import array
import json
import math
import struct
import sys

BYTES = {"F32": 4}


def read(path):
    """Returns {name: (shape, values)} in the order of the header.

    Raises ValueError if the file breaks the format or has a tensor that is not
    of 32-bit floats.
    """
    with open(path, "rb") as file:
        whole = file.read()
    [length] = struct.unpack("<Q", whole[:8])
    if length > len(whole) - 8 or length % 8 != 0:
        raise ValueError(f"{path}: a header of {length} bytes")
    header = json.loads(whole[8:8 + length].decode())
    if header.pop("__metadata__", {}).get("format") != "pt":
        raise ValueError(f"{path}: not said to be PyTorch's")
    data, at, found = whole[8 + length:], 0, {}
    for name, said in header.items():
        if set(said) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{path}: {name} has {sorted(said)}")
        begin, end = said["data_offsets"]
        if begin != at or end > len(data):
            raise ValueError(f"{path}: {name} lies at {begin}, not {at}")
        if end - begin != BYTES[said["dtype"]] * math.prod(said["shape"]):
            raise ValueError(f"{path}: {name} has {end - begin} bytes")
        values = array.array("f", data[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        found[name] = (said["shape"], values)
        at = end
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes after the last")
    return found
