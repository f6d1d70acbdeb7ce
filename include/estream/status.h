// SPDX-License-Identifier: Apache-2.0
// Errors as values: Status says what went wrong in one sentence, Result<T> is a value or a Status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace estream {

enum class StatusCode : uint8_t {
  kOk,
  kInvalidArgument,  // the caller asked for something that makes no sense
  kNotFound,         // a file, key or name that does not exist
  kIo,               // the operating system refused or failed
  kCorrupt,          // bytes that are not what they claim to be
  kUnsupported,      // well-formed, but not something this build can do
  kOverBudget,       // does not fit the memory budget
  kDevice,           // the device failed
  kCancelled,        // the caller gave up
  kInternal,         // a broken invariant of our own that could be reported instead of aborting
};

// One word for a code, as printed by tools ("corrupt", "io", ...).
const char* StatusCodeName(StatusCode code);

// Success, or a code with one sentence that names the thing, the place and the numbers.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  static Status InvalidArgument(std::string m) { return {StatusCode::kInvalidArgument, std::move(m)}; }
  static Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
  static Status Io(std::string m) { return {StatusCode::kIo, std::move(m)}; }
  static Status Corrupt(std::string m) { return {StatusCode::kCorrupt, std::move(m)}; }
  static Status Unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }
  static Status OverBudget(std::string m) { return {StatusCode::kOverBudget, std::move(m)}; }
  static Status Device(std::string m) { return {StatusCode::kDevice, std::move(m)}; }
  static Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
  static Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same code with `prefix` in front of the message: "model.gguf: " + message.
  Status WithPrefix(const std::string& prefix) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value, or the reason there is none. value() may be called only when ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : v_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(v_); }
  Status status() const { return ok() ? Status::Ok() : std::get<Status>(v_); }
  T& value() & { return std::get<T>(v_); }
  const T& value() const& { return std::get<T>(v_); }
  T&& value() && { return std::get<T>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> v_;
};

}  // namespace estream
