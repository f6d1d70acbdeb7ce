#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes damaged model files as recipes over the sound model they were made from.

    make_patches.py BASE.gguf CASES_DIR NAME... > BASE.patches

Each CASES_DIR/NAME.gguf becomes a line "case NAME" and the pieces it is made of, in order:

    copy OFFSET LENGTH   bytes of the base model
    data HEX             bytes
    fill COUNT HEX       HEX, COUNT times

Every recipe is replayed and compared before it is written.
"""
import sys

SEED = 16  # shortest copy; what is found by its first bytes is then extended both ways


def copies(base, data):
    """Greedy: [(offset in data, offset in base, length)], ascending and disjoint."""
    index = {}
    for i in range(len(base) - SEED, -1, -1):
        index[base[i:i + SEED]] = i
    found, at, done = [], 0, 0
    while at + SEED <= len(data):
        # the same distance to the base as so far is the best guess, since most cases shift everything at once
        guesses = [index.get(data[at:at + SEED])]
        if found:
            guesses.insert(0, at - found[-1][0] + found[-1][1])
        guesses.append(at)
        best = None
        for g in guesses:
            if g is None or base[g:g + SEED] != data[at:at + SEED]:
                continue
            back = 0
            while at - back > done and g - back > 0 and base[g - back - 1] == data[at - back - 1]:
                back += 1
            length = SEED
            while at + length < len(data) and g + length < len(base) and base[g + length] == data[at + length]:
                length += 1
            if best is None or length + back > best[2]:
                best = (at - back, g - back, length + back)
        if best is None:
            at += 1
            continue
        found.append(best)
        at = done = best[0] + best[2]
    return found


def literals(piece):
    """Bytes as data and fill lines."""
    lines, start, i = [], 0, 0
    while i < len(piece):
        best = (0, 1)
        for unit in (1, 4, 12):
            n = 1
            while piece[i + n * unit:i + (n + 1) * unit] == piece[i:i + unit] and len(piece[i:i + unit]) == unit:
                n += 1
            if n > 1 and n * unit > best[0] * best[1]:
                best = (n, unit)
        if best[0] * best[1] < 24:
            i += 1
            continue
        if i > start:
            lines.append("data " + piece[start:i].hex())
        lines.append("fill %d %s" % (best[0], piece[i:i + best[1]].hex()))
        i += best[0] * best[1]
        start = i
    if start < len(piece):
        lines.append("data " + piece[start:].hex())
    return lines


def recipe(base, data):
    lines, done = [], 0
    for at, source, length in copies(base, data):
        lines += literals(data[done:at])
        lines.append("copy %d %d" % (source, length))
        done = at + length
    return lines + literals(data[done:])


def replay(base, lines):
    out = bytearray()
    for line in lines:
        word, *rest = line.split()
        if word == "copy":
            out += base[int(rest[0]):int(rest[0]) + int(rest[1])]
        elif word == "data":
            out += bytes.fromhex(rest[0])
        else:
            out += bytes.fromhex(rest[1]) * int(rest[0])
    return bytes(out)


def main():
    base = open(sys.argv[1], "rb").read()
    for name in sys.argv[3:]:
        data = open("%s/%s.gguf" % (sys.argv[2], name), "rb").read()
        lines = recipe(base, data)
        if replay(base, lines) != data:
            sys.exit("cannot reproduce " + name)
        print("case " + name)
        print("".join(line + "\n" for line in lines), end="")


main()
