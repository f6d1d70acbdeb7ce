// SPDX-License-Identifier: Apache-2.0
// Writing to standard output and standard error: whole lines, safe bytes, colours only where they belong.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "estream/status.h"

namespace estream {

// Appends to standard output. What goes wrong is reported by FlushOutput.
void Write(std::string_view text);

// Hands everything written so far to the system. Errors: Io when standard output cannot take it (a full disk).
Status FlushOutput();

// "estream: <message>" on standard error: one line, below 300 bytes, nothing that a terminal would obey.
void PrintError(std::string_view message);

// "<message>" on standard error, for what is not an error: one line, nothing that a terminal would obey.
void PrintNotice(std::string_view message);

// Whether `file` is a terminal that people look at in colour: not when NO_COLOR is set or TERM is "dumb".
bool IsTerminal(std::FILE* file);
bool UsesColour(std::FILE* file);

// `text` in bold, or dim, when `on`.
std::string Bold(std::string_view text, bool on);
std::string Dim(std::string_view text, bool on);

// `text` on one line, fit for a terminal: newline, tab and return as \n, \t, \r; other control characters, characters
// that change the direction of text, and bytes that are not UTF-8 as \xNN; everything else as it is.
std::string OneLine(std::string_view text);

// The number of columns that the one-line `text` takes, counting one for each character.
size_t Columns(std::string_view text);

// `text` cut to `columns`, with "..." at its end when something is missing, or padded with spaces to it.
std::string Fit(std::string_view text, size_t columns);

// The columns of the terminal on standard output, or `otherwise`.
size_t TerminalColumns(size_t otherwise);

}  // namespace estream
