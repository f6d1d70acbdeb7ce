// SPDX-License-Identifier: Apache-2.0
// A bar on standard error for work that is counted in shares.
#pragma once

#include <string>

#include "tools/progress_line.h"

namespace estream {

// "reads  [######......]   52 %", only on a terminal.
class ShareProgress {
 public:
  ShareProgress();
  void Update(const std::string& phase, double share);

 private:
  ProgressLine line_;
  std::string phase_;
};

}  // namespace estream
