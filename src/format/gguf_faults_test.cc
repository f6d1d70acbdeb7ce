// SPDX-License-Identifier: Apache-2.0
// A reader whose file fails, ends early or has random bytes changed: always an error or a file that can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "format/gguf.h"
#include "tests/allocation_probe.h"
#include "tests/gguf_walk.h"
#include "tests/memory_file.h"
#include "tests/test_files.h"

namespace estream {
namespace {

std::string SmallModel() { return ReadBinary(TestData("models/olmoe-m-q4_0.gguf")); }

uint64_t DataStart(const Gguf& gguf) {
  uint64_t start = gguf.file_bytes();
  for (const GgufTensor& tensor : gguf.tensors()) start = std::min(start, tensor.offset);
  return start;
}

TEST(GgufFaults, EveryReadMayFail) {
  for (const char* model : {"olmoe-m-q4_0", "olmoe-s-stock_q4_0"}) {
    const auto bytes = std::make_shared<MemoryFile>(ReadBinary(TestData(std::string("models/") + model + ".gguf")));
    const auto sound = std::make_shared<FaultyFile>(bytes);
    ASSERT_TRUE(Gguf::Open(sound).ok());
    ASSERT_GT(sound->reads(), 0u);
    for (uint64_t k = 0; k < sound->reads(); ++k) {
      const auto gguf = Gguf::Open(std::make_shared<FaultyFile>(bytes, k));
      ASSERT_EQ(gguf.status().code(), StatusCode::kIo) << "read " << k << " of " << sound->reads();
      EXPECT_EQ(gguf.status().message(), "memory.gguf: cannot be read: Input/output error");
    }
  }
}

TEST(GgufFaults, AFailedTensorReadLeavesTheFileUsable) {
  const auto bytes = std::make_shared<MemoryFile>(SmallModel());
  const auto counted = std::make_shared<FaultyFile>(bytes);
  ASSERT_TRUE(Gguf::Open(counted).ok());
  const auto gguf = Gguf::Open(std::make_shared<FaultyFile>(bytes, counted->reads()));
  ASSERT_TRUE(gguf.ok());
  std::byte out[16];
  EXPECT_EQ(gguf->ReadTensor(gguf->tensors()[0], 0, out).code(), StatusCode::kIo);
  EXPECT_TRUE(gguf->ReadTensor(gguf->tensors()[0], 0, out).ok());
}

// Cut at every byte of the header and throughout the data: the tensor whose end is gone refuses the file.
TEST(GgufFaults, CutAnywhereIsAnError) {
  const std::string whole = SmallModel();
  const auto sound = Gguf::Open(std::make_shared<MemoryFile>(whole));
  ASSERT_TRUE(sound.ok());
  uint64_t needed = 0;
  for (const GgufTensor& tensor : sound->tensors()) needed = std::max(needed, tensor.offset + tensor.bytes);
  const uint64_t data_start = DataStart(*sound);
  for (uint64_t bytes = 0; bytes < whole.size(); bytes += bytes < data_start ? 1 : 61) {
    const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(whole.substr(0, bytes)));
    ASSERT_EQ(gguf.ok(), bytes >= needed) << "cut to " << bytes << " bytes";
    ASSERT_EQ(gguf.status().code(), bytes >= needed ? StatusCode::kOk : StatusCode::kCorrupt);
  }
}

TEST(GgufFaults, RandomBytesNeverHarm) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string whole = SmallModel();
  const auto sound = Gguf::Open(std::make_shared<MemoryFile>(whole));
  ASSERT_TRUE(sound.ok());
  const uint64_t header = DataStart(*sound);
  uint64_t opened = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = whole;
    for (uint32_t flips = 1 + random() % 8; flips > 0; --flips) {
      // Half of them sign or size bytes: those that make numbers huge.
      const char value =
          random() % 2 == 0 ? static_cast<char>(random()) : static_cast<char>(random() % 2 == 0 ? 0 : 255);
      bytes[random() % header] = value;
    }
    ResetLargestAllocation();
    const auto gguf = Gguf::Open(std::make_shared<MemoryFile>(std::move(bytes)));
    if (gguf.ok()) {
      ++opened;
      WalkGguf(*gguf);
    } else {
      ASSERT_LT(gguf.status().message().size(), 300u);
    }
    ASSERT_LT(LargestAllocation(), size_t{1} << 20) << "round " << round;
  }
  EXPECT_GT(opened, 0u);
}

}  // namespace
}  // namespace estream
