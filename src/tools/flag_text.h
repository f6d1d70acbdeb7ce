// SPDX-License-Identifier: Apache-2.0
// Text given in flags and files: escapes, comma lists, lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estream {

// `text` with \n, \t, \r, \\ and \, read as newline, tab, return, backslash and comma. Other backslashes stay.
std::string Unescape(std::string_view text);

// The parts between commas, blanks around them removed, each unescaped; "\," is no separator. "" is one empty part.
std::vector<std::string> SplitList(std::string_view text);

// Token ids "5,17,9"; nothing when a part is not a number from 0 to 2³¹-1.
std::optional<std::vector<int32_t>> ParseTokenIds(std::string_view text);

// A size: "900M", "1.5G", "1.5GiB" in units of 1,024, "2GB" of 1,000, "4096" bytes; nothing for what is none, is below
// one byte or beyond 2⁵⁰.
std::optional<uint64_t> ParseBytes(std::string_view text);

// `text` without its one final newline ("\n" or "\r\n"), which editors add to every file.
std::string WithoutFinalNewline(std::string text);

// The lines of `text`, empty ones among them, without their ends ("\n" or "\r\n"). A final newline begins no line.
std::vector<std::string> SplitLines(std::string_view text);

}  // namespace estream
