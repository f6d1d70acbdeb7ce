// SPDX-License-Identifier: Apache-2.0
// Any shape and any sequence of rows into the .npy writer: a whole file of the right size, or none.
//
// Input: one byte of rows, one of columns (0..254, 255: a huge number), then one byte for each row: how far its length
// is from the right one (mostly 0), or Finish in between.
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/macros.h"
#include "format/npy.h"

namespace estream {
namespace {

// In memory where there is such a folder: the writer syncs its files, which a disk would make slow.
class Folder {
 public:
  Folder() : path_(std::filesystem::is_directory("/dev/shm") ? "/dev/shm/" : "/tmp/") {
    path_ += "estream-npy-XXXXXX";
    ES_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() { rmdir(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint64_t Dimension(uint8_t byte) { return byte == 255 ? uint64_t{1} << 61 : byte; }

// Feeds `script` to a writer; true when the file is whole.
bool Write(const std::string& path, uint64_t rows, uint64_t cols, const uint8_t* script, size_t size) {
  const auto writer = NpyWriter::Create(path, rows, cols);
  if (!writer.ok()) return false;
  uint64_t appended = 0;
  bool finished = false;
  for (size_t i = 0; i < size; ++i) {
    if (script[i] == 255) {
      const bool ok = (*writer)->Finish().ok();
      ES_CHECK(ok == (appended == rows && !finished));
      finished |= ok;
      continue;
    }
    const uint64_t length = cols > 1'000'000 ? 3 : cols + script[i] % 8 / 6;  // 6 and 7 of 8: one too long
    const bool ok = (*writer)->Append(std::vector<float>(length, static_cast<float>(i))).ok();
    ES_CHECK(ok == (length == cols && appended < rows));
    appended += ok;
  }
  return finished || (*writer)->Finish().ok();
}

void Run(const uint8_t* data, size_t size) {
  if (size < 2) return;
  const uint64_t rows = Dimension(data[0]), cols = Dimension(data[1]);
  static const Folder folder;
  const std::string path = folder.path() + "/a.npy";
  const bool whole = Write(path, rows, cols, data + 2, size - 2);
  std::error_code none;
  const uint64_t bytes = std::filesystem::file_size(path, none);
  ES_CHECK(whole == !none);
  if (whole) ES_CHECK(bytes % 64 == rows * cols * 4 % 64 && bytes > rows * cols * 4);
  std::filesystem::remove(path, none);
  ES_CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run(data, size);
  return 0;
}
