// SPDX-License-Identifier: Apache-2.0
// The program: its verbs, and the last line of defence.
#include <csignal>
#include <exception>
#include <new>

#include "tools/command_line.h"
#include "tools/terminal.h"
#include "tools/verb.h"

int main(int argc, char** argv) {
  using namespace estream;
  // A reader that has seen enough (`| head`) ends the program quietly, even when our parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  try {
    CLI::App root("Runs Mixture-of-Experts language models, prefill only: one pass over a prompt, then answers.");
    Outcome outcome = RunCommandLine(root, AddVerbs(root), {argv + 1, argv + argc});
    if (outcome.ok()) outcome = FlushOutput();
    if (!outcome.ok()) PrintError(outcome.message());
    return outcome.code();
  } catch (const std::bad_alloc&) {
    PrintError("out of memory");
  } catch (const std::exception& error) {  // from libraries only; our own code returns errors
    PrintError(error.what());
  }
  return kExitFailure;
}
