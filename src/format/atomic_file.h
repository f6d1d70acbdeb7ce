// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only when it is whole.
//
// Create -> Write* -> Commit. A writer destroyed before Commit, or whose Commit failed, leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "estream/status.h"

namespace estream {

class AtomicFile {
 public:
  // Opens a temporary file beside `path`. A symbolic link is followed, so that its target is replaced and not the link.
  //
  // Errors: Io with the system's reason, or when something other than a regular file stands at `path`.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Asks that writes go to storage without passing through the page cache, from which a file of many GB would push
  // everything else. Only while pieces are whole pages, page-aligned in memory, and where the file system can; other
  // pieces are written as usual. Call before the first Write.
  void BypassPageCache();

  // Appends `bytes`; loops over short writes and EINTR. Errors: Io.
  Status Write(std::span<const std::byte> bytes);

  // Appends `bytes` zeros without writing them: a hole, where the file system has holes. Errors: Io.
  Status WriteHole(uint64_t bytes);

  // fsync, rename, fsync of the folder. Errors: Io; `path` is as it was before.
  Status Commit();

  // The path as the user gave it.
  const std::string& name() const { return name_; }

 private:
  AtomicFile(std::string name, std::string target) : name_(std::move(name)), target_(std::move(target)) {}
  Status OpenTemporary();
  void SetDirect(bool direct);
  Status IoError(const char* verb) const;

  const std::string name_;
  const std::string target_;  // name_ with links resolved
  std::string temporary_;     // empty when there is none (any more)
  int fd_ = -1;
  bool direct_ = false;  // fd_ bypasses the page cache
};

}  // namespace estream
