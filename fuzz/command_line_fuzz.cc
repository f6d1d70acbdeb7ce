// SPDX-License-Identifier: Apache-2.0
// Any arguments: refused in one short sentence fit for a terminal, or a verb to run, or a text. Nothing is run.
//
// Input: the arguments, each but the last with a NUL behind it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/macros.h"
#include "tools/command_line.h"
#include "tools/terminal.h"

namespace estream {
namespace {

void Run(const std::string& input) {
  std::vector<std::string> arguments;
  for (size_t begin = 0, end = 0; end != std::string::npos && begin < input.size(); begin = end + 1) {
    end = input.find('\0', begin);
    arguments.push_back(input.substr(begin, end - begin));
  }
  CLI::App root;
  const std::vector<Verb> verbs = AddVerbs(root);
  Request request;
  const Outcome outcome = ReadCommandLine(root, verbs, arguments, &request);
  if (outcome.ok()) {
    ES_CHECK((request.verb != nullptr) != !request.text.empty());
    return;
  }
  ES_CHECK(outcome.code() == kExitUsage);
  const std::string& message = outcome.message();
  ES_CHECK(!message.empty() && message.size() < 280 && OneLine(message) == message);
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
