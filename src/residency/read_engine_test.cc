// SPDX-License-Identifier: Apache-2.0
// Both read engines, with real files: direct and buffered, pinned and not, closed while they read.
#include "residency/read_engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <random>
#include <thread>

#include "base/aligned_buffer.h"
#include "base/mutex.h"
#include "residency/testing/faulty_file.h"
#include "residency/testing/pattern.h"

namespace estream {
namespace {

using testing::FaultyFile;
using testing::HasPattern;
using testing::PatternBytes;
using testing::PatternFile;
using Kind = ReadEngineOptions::Kind;

// Remembers every outcome.
class Collector final : public ReadSink {
 public:
  void OnRead(uint64_t tag, const Status& status) override ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(outcomes_.emplace(tag, status).second) << "read " << tag << " ended twice";
    changed_.NotifyAll();
  }
  // The outcome of read `tag`, waiting for it.
  Status Wait(uint64_t tag) ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!outcomes_.contains(tag)) changed_.Wait(mutex_);
    return outcomes_[tag];
  }
  std::map<uint64_t, Status> outcomes() const ES_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return outcomes_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Status> outcomes_ ES_GUARDED_BY(mutex_);
};

// An engine as these tests vary it.
struct Variant {
  const char* name;
  Kind kind;
  bool registered;
  bool direct;
};

class ReadEngineTest : public ::testing::TestWithParam<Variant> {
 protected:
  static constexpr uint64_t kFileBytes = 6 << 20;
  static constexpr uint32_t kDepth = 4;
  static constexpr uint64_t kSlotBytes = 3 << 19;  // 1.5 MiB: two chunks when buffered

  void SetUp() override {
    memory_ = AlignedBuffer::Allocate(kDepth * kSlotBytes).value();
    auto file = OpenRecordFile(disk_.path(), GetParam().direct);
    ASSERT_TRUE(file.ok()) << file.status().message();
    files_ = {*file};
    auto engine = MakeReadEngine(files_, Regions(), {GetParam().kind, kDepth, GetParam().registered});
    if (engine.status().code() == StatusCode::kUnsupported) GTEST_SKIP() << engine.status().message();
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    engine_ = std::move(*engine);
  }

  std::byte* Slot(uint32_t slot) const { return memory_.data() + slot * kSlotBytes; }
  std::vector<std::span<std::byte>> Regions() const {
    std::vector<std::span<std::byte>> regions;
    for (uint32_t slot = kDepth; slot-- > 0;) regions.push_back({Slot(slot), kSlotBytes});
    return regions;
  }

  PatternFile disk_{ES_BINARY_DIR, kFileBytes};
  AlignedBuffer memory_;
  std::vector<std::shared_ptr<RecordFile>> files_;
  std::unique_ptr<ReadEngine> engine_;
};

// Keeps every slot busy: each read that ends is checked and followed by the next, from inside the sink.
class Relay final : public ReadSink {
 public:
  Relay(ReadEngine* engine, std::vector<std::span<std::byte>> slots, uint64_t file_bytes, uint32_t reads, uint32_t seed)
      : engine_(engine), slots_(std::move(slots)), file_bytes_(file_bytes), left_(reads), random_(seed) {}

  void Run() ES_EXCLUDES(mutex_) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) Next(slot);
    MutexLock lock(mutex_);
    while (busy_ > 0) idle_.Wait(mutex_);
  }
  void OnRead(uint64_t slot, const Status& status) override ES_EXCLUDES(mutex_) {
    EXPECT_TRUE(status.ok()) << status.message();
    ReadRequest done;
    {
      MutexLock lock(mutex_);
      done = requests_[slot];
    }
    EXPECT_TRUE(HasPattern({done.dest, done.bytes}, done.offset)) << done.offset << "+" << done.bytes;
    Next(static_cast<uint32_t>(slot));
    MutexLock lock(mutex_);
    if (--busy_ == 0) idle_.NotifyAll();
  }

 private:
  void Next(uint32_t slot) ES_EXCLUDES(mutex_) {
    ReadRequest request;
    {
      MutexLock lock(mutex_);
      if (left_ == 0) return;
      --left_;
      ++busy_;
      const uint64_t pages = 1 + random_() % (slots_[slot].size() / kPageBytes);
      const uint64_t first = random_() % (file_bytes_ / kPageBytes - pages + 1);
      // Somewhere in the slot, so that reads begin anywhere in a pinned region.
      const uint64_t skip = random_() % (slots_[slot].size() / kPageBytes - pages + 1) * kPageBytes;
      request = {0, first * kPageBytes, pages * kPageBytes, slots_[slot].data() + skip, slot, this};
      requests_[slot] = request;
    }
    const Status status = engine_->Submit(request);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  ReadEngine* const engine_;
  const std::vector<std::span<std::byte>> slots_;
  const uint64_t file_bytes_;
  Mutex mutex_;
  CondVar idle_;
  std::map<uint64_t, ReadRequest> requests_ ES_GUARDED_BY(mutex_);
  uint32_t left_ ES_GUARDED_BY(mutex_);
  uint32_t busy_ ES_GUARDED_BY(mutex_) = 0;
  std::mt19937 random_ ES_GUARDED_BY(mutex_);
};

