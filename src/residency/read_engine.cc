// SPDX-License-Identifier: Apache-2.0
// Chooses an engine, and says in one line which it became.
#include "residency/read_engine.h"

#include <fmt/format.h>

#include "base/aligned_buffer.h"
#include "residency/thread_read_engine.h"
#include "residency/uring_read_engine.h"

namespace estream {

Result<std::unique_ptr<ReadEngine>> MakeReadEngine(std::vector<std::shared_ptr<RecordFile>> files,
                                                   std::vector<std::span<std::byte>> regions,
                                                   const ReadEngineOptions& options) {
  if (options.depth == 0 || options.depth > ReadEngineOptions::kMaxDepth) {
    return Status::InvalidArgument(
        fmt::format("a queue depth of {} is not in 1..{}", options.depth, ReadEngineOptions::kMaxDepth));
  }
  std::string reason;
  if (options.kind != ReadEngineOptions::Kind::kThreads) {
    auto uring = MakeUringReadEngine(files, std::move(regions), options);
    if (uring.ok() || options.kind == ReadEngineOptions::Kind::kUring) return uring;
    reason = uring.status().message();
  }
  return MakeThreadReadEngine(std::move(files), options.depth, std::move(reason));
}

Status CheckReadRequest(const ReadRequest& request, size_t file_count) {
  if (request.file >= file_count || request.sink == nullptr) {
    return Status::InvalidArgument(fmt::format("a read names file {} of {} or no sink", request.file, file_count));
  }
  const auto address = reinterpret_cast<uintptr_t>(request.dest);
  if (request.bytes == 0 || request.dest == nullptr || (request.bytes | request.offset | address) % kPageBytes != 0 ||
      request.offset > static_cast<uint64_t>(INT64_MAX) - request.bytes) {
    return Status::InvalidArgument(fmt::format("a read of {} bytes at offset {} to {:#x}: all must be multiples of {}",
                                               request.bytes, request.offset, address, kPageBytes));
  }
  return Status::Ok();
}

std::string ReadMode::ToString() const {
  const auto because = [](const std::string& reason) { return reason.empty() ? "" : fmt::format(" ({})", reason); };
  std::string text = engine + because(engine_reason);
  if (engine == "io_uring") {
    // Regions are pinned when first read into: without a refusal, all that were needed are.
    text += registered_reason.empty() ? ", registered buffers" : ", unregistered buffers" + because(registered_reason);
  }
  return text + (direct ? ", direct" : ", buffered" + because(direct_reason));
}

}  // namespace estream
