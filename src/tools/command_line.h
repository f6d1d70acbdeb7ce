// SPDX-License-Identifier: Apache-2.0
// From arguments to a verb: help, version, and mistakes answered with the nearest thing that exists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/verb.h"

namespace estream {

// What a command line asks for: a verb to run, or without one a text to print, the help or the version.
struct Request {
  const Verb* verb = nullptr;
  std::string text;
};

// Reads `arguments` (without the program's name), which are any bytes; opens no file and prints nothing. `root` and the
// flags of its verbs are read into, so that they serve once.
Outcome ReadCommandLine(CLI::App& root, const std::vector<Verb>& verbs, const std::vector<std::string>& arguments,
                        Request* request);

// Reads `arguments` and does what they ask for.
Outcome RunCommandLine(CLI::App& root, const std::vector<Verb>& verbs, const std::vector<std::string>& arguments);

// Adds an option that takes a whole number from `min` to `max`; anything else is a usage error that says so.
CLI::Option* AddCount(CLI::App& app, const std::string& names, uint32_t min, uint32_t max, uint32_t* value,
                      const std::string& description);

// Shows `name` among the verb's arguments in its help. Positionals are handed to the verb as they stand, because CLI11
// would split a text in square brackets at its commas.
void DescribePositional(CLI::App& app, const std::string& name, bool many, const std::string& description);

}  // namespace estream
