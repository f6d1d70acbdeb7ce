// SPDX-License-Identifier: Apache-2.0
// Conversations in files: a JSON array of {"role": ..., "content": ...}.
#pragma once

#include <string_view>
#include <vector>

#include "estream/chat.h"
#include "estream/status.h"

namespace estream {

// The messages of `json`.
//
// Errors: InvalidArgument, one sentence without the file's name: no JSON (with the byte), no array of objects, a
// message
//         (counted from 1) without role or content, with either twice, with another member, or with a value that is no
//         text.
Result<std::vector<ChatMessage>> ParseChatMessages(std::string_view json);

}  // namespace estream
