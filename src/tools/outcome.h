// SPDX-License-Identifier: Apache-2.0
// How a verb ends: well, with a failure, or with a command line that makes no sense.
#pragma once

#include <string>
#include <utility>

#include "estream/status.h"

namespace estream {

enum ExitCode : int { kExitOk = 0, kExitFailure = 1, kExitUsage = 2 };

// A Status converts to an Outcome, so that ES_RETURN_IF_ERROR and ES_ASSIGN_OR_RETURN work inside a verb.
class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  Outcome(const Status& status)  // NOLINT(google-explicit-constructor)
      : code_(status.ok() ? kExitOk : kExitFailure), message_(status.message()) {}

  static Outcome Ok() { return {}; }
  // One sentence about the command line; no program name, no newline.
  static Outcome Usage(std::string message) {
    Outcome outcome;
    outcome.code_ = kExitUsage;
    outcome.message_ = std::move(message);
    return outcome;
  }
  // A Status whose InvalidArgument is about what the flags asked for, not about the input.
  static Outcome FromFlags(const Status& status) {
    return status.code() == StatusCode::kInvalidArgument ? Usage(status.message()) : Outcome(status);
  }

  bool ok() const { return code_ == kExitOk; }
  ExitCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  ExitCode code_ = kExitOk;
  std::string message_;
};

}  // namespace estream

// Returns from the current function if the Outcome `expr` is not ok.
#define ES_RETURN_IF_NOT_OK(expr)                                                    \
  do {                                                                               \
    if (::estream::Outcome es_outcome = (expr); !es_outcome.ok()) return es_outcome; \
  } while (0)