TEST_P(ReadEngineTest, ReadsArriveWholeWhateverTheirPlaceAndSize) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  Relay relay(engine_.get(), Regions(), kFileBytes, 100, seed);
  relay.Run();
  const ReadMode mode = engine_->mode();
  EXPECT_EQ(mode.direct, files_[0]->direct());
  const bool pinned = mode.engine == "io_uring" && mode.registered_reason.empty();
  EXPECT_EQ(mode.registered_regions, pinned ? kDepth : 0u) << mode.ToString();
  EXPECT_TRUE(GetParam().registered || !pinned);
}

TEST_P(ReadEngineTest, FileThatWasCutFailsItsReadAndNoOther) {
  const uint64_t end = 2 * kSlotBytes + 1234;
  disk_.Truncate(end);
  Collector sink;
  for (uint32_t slot = 0; slot < 3; ++slot) {
    ASSERT_TRUE(engine_->Submit({0, slot * kSlotBytes, kSlotBytes, Slot(slot), slot, &sink}).ok());
  }
  ASSERT_TRUE(engine_->Submit({0, 4 << 20, kPageBytes, Slot(3), 3, &sink}).ok());
  EXPECT_TRUE(sink.Wait(0).ok());
  EXPECT_TRUE(sink.Wait(1).ok());
  EXPECT_EQ(sink.Wait(2).code(), StatusCode::kCorrupt);
  EXPECT_NE(sink.Wait(2).message().find("ends at byte " + std::to_string(end)), std::string::npos)
      << sink.Wait(2).message();
  EXPECT_EQ(sink.Wait(3).code(), StatusCode::kCorrupt);
}

TEST_P(ReadEngineTest, CloseEndsEveryReadOnceAndTouchesNoMemoryAfterwards) {
  Collector sink;
  for (uint32_t slot = 0; slot < kDepth; ++slot) {
    ASSERT_TRUE(engine_->Submit({0, 0, kSlotBytes, Slot(slot), slot, &sink}).ok());
  }
  engine_->Close();
  const auto outcomes = sink.outcomes();
  EXPECT_EQ(outcomes.size(), kDepth);
  for (const auto& [slot, status] : outcomes) {
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status.message();
    EXPECT_EQ(status.ok(), HasPattern({Slot(static_cast<uint32_t>(slot)), kSlotBytes}, 0));
  }
  EXPECT_EQ(engine_->Submit({0, 0, kPageBytes, Slot(0), 9, &sink}).code(), StatusCode::kCancelled);
  engine_->Close();
  memory_.Reset();  // a write from here on is a fault
}

TEST_P(ReadEngineTest, EngineThatWasNeverUsedCloses) {
  engine_->Close();
  engine_.reset();
}

TEST_P(ReadEngineTest, ReadsOutliveTheThreadThatAskedForThem) {
  Collector sink;
  for (uint64_t round = 0; round < 20; ++round) {
    std::thread([&] {
      EXPECT_TRUE(engine_->Submit({0, round * kPageBytes, kSlotBytes, Slot(0), round, &sink}).ok());
    }).join();
    ASSERT_TRUE(sink.Wait(round).ok()) << sink.Wait(round).message();
    EXPECT_TRUE(HasPattern({Slot(0), kSlotBytes}, round * kPageBytes));
  }
}

TEST_P(ReadEngineTest, MemoryOutsideTheRegionsWorksToo) {
  const AlignedBuffer other = AlignedBuffer::Allocate(kSlotBytes).value();
  Collector sink;
  ASSERT_TRUE(engine_->Submit({0, kPageBytes, kSlotBytes, other.data(), 0, &sink}).ok());
  // Across two regions.
  ASSERT_TRUE(engine_->Submit({0, 0, 2 * kPageBytes, Slot(1) - kPageBytes, 1, &sink}).ok());
  EXPECT_TRUE(sink.Wait(0).ok()) << sink.Wait(0).message();
  EXPECT_TRUE(sink.Wait(1).ok()) << sink.Wait(1).message();
  EXPECT_TRUE(HasPattern(other.span(), kPageBytes));
  EXPECT_TRUE(HasPattern({Slot(1) - kPageBytes, 2 * kPageBytes}, 0));
}

