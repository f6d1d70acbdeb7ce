// SPDX-License-Identifier: Apache-2.0
// The long part of packing on an output that fails at any write.
#include "pack/pack_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "family/family.h"
#include "tests/memory_file.h"
#include "tests/pack_rig.h"

namespace estream {
namespace {

// A file in memory whose write number `failing` (from 0) finds the disk full.
class FakeOutput final : public PackOutput {
 public:
  FakeOutput(uint64_t bytes, uint64_t failing) : bytes_(bytes, '\0'), failing_(failing) {}
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (writes_++ >= failing_) return Status::Io("out: cannot be written: No space left on device");
    EXPECT_LE(offset + bytes.size(), bytes_.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(bytes_.data()) + offset);
    return Status::Ok();
  }
  Status Sync() override { return Status::Ok(); }
  const std::string& bytes() const { return bytes_; }
  uint64_t writes() const { return writes_; }

 private:
  std::string bytes_;
  const uint64_t failing_;
  std::atomic<uint64_t> writes_{0};
};

TEST(PackRun, AnyFailingWriteIsAnErrorAndCanBeContinued) {
  const Gguf source = Gguf::Open(ModelPath("olmoe-m-q4_0")).value();
  const ModelPlan plan = PlanModel(source).value();
  std::vector<PackRegion> regions = PackRegions(plan);
  const PackHeader fresh = PackHeader::Build(source, plan, {}, &regions);
  const TensorFiles files(source);
  const PackRun run{.plan = plan, .regions = regions, .threads = 2};
  PackHeader whole = fresh;
  FakeOutput sound(fresh.file_bytes(), ~uint64_t{0});
  ASSERT_TRUE(EncodeRegions(run, files, 0, &whole, &sound).ok());
  for (uint64_t failing = 0; failing < sound.writes(); ++failing) {
    PackHeader header = fresh;
    FakeOutput output(fresh.file_bytes(), failing);
    EXPECT_EQ(EncodeRegions(run, files, 0, &header, &output).code(), StatusCode::kIo) << failing;
    // What another run makes of the remains: units that are there are kept, and no other.
    const MemoryFile remains(output.bytes());
    const uint64_t good = CountGoodUnits(run, remains, header).value();
    FakeOutput second(fresh.file_bytes(), ~uint64_t{0});
    std::vector<std::byte> kept(regions.front().offset);
    ASSERT_TRUE(second.WriteAt(0, std::as_bytes(std::span(output.bytes()))).ok());
    ASSERT_TRUE(EncodeRegions(run, files, good, &header, &second).ok());
    EXPECT_EQ(second.bytes(), sound.bytes()) << failing;
  }
}

TEST(PackRun, HashingWhatIsWrittenGivesTheHashesOfWriting) {
  const Gguf source = Gguf::Open(ModelPath("olmoe-t-q8_0")).value();
  const ModelPlan plan = PlanModel(source).value();
  std::vector<PackRegion> regions = PackRegions(plan);
  PackHeader header = PackHeader::Build(source, plan, {}, &regions);
  PackHeader read_back = header;
  const PackRun run{.plan = plan, .regions = regions, .threads = 1};
  FakeOutput output(header.file_bytes(), ~uint64_t{0});
  ASSERT_TRUE(EncodeRegions(run, TensorFiles(source), 0, &header, &output).ok());
  ASSERT_TRUE(HashRegions(run, MemoryFile(output.bytes()), &read_back).ok());
  EXPECT_EQ(header.bytes(), read_back.bytes());
}

}  // namespace
}  // namespace estream
