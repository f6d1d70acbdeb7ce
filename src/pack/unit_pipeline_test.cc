// SPDX-License-Identifier: Apache-2.0
// Windows cover every byte once; hashes are those of the units, in order, whatever the threads do.
#include "pack/unit_pipeline.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "tests/random.h"

namespace estream {
namespace {

// Regions of a page each and more, with units from one page to longer than a window.
std::vector<PackRegion> SomeRegions() {
  constexpr uint64_t kMiB = 1 << 20;
  struct Shape {
    uint64_t bytes, unit_bytes;
  };
  std::vector<PackRegion> regions;
  uint64_t offset = 2 * kPageBytes, unit = 0;
  for (const Shape& s : {Shape{kPageBytes, kMiB}, Shape{5 * kPageBytes, kPageBytes}, Shape{20 * kMiB, 20 * kMiB},
                         Shape{6 * (kMiB + kPageBytes), kMiB + kPageBytes}, Shape{3 * 9 * kMiB, 9 * kMiB},
                         Shape{2 * kMiB + kPageBytes, kMiB}}) {
    PackRegion region{"r" + std::to_string(regions.size()), RegionKind::kBlock, 0, offset, s.bytes, s.unit_bytes, unit};
    offset += s.bytes;
    unit += region.units();
    regions.push_back(region);
  }
  return regions;
}

// Byte i of region r.
std::byte ByteAt(uint32_t r, uint64_t i) { return static_cast<std::byte>((i >> 12) * 31 + r * 7 + i); }

Status Fill(const PackWindow& window, std::span<std::byte> out) {
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = ByteAt(window.region, window.first + i);
  return Status::Ok();
}

std::vector<Hash128> ExpectedHashes(const std::vector<PackRegion>& regions) {
  std::vector<Hash128> hashes;
  for (uint32_t r = 0; r < regions.size(); ++r) {
    for (uint64_t at = 0; at < regions[r].bytes; at += regions[r].unit_bytes) {
      std::vector<std::byte> unit(std::min(regions[r].unit_bytes, regions[r].bytes - at));
      for (uint64_t i = 0; i < unit.size(); ++i) unit[i] = ByteAt(r, at + i);
      hashes.push_back(HashOf(unit));
    }
  }
  return hashes;
}

TEST(UnitPipeline, WindowsCoverTheRestOfThePackOnce) {
  const std::vector<PackRegion> regions = SomeRegions();
  for (const uint64_t max_bytes : {kPageBytes, 3 * kPageBytes, uint64_t{1} << 20, uint64_t{8} << 20}) {
    for (uint64_t first = 0; first <= UnitCount(regions); ++first) {
      uint64_t bytes = 0, end = 0;
      uint32_t region = 0;
      for (const PackWindow& w : CutWindows(regions, first, max_bytes)) {
        if (w.region != region) end = 0;
        if (bytes > 0 && w.region == region) {
          EXPECT_EQ(w.first, end);
        }
        region = w.region;
        end = w.first + w.bytes;
        EXPECT_LE(end, regions[w.region].bytes);
        EXPECT_LE(w.bytes, max_bytes);
        EXPECT_EQ(w.first % kPageBytes, 0u);
        EXPECT_EQ(w.bytes % kPageBytes, 0u);
        bytes += w.bytes;
      }
      EXPECT_EQ(bytes, BytesBefore(regions, UnitCount(regions)) - BytesBefore(regions, first));
    }
  }
}

TEST(UnitPipeline, HashesUnitsInOrderAndHandsEveryWindowOn) {
  const std::vector<PackRegion> regions = SomeRegions();
  const std::vector<Hash128> expected = ExpectedHashes(regions);
  for (const uint32_t threads : {1u, 2u, 7u, 32u}) {
    std::vector<Hash128> hashes;
    std::atomic<uint64_t> progress = 0;
    uint64_t handed = 0;
    std::mutex mutex;
    UnitPipeline pipeline{.regions = regions, .threads = threads};
    pipeline.fill = [&](uint32_t, const PackWindow& w, std::span<std::byte> out) {
      // Nobody runs ahead: all threads work on the windows that come next.
      EXPECT_LE(BytesBefore(regions, regions[w.region].first_unit) + w.first,
                progress + threads * WindowBytes(threads));
      return Fill(w, out);
    };
    pipeline.on_unit = [&](uint64_t unit, const Hash128& hash) {
      EXPECT_EQ(unit, hashes.size());
      hashes.push_back(hash);
      return true;
    };
    pipeline.on_progress = [&](uint64_t bytes) { progress += bytes; };
    pipeline.hand_on = [&](const PackWindow& w, std::span<const std::byte> bytes) {
      EXPECT_EQ(bytes[0], ByteAt(w.region, w.first));
      const std::lock_guard lock(mutex);
      handed += bytes.size();
      return Status::Ok();
    };
    EXPECT_TRUE(pipeline.Run().ok());
    EXPECT_EQ(hashes, expected);
    EXPECT_EQ(progress, BytesBefore(regions, UnitCount(regions)));
    EXPECT_EQ(handed, progress);
  }
}

TEST(UnitPipeline, TheFirstErrorInFileOrderIsReturned) {
  const std::vector<PackRegion> regions = SomeRegions();
  for (const uint32_t threads : {1u, 4u}) {
    UnitPipeline pipeline{.regions = regions, .threads = threads};
    pipeline.fill = [](uint32_t, const PackWindow& w, std::span<std::byte>) {
      return w.region < 2 ? Status::Ok() : Status::Corrupt("region " + std::to_string(w.region));
    };
    pipeline.on_unit = [](uint64_t, const Hash128&) { return true; };
    EXPECT_EQ(pipeline.Run().message(), "region 2");
  }
}

TEST(UnitPipeline, AFailedHandOverEndsIt) {
  const std::vector<PackRegion> regions = SomeRegions();
  UnitPipeline pipeline{.regions = regions, .threads = 3};
  pipeline.fill = [](uint32_t, const PackWindow& w, std::span<std::byte> out) { return Fill(w, out); };
  pipeline.on_unit = [](uint64_t, const Hash128&) { return true; };
  pipeline.hand_on = [](const PackWindow&, std::span<const std::byte>) { return Status::Io("full"); };
  EXPECT_EQ(pipeline.Run().message(), "full");
}

TEST(UnitPipeline, EndsEarlyWhenEnoughHasBeenSeen) {
  const std::vector<PackRegion> regions = SomeRegions();
  uint64_t seen = 0;
  UnitPipeline pipeline{.regions = regions, .threads = 4};
  pipeline.fill = [](uint32_t, const PackWindow& w, std::span<std::byte> out) { return Fill(w, out); };
  pipeline.on_unit = [&](uint64_t, const Hash128&) { return ++seen < 4; };
  EXPECT_TRUE(pipeline.Run().ok());
  EXPECT_EQ(seen, 4u);
}

TEST(UnitPipeline, CancelEndsIt) {
  const std::vector<PackRegion> regions = SomeRegions();
  std::atomic<bool> cancel{false};
  uint64_t seen = 0;
  UnitPipeline pipeline{.regions = regions, .threads = 4};
  pipeline.fill = [](uint32_t, const PackWindow& w, std::span<std::byte> out) { return Fill(w, out); };
  pipeline.on_unit = [&](uint64_t, const Hash128&) {
    if (++seen == 3) cancel = true;
    return true;
  };
  pipeline.cancel = &cancel;
  EXPECT_EQ(pipeline.Run().code(), StatusCode::kCancelled);
}

TEST(UnitPipeline, MemoryIsBoundedForAnyNumberOfThreads) {
  for (const uint32_t processors : {1u, 2u, 8u, 64u, 1024u}) {
    const uint32_t threads = PipelineThreads(processors);
    EXPECT_LE(2 * threads * WindowBytes(threads), uint64_t{64} << 20);
  }
}

}  // namespace
}  // namespace estream
