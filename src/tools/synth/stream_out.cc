// SPDX-License-Identifier: Apache-2.0
// One parallel loop a piece: item 0 writes the piece before, the other items read parts of the next one.
#include "tools/synth/stream_out.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "base/macros.h"

namespace estream {
namespace {

// Small enough that threads finish together, big enough that handing parts out costs nothing.
constexpr uint64_t kPartBytes = uint64_t{1} << 20;

// The first error of several threads.
class FirstError {
 public:
  void Note(Status status) {
    if (status.ok()) return;
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
  }
  Status Take() {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::mutex mutex_;
  Status status_;
};

}  // namespace

Status StreamOut(const RandomAccessFile& file, ThreadPool* pool, const ByteSink& sink,
                 const std::function<void(uint64_t)>& progress) {
  ES_ASSIGN_OR_RETURN(const AlignedBuffer front, AlignedBuffer::Allocate(kPieceBytes));
  ES_ASSIGN_OR_RETURN(const AlignedBuffer back, AlignedBuffer::Allocate(kPieceBytes));
  std::span<std::byte> reading = front.span(), writing = back.span();
  uint64_t written_end = 0;  // [written_end, read_end) waits in `writing`
  uint64_t read_end = 0;
  while (written_end < file.size()) {
    const uint64_t start = read_end;
    const uint64_t piece = std::min(kPieceBytes, file.size() - start);
    FirstError error;
    pool->Run(1 + CeilDiv(piece, kPartBytes), [&](uint32_t, uint64_t item) {
      if (item == 0) {
        if (start != written_end) error.Note(sink(writing.first(start - written_end)));
        return;
      }
      const uint64_t from = (item - 1) * kPartBytes;
      error.Note(file.ReadAt(start + from, reading.subspan(from, std::min(kPartBytes, piece - from))));
    });
    ES_RETURN_IF_ERROR(error.Take());
    if (start != written_end) progress(start);
    written_end = start;
    read_end = start + piece;
    std::swap(reading, writing);
  }
  return Status::Ok();
}

}  // namespace estream
