// SPDX-License-Identifier: Apache-2.0
// A bar with its share.
#include "tools/share_progress.h"

#include "tools/terminal.h"

namespace estream {

ShareProgress::ShareProgress() : line_(IsTerminal(stderr)) {}

void ShareProgress::Update(const std::string& phase, double share) {
  // A new phase shows at once: it may be long until its next step.
  const bool new_phase = line_.shown() && phase != phase_;
  if (!line_.Due() && !new_phase) return;
  phase_ = phase;
  line_.Show(phase + "  " + ProgressBar(share));
}

}  // namespace estream
