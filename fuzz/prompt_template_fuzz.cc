// SPDX-License-Identifier: Apache-2.0
// Any file as a prompt template: it has one gap and is filled byte for byte, or is refused in one sentence.
//
// Input: the file; the text is what follows the first NUL, or without one the whole input.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/macros.h"
#include "task/prompt_template.h"
#include "tools/flag_text.h"

namespace estream {
namespace {

void Run(const std::string& input) {
  const size_t end = input.find('\0');
  const std::string text = end == std::string::npos ? input : input.substr(end + 1);
  const std::string source = WithoutFinalNewline(input.substr(0, end));
  const size_t gap = source.find(PromptTemplate::kGap);
  const bool one = gap != std::string::npos && source.rfind(PromptTemplate::kGap) == gap;
  const Result<PromptTemplate> prompt = PromptTemplate::Parse(source);
  ES_CHECK(prompt.ok() == one);
  if (one) {
    std::string expected = source;
    ES_CHECK(prompt->Fill(text) == expected.replace(gap, PromptTemplate::kGap.size(), text));
  } else {
    ES_CHECK(!prompt.status().message().empty() && prompt.status().message().size() < 300);
  }
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
