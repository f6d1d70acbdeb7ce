// SPDX-License-Identifier: Apache-2.0
// Making a pack from a model file or a pipe.                                                                  (§3.3)
//
// The pack is written to OUT.partial, which becomes OUT when it is whole. A file that was left unfinished is continued:
// its header is compared with the one this run would write (same source, order and layout), then what it holds is read
// and hashed, and work goes on from the first unit that differs. Trusting a note of how far it came would be faster but
// wrong after a power failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "estream/status.h"

namespace estream {

struct PackProgress {
  const char* phase = "";  // "packing", "checking", "hashing", "verifying"
  uint64_t done = 0;       // bytes
  uint64_t total = 0;
};

struct PackOptions {
  std::string source;      // a GGUF file, any part of a split set, or "-" for input_fd
  int input_fd = 0;        // what "-" stands for
  std::string out;         // empty: beside the source (see DefaultPackPath); must be given for a pipe
  std::string order_file;  // see ParseExpertOrder; empty: experts as in the source
  bool force = false;      // replace an existing `out`
  bool resume = true;      // continue an unfinished run
  bool replace = false;    // remove the source once the pack has been verified; not for a pipe
  uint32_t threads = 0;    // processors to use; 0: all this process may
  std::function<void(const PackProgress&)> progress = nullptr;  // called often, by one thread at a time; may be empty
  const std::atomic<bool>* cancel = nullptr;                    // true: stop soon, leaving what can be continued
};

struct PackReport {
  std::string out;
  uint64_t source_bytes = 0;
  uint64_t pack_bytes = 0;
  uint64_t resumed_bytes = 0;  // of an earlier run
  bool restarted = false;      // an unfinished file of something else was thrown away
  bool direct_reads = false;   // the page cache was bypassed throughout
  bool direct_writes = false;
  bool verified = false;
  double seconds = 0;
};

// Packs a model.
//
// Errors: InvalidArgument for options that make no sense, an existing `out`, `out` = source, a bad order; as Gguf::Open
//         and PlanModel for the source; Corrupt, naming tensor, row and record, for a NaN or infinite scale; Io, with
//         needed and free bytes when space is short; Cancelled. `out` is as it was before; the partial file stays after
//         Cancelled and Io when there is something in it to continue.
// Cost:   reads the source once and writes the pack once, from a pipe also reads the pack once; below 200 MB with the
// page
//         cache, for any model.
Status PackModel(const PackOptions& options, PackReport* report);

}  // namespace estream
