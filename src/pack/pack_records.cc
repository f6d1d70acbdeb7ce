// SPDX-License-Identifier: Apache-2.0
// A record is one read; an embedding row a short one.
#include "pack/pack_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/macros.h"
#include "format/quote.h"
#include "format/weight_format.h"
#include "pack/check_units.h"
#include "pack/direct_file.h"
#include "pack/gather_rows.h"

namespace estream {
namespace {

class PackRecords : public RecordSource {
 public:
  PackRecords(const PackFile& pack, bool check_hashes) : pack_(pack), check_hashes_(check_hashes) {
    // Whole records are read once: the page cache would only copy them. If this open fails, the pack's own file serves.
    if (auto direct = DirectFile::Open(pack.path()); direct.ok()) records_ = std::move(*direct);
  }

  Status ReadRecord(const RecordPlan& record, std::span<std::byte> out) override {
    ES_CHECK(out.size() == record.bytes);
    const auto extent = pack_.Find(record.name);
    if (!extent || extent->bytes != record.bytes) {
      return Status::Corrupt(
          fmt::format("{}: has no record \"{}\" of {} bytes", ShownPath(pack_.path()), record.name, record.bytes));
    }
    const RandomAccessFile& file = records_ != nullptr ? *records_ : pack_.file();
    ES_RETURN_IF_ERROR(file.ReadAt(extent->offset, out));
    return check_hashes_ ? CheckPackUnits(pack_, extent->offset, out) : Status::Ok();
  }

  Status ReadEmbedding(std::span<const int32_t> tokens, std::span<std::byte> out) override {
    const EmbeddingSpec& embedding = pack_.plan().embedding;
    const uint64_t row_bytes = RowBytes(embedding.format, embedding.hidden);
    const auto read = [&](uint64_t first, uint64_t, std::span<std::byte> rows) {
      const uint64_t offset = pack_.embedding().offset + first * row_bytes;
      return check_hashes_ ? ReadChecked(offset, rows) : pack_.file().ReadAt(offset, rows);
    };
    const auto will_read = [&](uint64_t first, uint64_t rows) {
      pack_.file().WillRead(pack_.embedding().offset + first * row_bytes, rows * row_bytes);
    };
    return GatherRows(tokens, row_bytes, read, will_read, out);
  }

 private:
  // Reads part of a region through whole, checked units; keeps the last one, since rows often share it.
  Status ReadChecked(uint64_t offset, std::span<std::byte> out) {
    const PackRegion& region = PackRegionAt(pack_, offset);
    while (!out.empty()) {
      const uint64_t start = offset - (offset - region.offset) % region.unit_bytes;
      if (unit_.empty() || start != unit_start_) {
        unit_.resize(std::min(region.unit_bytes, region.end() - start));
        unit_start_ = start;
        Status status = pack_.file().ReadAt(start, unit_);
        if (status.ok()) status = CheckPackUnits(pack_, start, unit_);
        if (!status.ok()) {
          unit_.clear();
          return status;
        }
      }
      const auto take = static_cast<size_t>(std::min<uint64_t>(out.size(), start + unit_.size() - offset));
      std::memcpy(out.data(), unit_.data() + (offset - start), take);
      offset += take;
      out = out.subspan(take);
    }
    return Status::Ok();
  }

  const PackFile& pack_;
  const bool check_hashes_;
  std::shared_ptr<const DirectFile> records_;
  std::vector<std::byte> unit_;  // the embedding unit read last, checked
  uint64_t unit_start_ = 0;      // its offset in the file
};

}  // namespace

std::unique_ptr<RecordSource> MakePackRecords(const PackFile& pack, bool check_hashes) {
  return std::make_unique<PackRecords>(pack, check_hashes);
}

}  // namespace estream
