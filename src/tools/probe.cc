// SPDX-License-Identifier: Apache-2.0
// The engine's own ways are tried, so that the answer is what a run will get.
#include "tools/probe.h"

#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "format/file.h"
#include "format/quote.h"
#include "residency/record_file.h"

namespace estream {
namespace {

// Numbers from statfs(2) and linux/magic.h.
const char* KnownFileSystem(uint64_t number) {
  switch (number) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0xF2F52010:
      return "f2fs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlay";
    case 0x65735546:
      return "fuse";
    case 0x6969:
      return "nfs";
    case 0x01021997:
      return "9p";
    case 0x2FC12FC1:
      return "zfs";
    case 0xFF534D42:
      return "cifs";
    default:
      return nullptr;
  }
}

// Hands on the status of one read.
class OneRead final : public ReadSink {
 public:
  void OnRead(uint64_t, const Status& status) override { done_.set_value(status); }
  Status Wait() { return done_.get_future().get(); }

 private:
  std::promise<Status> done_;
};

uint32_t SmallestDirectRead(RecordFile* file, std::span<std::byte> memory) {
  for (const uint32_t bytes : {512u, 4096u}) {
    if (!file->direct()) return 0;
    if (file->ReadSome(4096 - bytes, memory.subspan(4096 - bytes, bytes)) > 0) return bytes;
  }
  return 0;
}

}  // namespace

Result<FileSystemFacts> ProbeFileSystem(const std::string& path) {
  struct statfs info;
  if (statfs(path.c_str(), &info) != 0) {
    const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo;
    return Status(code, fmt::format("{}: {}", ShownPath(path), std::strerror(errno)));
  }
  const auto number = static_cast<uint32_t>(info.f_type);
  const char* known = KnownFileSystem(number);
  return FileSystemFacts{known != nullptr ? known : fmt::format("0x{:X}", number),
                         uint64_t{info.f_bavail} * static_cast<uint64_t>(info.f_bsize)};
}

Result<ReadFacts> ProbeReads(const std::string& path) {
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<RecordFile> file, OpenRecordFile(path));
  ES_ASSIGN_OR_RETURN(const AlignedBuffer memory, AlignedBuffer::Allocate(kPageBytes));
  ReadFacts facts;
  facts.alignment = SmallestDirectRead(file.get(), memory.span());
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<ReadEngine> engine, MakeReadEngine({file}, {memory.span()}, {}));
  OneRead read;
  ES_RETURN_IF_ERROR(engine->Submit({.bytes = kPageBytes, .dest = memory.data(), .sink = &read}));
  ES_RETURN_IF_ERROR(read.Wait());
  facts.mode = engine->mode();
  return facts;
}

Result<ReadFacts> ProbeReadsIn(const std::string& folder) {
  ES_RETURN_IF_ERROR(ProbeFileSystem(folder).status());
  const std::string path = fmt::format("{}/.estream-doctor-{}", folder, getpid());
  if (!WriteFileAtomically(path, std::vector<std::byte>(4 * kPageBytes, std::byte{0x5A})).ok()) {
    return Status::Io(fmt::format("{}: no file can be made there", ShownPath(folder)));
  }
  Result<ReadFacts> facts = ProbeReads(path);
  unlink(path.c_str());
  return facts;
}

}  // namespace estream