TEST_P(ReadEngineTest, ReadsThatCannotBeAreRefusedAtOnce) {
  Collector sink;
  const ReadRequest good = {0, 0, kPageBytes, Slot(0), 0, &sink};
  std::vector<ReadRequest> bad(7, good);
  bad[0].file = 1;
  bad[1].offset = 512;
  bad[2].bytes = 100;
  bad[3].bytes = 0;
  bad[4].dest += 8;
  bad[5].sink = nullptr;
  bad[6].offset = ~uint64_t{4095};
  for (const ReadRequest& request : bad) {
    EXPECT_EQ(engine_->Submit(request).code(), StatusCode::kInvalidArgument) << &request - bad.data();
  }
  engine_->Close();
  EXPECT_TRUE(sink.outcomes().empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, ReadEngineTest,
                         ::testing::Values(Variant{"UringPinnedDirect", Kind::kUring, true, true},
                                           Variant{"UringPinnedBuffered", Kind::kUring, true, false},
                                           Variant{"UringDirect", Kind::kUring, false, true},
                                           Variant{"UringBuffered", Kind::kUring, false, false},
                                           Variant{"ThreadsDirect", Kind::kThreads, false, true},
                                           Variant{"ThreadsBuffered", Kind::kThreads, false, false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ThreadReadEngine, NoMoreThanDepthReadsAreTakenInHand) {
  auto file = std::make_shared<FaultyFile>(PatternBytes(16 * kPageBytes));
  const AlignedBuffer memory = AlignedBuffer::Allocate(3 * kPageBytes).value();
  auto engine = MakeReadEngine({file}, {}, {Kind::kThreads, 2}).value();
  Collector sink;
  file->Hold();
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine->Submit({0, 0, kPageBytes, memory.data() + i * kPageBytes, i, &sink}).ok());
  }
  EXPECT_EQ(engine->Submit({0, 0, kPageBytes, memory.data(), 2, &sink}).code(), StatusCode::kInvalidArgument);
  file->WaitUntilHolding(2);
  file->Release();
  EXPECT_TRUE(sink.Wait(0).ok());
  EXPECT_TRUE(sink.Wait(1).ok());
}

TEST(ThreadReadEngine, FailureAtAnyAttemptFailsThatReadOnly) {
  constexpr uint64_t kReads = 8;
  const AlignedBuffer memory = AlignedBuffer::Allocate(kReads * kPageBytes).value();
  for (uint64_t k = 0; k < kReads; ++k) {
    auto file = std::make_shared<FaultyFile>(PatternBytes(kReads * kPageBytes));
    file->FailAt(k, EIO);
    auto engine = MakeReadEngine({file}, {}, {Kind::kThreads, 1}).value();
    Collector sink;
    for (uint64_t i = 0; i < kReads; ++i) {
      ASSERT_TRUE(engine->Submit({0, i * kPageBytes, kPageBytes, memory.data() + i * kPageBytes, i, &sink}).ok());
      EXPECT_EQ(sink.Wait(i).code(), i == k ? StatusCode::kIo : StatusCode::kOk);
    }
  }
}

TEST(ReadEngine, FilesThatOnlyCodeCanReadAreReadByThreads) {
  auto file = std::make_shared<FaultyFile>(PatternBytes(kPageBytes));
  auto engine = MakeReadEngine({file}, {}, {});
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->mode().engine, "threads");
  EXPECT_NE((*engine)->mode().engine_reason, "");
  EXPECT_EQ(MakeReadEngine({file}, {}, {Kind::kUring}).status().code(), StatusCode::kUnsupported);
}

