// SPDX-License-Identifier: Apache-2.0
// Everything before a pack's tensors, with all sizes known before the first weight is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "family/model_plan.h"
#include "format/gguf.h"
#include "pack/hash128.h"
#include "pack/pack_layout.h"
#include "pack/source_identity.h"

namespace estream {

// A pack's header as bytes, with the places that are filled in last.
class PackHeader {
 public:
  // The header of a pack of `source`; sets the offsets of `regions`. Hashes are zero. Its size depends on nothing that
  // is not known before the first weight is read; of the identity only on the length of file name and hash.
  static PackHeader Build(const Gguf& source, const ModelPlan& plan, const SourceIdentity& identity,
                          std::vector<PackRegion>* regions);

  const std::vector<std::byte>& bytes() const { return bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of the whole pack

  // The hashes of all units as they stand in the header, and where.
  uint64_t unit_hashes_offset() const { return unit_hashes_; }
  std::span<const std::byte> unit_hashes() const { return std::span(bytes_).subspan(unit_hashes_, unit_hash_bytes_); }

  Hash128 unit_hash(uint64_t unit) const;
  void set_unit_hash(uint64_t unit, const Hash128& hash);

  // Takes the unit hashes of an earlier, unfinished run from its header. Returns whether that header is of the same
  // pack: equal but for magic and hashes. Pre: other.size() == bytes().size().
  bool AdoptHashes(std::span<const std::byte> other);

  // Marks the file as unfinished, so that nobody takes it for a model, or as whole, with the hash of the header: over
  // all bytes before the first region, its own taken as zero.
  void MarkUnfinished();
  void MarkWhole();

 private:
  std::vector<std::byte> bytes_;
  uint64_t file_bytes_ = 0;
  uint64_t unit_hashes_ = 0;  // offsets in bytes_
  uint64_t unit_hash_bytes_ = 0;
  uint64_t header_hash_ = 0;
};

}  // namespace estream
