// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer of DeepSeek-LLM and DeepSeek-V2: six patterns, each cutting what the ones before it left.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace estream {

// As SplitWords (text/pre_tokenizer.h).
void SplitDeepSeekWords(std::string_view text, std::vector<uint32_t>* ends);

}  // namespace estream