// Makes the calling thread, and those it starts, one that may not use io_uring, as containers' default rules do.
bool ForbidUring() {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {static_cast<unsigned short>(std::size(rules)), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ReadEngine, WhereIoUringIsForbiddenThreadsReadAndSayWhy) {
  const PatternFile disk(ES_BINARY_DIR, kPageBytes);
  const auto file = OpenRecordFile(disk.path()).value();
  std::unique_ptr<ReadEngine> engine;
  std::thread([&] {
    if (ForbidUring()) engine = MakeReadEngine({file}, {}, {}).value();
  }).join();
  if (engine == nullptr) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(engine->mode().engine, "threads");
  EXPECT_EQ(engine->mode().engine_reason, "io_uring: Operation not permitted");
  const AlignedBuffer memory = AlignedBuffer::Allocate(kPageBytes).value();
  Collector sink;
  ASSERT_TRUE(engine->Submit({0, 0, kPageBytes, memory.data(), 0, &sink}).ok());
  EXPECT_TRUE(sink.Wait(0).ok());
  EXPECT_TRUE(HasPattern(memory.span(), 0));
}

// A file whose descriptor cannot be read from.
class UnreadableFile final : public RecordFile {
 public:
  explicit UnreadableFile(const std::string& path) : fd_(open(path.c_str(), O_WRONLY | O_CLOEXEC)), name_(path) {}
  ~UnreadableFile() override { close(fd_); }
  int64_t ReadSome(uint64_t, std::span<std::byte>) override { return -EBADF; }
  int descriptor() const override { return fd_; }
  uint64_t size_now() const override { return 0; }
  const std::string& name() const override { return name_; }
  bool direct() const override { return false; }
  std::string buffered_reason() const override { return "test"; }
  void GoBuffered(int) override {}
  void DropBehind(uint64_t, uint64_t) override {}

 private:
  const int fd_;
  const std::string name_;
};

TEST(ReadEngine, ErrorsOfTheKernelReachTheirReadInEveryEngine) {
  const PatternFile disk(ES_BINARY_DIR, kPageBytes);
  const AlignedBuffer memory = AlignedBuffer::Allocate(2 * kPageBytes).value();
  for (const Kind kind : {Kind::kAuto, Kind::kThreads}) {
    auto engine = MakeReadEngine({std::make_shared<UnreadableFile>(disk.path()), OpenRecordFile(disk.path()).value()},
                                 {memory.span()}, {kind});
    ASSERT_TRUE(engine.ok());
    Collector sink;
    ASSERT_TRUE((*engine)->Submit({0, 0, kPageBytes, memory.data(), 0, &sink}).ok());
    ASSERT_TRUE((*engine)->Submit({1, 0, kPageBytes, memory.data() + kPageBytes, 1, &sink}).ok());
    EXPECT_EQ(sink.Wait(0).code(), StatusCode::kIo);
    EXPECT_NE(sink.Wait(0).message().find("Bad file descriptor"), std::string::npos) << sink.Wait(0).message();
    EXPECT_TRUE(sink.Wait(1).ok());
  }
}

TEST(UringReadEngine, MemoryThatCannotBePinnedIsReadIntoUnpinned) {
  const PatternFile disk(ES_BINARY_DIR, 4 * kPageBytes);
  const PatternFile target(ES_BINARY_DIR, 4 * kPageBytes);
  // Pages of a file on disk must not be pinned for long; the kernel refuses to register them.
  const int fd = open(target.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  void* const mapped = mmap(nullptr, 4 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(mapped);
  const AlignedBuffer ordinary = AlignedBuffer::Allocate(kPageBytes).value();
  auto engine = MakeReadEngine({OpenRecordFile(disk.path()).value()}, {{memory, 4 * kPageBytes}, ordinary.span()},
                               {Kind::kUring});
  if (!engine.ok()) GTEST_SKIP() << engine.status().message();
  std::fill_n(memory, 4 * kPageBytes, std::byte{0});
  Collector sink;
  ASSERT_TRUE((*engine)->Submit({0, 0, 4 * kPageBytes, memory, 0, &sink}).ok());
  EXPECT_TRUE(sink.Wait(0).ok()) << sink.Wait(0).message();
  EXPECT_TRUE(HasPattern({memory, 4 * kPageBytes}, 0));
  const bool refused = (*engine)->mode().registered_regions == 0;
  ASSERT_TRUE((*engine)->Submit({0, 0, kPageBytes, ordinary.data(), 1, &sink}).ok());
  EXPECT_TRUE(sink.Wait(1).ok());
  // After one refusal no other region is tried, and the mode says why.
  EXPECT_EQ((*engine)->mode().registered_reason.empty(), !refused);
  EXPECT_EQ((*engine)->mode().registered_regions, refused ? 0u : 2u);
  engine->reset();
  munmap(mapped, 4 * kPageBytes);
}

TEST(ReadEngine, DepthIsBounded) {
  for (const uint32_t depth : {0u, ReadEngineOptions::kMaxDepth + 1}) {
    EXPECT_EQ(MakeReadEngine({}, {}, {Kind::kAuto, depth}).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(ReadMode, IsOneLineThatGivesReasons) {
  ReadMode mode = {.engine = "io_uring", .registered_regions = 3, .direct = true};
  EXPECT_EQ(mode.ToString(), "io_uring, registered buffers, direct");
  mode.registered_reason = "Cannot allocate memory";
  mode.direct = false;
  mode.direct_reason = "direct reads refused: Invalid argument";
  EXPECT_EQ(mode.ToString(),
            "io_uring, unregistered buffers (Cannot allocate memory), "
            "buffered (direct reads refused: Invalid argument)");
  mode = {.engine = "threads", .engine_reason = "io_uring: Operation not permitted", .direct = true};
  EXPECT_EQ(mode.ToString(), "threads (io_uring: Operation not permitted), direct");
}

}  // namespace
}  // namespace estream
