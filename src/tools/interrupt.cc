// SPDX-License-Identifier: Apache-2.0
// A handler may touch nothing but a lock-free flag, which therefore belongs to the whole program.
#include "tools/interrupt.h"

#include <csignal>

namespace estream {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int) { interrupted = true; }

// SA_RESETHAND: the second signal finds the default action again.
void Install(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupted = false;
  Install(OnSignal);
}

InterruptFlag::~InterruptFlag() { Install(SIG_DFL); }

const std::atomic<bool>* InterruptFlag::flag() const { return &interrupted; }

}  // namespace estream
