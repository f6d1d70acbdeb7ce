// SPDX-License-Identifier: Apache-2.0
// A pipe gives the header that the file gives, then its bytes in order.
#include "pack/forward_source.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/gguf_builder.h"
#include "tests/malformed_cases.h"
#include "tests/pack_rig.h"

namespace estream {
namespace {

// A pipe that `bytes` come out of, `piece` at a time.
class Pipe {
 public:
  Pipe(std::string bytes, size_t piece) : bytes_(std::move(bytes)) {
    EXPECT_EQ(pipe(ends_), 0);
    feeder_ = std::thread([this, piece] {
      for (size_t at = 0; at < bytes_.size();) {
        const ssize_t n = write(ends_[1], bytes_.data() + at, std::min(piece, bytes_.size() - at));
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
      close(ends_[1]);
    });
  }
  ~Pipe() {
    close(ends_[0]);
    feeder_.join();
  }
  int fd() const { return ends_[0]; }

 private:
  const std::string bytes_;
  int ends_[2];
  std::thread feeder_;
};

class ForwardSourceTest : public ::testing::Test {
 protected:
  ForwardSourceTest() { signal(SIGPIPE, SIG_IGN); }
  ~ForwardSourceTest() override { signal(SIGPIPE, SIG_DFL); }
};

TEST_F(ForwardSourceTest, HeaderAndBytesAreThoseOfTheFile) {
  for (const char* name : {"olmoe-m-q4_0", "olmoe-t-f32"}) {
    const std::string bytes = ReadBinary(ModelPath(name));
    const Gguf file = Gguf::Open(ModelPath(name)).value();
    for (const size_t piece : {size_t{7}, size_t{4096}, size_t{1} << 20}) {
      const Pipe pipe(bytes, piece);
      const auto source = ForwardSource::Open(pipe.fd(), "standard input");
      ASSERT_TRUE(source.ok()) << source.status().message();
      EXPECT_EQ((*source)->Identify()->header_hash, HeaderHash(file).value());
      EXPECT_EQ((*source)->gguf().tensors().size(), file.tensors().size());
      std::string got(bytes.size(), '\0');
      size_t at = 0;
      for (size_t step = 1; at < got.size(); step = step * 3 + 1) {
        const size_t take = std::min(step, got.size() - at);
        ASSERT_TRUE((*source)->Read(std::as_writable_bytes(std::span(got).subspan(at, take))).ok());
        at += take;
        EXPECT_EQ((*source)->position(), at);
      }
      EXPECT_EQ(got, bytes);
      EXPECT_EQ((*source)->Drain().value(), bytes.size());
      std::byte more;
      EXPECT_EQ((*source)->Read({&more, 1}).code(), StatusCode::kCorrupt);
    }
  }
}

// A header that is longer than what is read at first, and ends in different places of the pieces.
TEST_F(ForwardSourceTest, LongHeadersAreReadAsFarAsTheyGo) {
  for (const size_t text : {size_t{1000}, size_t{200'000}, size_t{262'000}, size_t{3'000'000}}) {
    GgufBuilder builder;
    builder.String("general.name", std::string(text, 'x'));
    builder.Tensor("t", {64}, 0, std::string(256, '\1'));
    const Pipe pipe(builder.Build() + "tail", 65536);
    const auto source = ForwardSource::Open(pipe.fd(), "standard input");
    ASSERT_TRUE(source.ok()) << source.status().message();
    const GgufTensor& tensor = (*source)->gguf().tensors()[0];
    ASSERT_TRUE((*source)->SkipTo(tensor.offset).ok());
    std::vector<std::byte> data(256);
    ASSERT_TRUE((*source)->Read(data).ok());
    EXPECT_EQ(data[255], std::byte{1});
    EXPECT_EQ((*source)->Drain().value(), builder.Build().size() + 4);
  }
}

TEST_F(ForwardSourceTest, DamagedHeadersAreRefusedAsInFiles) {
  const TempDir dir;
  for (const MalformedCase& c : MalformedCases()) {
    SCOPED_TRACE(c.name);
    const std::string path = MakeMalformed(c, dir);
    const Pipe pipe(ReadBinary(path), 65536);
    const auto source = ForwardSource::Open(pipe.fd(), "standard input");
    EXPECT_EQ(source.ok(), Gguf::Open(path).ok()) << source.status().message();
    EXPECT_LT(source.status().message().size(), 300u);
  }
}

TEST_F(ForwardSourceTest, APartOfASplitSetIsRefused) {
  const Pipe pipe(ReadBinary(TestData("layouts/olmoe-m-q4_0-00001-of-00002.gguf")), 4096);
  EXPECT_EQ(ForwardSource::Open(pipe.fd(), "standard input").status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace estream
