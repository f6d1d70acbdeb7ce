#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the metadata of a GGUF model without its tensors: what a test of its tokenizer needs.

usage: cut_vocabulary.py MODEL.gguf OUT.gguf
"""
import struct
import sys

SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def skip_string(data, at):
    return at + 8 + struct.unpack_from('<Q', data, at)[0]


def skip_value(data, at, kind):
    if kind in SCALAR_BYTES:
        return at + SCALAR_BYTES[kind]
    if kind == 8:
        return skip_string(data, at)
    element, count = struct.unpack_from('<IQ', data, at)
    at += 12
    if element in SCALAR_BYTES:
        return at + count * SCALAR_BYTES[element]
    for _ in range(count):
        at = skip_value(data, at, element)
    return at


def main():
    data = open(sys.argv[1], 'rb').read()
    magic, version, _, pairs = struct.unpack_from('<4sIQQ', data)
    at = 24
    for _ in range(pairs):
        at = skip_string(data, at)
        at = skip_value(data, at + 4, struct.unpack_from('<I', data, at)[0])
    open(sys.argv[2], 'wb').write(struct.pack('<4sIQQ', magic, version, 0, pairs) + data[24:at])


main()
