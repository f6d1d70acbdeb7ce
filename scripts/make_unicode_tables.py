#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_tables.cc: where the class of code points changes, from Python's own Unicode data.

usage: scripts/make_unicode_tables.py > src/text/unicode_tables.cc
"""
import unicodedata

OTHER, LETTER, NUMBER, SPACE = range(4)


def char_class(code_point):
    """The class that pre-tokenizer patterns see: \\p{L}, \\p{N}, \\s (the White_Space property), anything else."""
    category = unicodedata.category(chr(code_point))
    if category[0] == 'L':
        return LETTER
    if category[0] == 'N':
        return NUMBER
    if category[0] == 'Z' or 0x09 <= code_point <= 0x0D or code_point == 0x85:
        return SPACE
    return OTHER


def main():
    starts, previous = [], None
    for code_point in range(0x110000):
        now = char_class(code_point)
        if now != previous:
            starts.append(code_point << 2 | now)
            previous = now
    print('// SPDX-License-Identifier: Apache-2.0')
    print('// Unicode %s character classes; written by scripts/make_unicode_tables.py, not by hand.'
          % unicodedata.unidata_version)
    print('#include "text/unicode_tables.h"\n')
    print('namespace estream {\n')
    print('// clang-format off')
    print('const uint32_t kClassStarts[] = {')
    for i in range(0, len(starts), 11):
        print('    ' + ' '.join('0x%06X,' % s for s in starts[i:i + 11]))
    print('};')
    print('// clang-format on')
    print('const size_t kClassStartCount = %d;\n' % len(starts))
    print('}  // namespace estream')


main()
