// SPDX-License-Identifier: Apache-2.0
// Making packs in tests: from a file, from a pipe, with an order.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "pack/pack_file.h"
#include "pack/pack_writer.h"
#include "tests/test_files.h"

namespace estream {

inline std::string ModelPath(const std::string& name) { return TestData("models/" + name + ".gguf"); }

// Options for packing `source` to `out`, on two processors.
inline PackOptions PackTo(const std::string& source, const std::string& out) {
  PackOptions options;
  options.source = source;
  options.out = out;
  options.threads = 2;
  return options;
}

// Packs `source` to `out` and opens the result; fails the test when it cannot.
inline Result<PackFile> MakePack(const std::string& source, const std::string& out, const std::string& order = "") {
  PackOptions options = PackTo(source, out);
  options.order_file = order;
  PackReport report;
  const Status status = PackModel(options, &report);
  EXPECT_TRUE(status.ok()) << status.message();
  return PackFile::Open(out);
}

// Runs PackModel with `bytes` arriving through a pipe, at most `piece` at a time.
inline Status PackFromPipe(PackOptions options, const std::string& bytes, size_t piece, PackReport* report) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::thread feeder([&bytes, piece, out = ends[1]] {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = write(out, bytes.data() + at, std::min(piece, bytes.size() - at));
      if (n <= 0) break;  // the reader has gone
      at += static_cast<size_t>(n);
    }
    close(out);
  });
  options.source = "-";
  options.input_fd = ends[0];
  const Status status = PackModel(options, report);
  close(ends[0]);
  feeder.join();
  return status;
}

}  // namespace estream
