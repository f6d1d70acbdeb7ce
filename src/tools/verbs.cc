// SPDX-License-Identifier: Apache-2.0
// All verbs of the program, in the order of its help.
#include "tools/verb.h"

namespace estream {

std::vector<Verb> AddVerbs(CLI::App& root) {
  return {
      AddRunCommand(root),  AddClassifyCommand(root), AddPackCommand(root),    AddTuneCommand(root),
      AddPlanCommand(root), AddVerifyCommand(root),   AddInspectCommand(root), AddDoctorCommand(root),
  };
}

}  // namespace estream
