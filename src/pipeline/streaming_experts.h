// SPDX-License-Identifier: Apache-2.0
// Experts stream through banks: groups are taken in pack order as they become ready, bound, run and released.  (§3.3,
// §3.4)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/compute_clock.h"
#include "pipeline/expert_stream.h"
#include "pipeline/schedule.h"
#include "residency/group_layout.h"
#include "residency/read_engine.h"
#include "residency/record_file.h"

namespace estream {

// The experts of one sparse layer: the graph of their shape class, and where their records stand in the file.
struct StreamedLayer {
  uint32_t graph = 0;
  uint64_t file_offset = 0;
  uint64_t record_bytes = 0;  // W_e of the layer's class
};

enum class EarlyOrder : uint8_t { kPack, kPrevious };

struct StreamOptions {
  Schedule schedule = Schedule::kStream;
  StreamShape shape;
  uint32_t expert_count = 0;  // E
  uint64_t slot_stride = 0;   // largest record of any layer
  uint32_t max_routes = 0;    // C of the graphs
  ReadEngineOptions::Kind engine = ReadEngineOptions::Kind::kAuto;
  bool register_buffers = true;
  // Builds a graph for an expert of `layer`; only kGraphPerExpert needs it.
  std::function<Result<uint32_t>(uint32_t layer)> build_graph;
  // Of a group with few routed experts read only these, once they are known and if the schedule does so.
  bool sparse_reads = true;
  // Which groups are read before their layer's routes are known: in pack order, or those first that the request before
  // had routes to.
  EarlyOrder early_order = EarlyOrder::kPack;
  // For an engine that is asked again and again: the end of a request begins to read what the next one needs first, if
  // the schedule reads across layers.
  bool keep_warm = false;
  // How the read engine is made, and the clock of its reads and waits.
  std::function<Result<std::unique_ptr<ReadEngine>>(std::vector<std::shared_ptr<RecordFile>>,
                                                    std::vector<std::span<std::byte>>, const ReadEngineOptions&)>
      make_engine = MakeReadEngine;
  std::function<uint64_t()> now_ns = NowNs;
  ComputeClock* clock = nullptr;  // outlives the stream
  // Looks at the record of an expert (its position in pack order) before it runs; an error fails the request. May be
  // empty.
  std::function<Status(uint32_t layer, uint32_t position, std::span<const std::byte> record)> check;
};

// Since the stream was made.
struct StreamCounts {
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
  uint64_t wasted_reads = 0;  // read and not used
  uint64_t wasted_bytes = 0;
  uint64_t early_hits = 0;  // groups in a bank or on their way when their layer's routes became known
  uint64_t missed = 0;      // groups not so
  uint64_t stall_ns = 0;    // the executor waited for a group
  uint64_t io_ns = 0;       // union of read intervals, T_io
  uint32_t waiting = 0;     // 1 while the executor waits for a group
};

class StreamingExperts : public ExpertStream {
 public:
  // Takes an arena of B banks of G slots from the device and starts the read engine over `file`.
  //
  // Errors: InvalidArgument for a shape the schedule cannot run; OverBudget; Unsupported.
  static Result<std::unique_ptr<StreamingExperts>> Create(std::shared_ptr<RecordFile> file,
                                                          std::vector<StreamedLayer> layers,
                                                          const StreamOptions& options, Device* device);

  virtual StreamCounts counts() const = 0;
  // How reads are really done.
  virtual ReadMode read_mode() const = 0;
};

}  // namespace estream
