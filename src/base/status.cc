// SPDX-License-Identifier: Apache-2.0
// Names of status codes and the one composing operation.
#include "estream/status.h"

namespace estream {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kIo:
      return "input/output";
    case StatusCode::kCorrupt:
      return "corrupt";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kOverBudget:
      return "over budget";
    case StatusCode::kDevice:
      return "device";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Status Status::WithPrefix(const std::string& prefix) const { return ok() ? *this : Status(code_, prefix + message_); }

}  // namespace estream
