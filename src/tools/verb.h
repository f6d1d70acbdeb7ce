// SPDX-License-Identifier: Apache-2.0
// A verb of the program: its flags, what they mean, and what to do then.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tools/outcome.h"

namespace estream {

// The arguments that are no flags and no flag's value, in order; everything after `--` is among them.
using Positionals = std::vector<std::string>;

struct Verb {
  CLI::App* app;  // owned by the root
  // Takes the positionals and finds every mistake that shows without opening a file; touches nothing outside the verb.
  std::function<Outcome(Positionals)> check;
  // Does it. Pre: flags are read and `check` was content.
  std::function<Outcome()> run;
};

// Each adds its verb to `root`. A new verb is a file of its own, a line here and a line in verbs.cc.
Verb AddClassifyCommand(CLI::App& root);
Verb AddDoctorCommand(CLI::App& root);
Verb AddInspectCommand(CLI::App& root);
Verb AddPackCommand(CLI::App& root);
Verb AddPlanCommand(CLI::App& root);
Verb AddRunCommand(CLI::App& root);
Verb AddTuneCommand(CLI::App& root);
Verb AddVerifyCommand(CLI::App& root);

std::vector<Verb> AddVerbs(CLI::App& root);

}  // namespace estream
