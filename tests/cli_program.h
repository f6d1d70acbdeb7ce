// SPDX-License-Identifier: Apache-2.0
// Runs the built program `estream` as a user would, and holds what it said.
#pragma once

#include <string>
#include <vector>

namespace estream {

struct ProgramResult {
  int exit_code = -1;  // 128 + the signal's number when a signal ended it, as in shells
  std::string out;
  std::string err;
};

// The program of this build.
std::string ProgramPath();

// The bundled model's folder, and the model.
std::string ModelDir();
std::string ModelPath();

// Runs the program with `arguments`; `input` is its standard input. NO_COLOR is not set; nothing is a terminal.
ProgramResult RunEstream(const std::vector<std::string>& arguments, const std::string& input = "");

// Runs `command` in sh, with $ESTREAM and $MODEL set.
ProgramResult RunShell(const std::string& command);

}  // namespace estream
