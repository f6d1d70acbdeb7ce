// SPDX-License-Identifier: Apache-2.0
// A pack opened for reading: the plan of its model, and where every record lies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "estream/status.h"
#include "family/model_plan.h"
#include "format/file.h"
#include "format/gguf.h"
#include "pack/hash128.h"
#include "pack/pack_keys.h"
#include "pack/pack_layout.h"
#include "pack/record_name.h"

namespace estream {

struct VerifyOptions {
  uint32_t threads = 0;                                                   // processors to use; 0: all this process may
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;  // bytes; may be empty
  const std::atomic<bool>* cancel = nullptr;
};

// Invariants after Open: keys, plan and tensor table agree; every region lies whole inside the file, page-aligned.
class PackFile {
 public:
  struct Extent {
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;
  };
  // The records of a layer's experts, back to back in pack order: G from position p on are one read of
  // G * record_bytes at offset + p * record_bytes.
  struct Experts {
    uint64_t offset = 0;
    uint64_t record_bytes = 0;
  };

  // Reads the header. Errors: as Gguf::Open and PlanModel; InvalidArgument when the file is a model and no pack;
  // Unsupported for another version; Corrupt, naming the tensor or key, when it is not what its plan says.
  static Result<PackFile> Open(const std::string& path);
  // The same for a file already open.
  static Result<PackFile> Open(std::shared_ptr<const RandomAccessFile> file);

  const std::string& path() const { return gguf_.path(); }
  const Gguf& gguf() const { return gguf_; }  // metadata, tokenizer, the regions as tensors
  const ModelPlan& plan() const { return plan_; }
  const RandomAccessFile& file() const { return gguf_.shard(0); }
  const SourceIdentity& source() const { return keys_.source; }
  // The source's tensor table: names, types and shapes, for reports.
  const std::vector<GgufTensor>& source_tensors() const { return keys_.tensors; }

  Extent block(uint32_t layer) const;
  Experts experts(uint32_t layer) const;  // Pre: a layer with experts
  Extent final_norm() const;
  Extent head() const;
  Extent embedding() const;  // rows of RowBytes(format, hidden), then zeros to the page's end

  // Where a record of the plan lies; nothing for a name that the plan does not have.
  std::optional<Extent> Find(std::string_view record_name) const;

  const std::vector<PackRegion>& regions() const { return regions_; }
  const Hash128& header_hash() const { return hashes_.header; }  // what one pack is told from another by
  const Hash128& unit_hash(uint64_t unit) const { return hashes_.units[unit]; }
  uint64_t bytes() const { return regions_.back().end(); }

  // Reads the whole file and compares every hash.
  //
  //   bad  names what differs ("the header", "blk.3.expert.17"), all of it; may be null
  //
  // Errors: Corrupt, naming the first three; Io; Cancelled.
  Status Verify(const VerifyOptions& options, std::vector<std::string>* bad) const;

  // Ok when the model file at `source_path` is the one this pack was made from.
  // Errors: Corrupt, saying what differs, when it has changed since; as Gguf::Open. Cost: reads its header.
  Status CheckSource(const std::string& source_path) const;

 private:
  PackFile() = default;
  Status PlaceRegions();
  Status VerifyHeader(std::vector<std::string>* bad) const;
  const PackRegion& Region(RegionKind kind, uint32_t layer) const;
  uint32_t PositionOf(uint32_t layer, uint32_t expert) const;

  Gguf gguf_;
  PackKeys keys_;
  ModelPlan plan_;
  std::vector<PackRegion> regions_;
  std::vector<std::vector<uint32_t>> positions_;  // [layer][expert]; empty where the order is the source's
  PackHashes hashes_;
};

}  // namespace estream
