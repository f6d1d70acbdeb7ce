// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pack, as a model to pack, as an order of experts, as a record's name.
//
// The bytes stand for the first ones of a file that goes on with zeros, so that a header alone is a whole pack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/macros.h"
#include "family/family.h"
#include "pack/expert_order.h"
#include "pack/pack_file.h"
#include "pack/pack_header.h"
#include "pack/pack_records.h"
#include "pack/record_encoder.h"

namespace estream {
namespace {

constexpr uint64_t kFileBytes = 1 << 20;
constexpr uint64_t kMaxRecordBytes = 1 << 20;

class ZeroTailFile final : public RandomAccessFile {
 public:
  explicit ZeroTailFile(std::string bytes) : bytes_(std::move(bytes)) {}
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size() || out.size() > size() - offset) return Status::Corrupt(name_ + ": ends too early");
    std::fill(out.begin(), out.end(), std::byte{0});
    if (!out.empty() && offset < bytes_.size())
      std::memcpy(out.data(), &bytes_[offset], std::min(out.size(), bytes_.size() - offset));
    return Status::Ok();
  }
  uint64_t size() const override { return std::max<uint64_t>(kFileBytes, bytes_.size()); }
  const std::string& name() const override { return name_; }

 private:
  const std::string bytes_;
  const std::string name_ = "fuzz.gguf";
};

void CheckMessage(const Status& status) {
  ES_CHECK(status.ok() || (!status.message().empty() && status.message().size() < 300));
}

// Records that a test of a big model would not read in time are left out.
std::vector<RecordPlan> SomeRecords(const ModelPlan& plan) {
  std::vector<RecordPlan> records = {plan.final_record, plan.head_record};
  for (uint32_t l = 0; l < std::min<size_t>(plan.layers.size(), 3); ++l) {
    records.push_back(plan.layers[l].block);
    if (!plan.layers[l].sparse) continue;
    records.push_back(ExpertRecord(plan, l, 0));
    records.push_back(ExpertRecord(plan, l, plan.experts - 1));
  }
  std::erase_if(records, [](const RecordPlan& r) { return r.bytes > kMaxRecordBytes; });
  return records;
}

void ReadPack(const PackFile& pack) {
  CheckMessage(pack.Verify({.threads = 1}, nullptr));
  const auto checked = MakePackRecords(pack, true), plain = MakePackRecords(pack, false);
  for (const RecordPlan& record : SomeRecords(pack.plan())) {
    const auto extent = pack.Find(record.name);
    ES_CHECK(extent && extent->bytes == record.bytes && extent->offset + extent->bytes <= pack.file().size());
    std::vector<std::byte> bytes(record.bytes);
    CheckMessage(checked->ReadRecord(record, bytes));
    ES_CHECK(plain->ReadRecord(record, bytes).ok());
  }
  const auto last = static_cast<int32_t>(pack.plan().vocabulary - 1);
  const std::vector<int32_t> tokens = {last, 0, last};
  std::vector<std::byte> rows(3 * RowBytes(pack.plan().embedding.format, pack.plan().hidden));
  ES_CHECK(plain->ReadEmbedding(tokens, rows).ok());
  CheckMessage(checked->ReadEmbedding(tokens, rows));
}

void PackModelParts(const Gguf& model) {
  Result<ModelPlan> plan = PlanModel(model);
  CheckMessage(plan.status());
  if (!plan.ok()) return;
  const TensorFiles files(model);
  RecordEncoder encoder(files, *plan, 4096);
  for (const RecordPlan& record : SomeRecords(*plan)) {
    std::vector<std::byte> bytes(record.bytes);
    CheckMessage(encoder.Encode(record, 0, bytes));
    CheckMessage(encoder.Encode(record, record.bytes / 3, std::span(bytes).first(record.bytes / 3)));
  }
  std::vector<PackRegion> regions = PackRegions(*plan);
  PackHeader header = PackHeader::Build(model, *plan, {}, &regions);
  const std::vector<std::byte> copy = header.bytes();
  ES_CHECK(header.AdoptHashes(copy));
  header.MarkWhole();
}

void Run(const std::string& bytes) {
  const auto file = std::make_shared<ZeroTailFile>(bytes);
  const Result<PackFile> pack = PackFile::Open(file);
  CheckMessage(pack.status());
  if (pack.ok()) {
    ReadPack(*pack);
    ModelPlan plan = pack->plan();
    CheckMessage(ParseExpertOrder(bytes, "order", &plan));
    (void)FindRecord(plan, bytes);
  } else if (pack.status().code() == StatusCode::kInvalidArgument) {  // a model and no pack
    PackModelParts(*Gguf::Open(file));
  } else {
    ModelPlan plan;
    plan.experts = 4;
    plan.layers.resize(2);
    plan.sparse_layers = {0, 1};
    CheckMessage(ParseExpertOrder(bytes, "order", &plan));
    (void)FindRecord(plan, bytes);
  }
}

}  // namespace
}  // namespace estream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estream::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
