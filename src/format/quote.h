// SPDX-License-Identifier: Apache-2.0
// Names from files and command lines, made fit for one line of an error message.
#pragma once

#include <string>
#include <string_view>

namespace estream {

// `text` in double quotes: bytes outside printable ASCII escaped, valid UTF-8 kept, at most 64 bytes of it shown. Keys
// and tensor names come from files that nobody has checked; a message must not break a terminal or fill a page.
std::string Quoted(std::string_view text);

// A path as messages show it: control bytes escaped; when longer than 80 bytes, its end after "...".
std::string ShownPath(std::string_view path);

}  // namespace estream
