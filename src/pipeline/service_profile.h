// SPDX-License-Identifier: Apache-2.0
// The service times of a machine for a model, as measured, and the requests that the model of the pipeline makes of
// them.                                                                                                (§3.4, eq. 5-8)
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/pipe_model.h"

namespace estream {

// L: how long one read of `bytes` takes while `depth` are in flight.
struct ReadTime {
  uint64_t bytes = 0;
  uint32_t depth = 0;
  uint64_t ns = 0;

  bool operator==(const ReadTime&) const = default;
};

struct RoutesTime {
  uint32_t routes = 0;
  uint64_t ns = 0;

  bool operator==(const RoutesTime&) const = default;
};

// X of one shape class: a call takes call_ns and, for each expert in it, what its routes take.
struct ExpertTimes {
  uint64_t call_ns = 0;
  std::vector<RoutesTime> by_routes;  // routes ascend, at least one entry

  bool operator==(const ExpertTimes&) const = default;
};

// One calibration request: what the device does beside experts, and where its tokens were routed.
struct LengthTimes {
  uint32_t tokens = 0;
  uint64_t first_ns = 0;  // from the request's start until the routes of its first sparse layer are known
  uint64_t block_ns = 0;  // T_ne: the same from layer to layer, the mean
  uint64_t last_ns = 0;   // the same for the last layer, which computes one row
  uint64_t tail_ns = 0;   // outside of the pipeline: the prompt's embedding rows, final norm, head
  // Computing experts while reading, in a real request, over what ExpertTimes says: above 1 where reads take processor
  // time or memory bandwidth from it.
  double exec_scale = 1;
  // Routes by expert (position in pack order) of layers that computed all rows, in turn for as many layers as a model
  // has; the last entry is that of the last layer. At least two.
  std::vector<std::vector<uint32_t>> routes;

  bool operator==(const LengthTimes&) const = default;
};

struct ServiceProfile {
  std::vector<ReadTime> reads;       // by depth, then bytes, both ascending; at least one
  std::vector<ExpertTimes> classes;  // by shape class; at least one
  std::vector<LengthTimes> lengths;  // tokens ascend; at least one

  bool operator==(const ServiceProfile&) const = default;
};

// The sparse layers of a model as they are streamed.
struct StreamedModel {
  struct Layer {
    uint64_t record_bytes = 0;
    uint32_t expert_class = 0;
  };
  uint32_t experts = 0;  // E
  std::vector<Layer> layers;

  uint64_t slot_stride() const;  // W_e
};

// L of a read, interpolated between the sizes measured at `depth`, or at the nearest smaller depth; beyond them in
// proportion to the bytes.
uint64_t ReadNs(const ServiceProfile& profile, uint64_t bytes, uint32_t depth);

// What the routes of one expert take, interpolated; beyond the last by its slope. 0 for 0 routes.
uint64_t ExpertNs(const ExpertTimes& times, uint32_t routes);

// Q0: the smallest depth that reaches 95 % of the best bandwidth for every read size.                         (eq. 7)
uint32_t ChooseQueueDepth(const ServiceProfile& profile);

// A calibrated length, or what lies between the neighbours of `tokens`: T_ne over tokens is taken as linear (it is
// a·T + b·T²), routes are those of the nearer length in proportion.
LengthTimes TimesAt(const ServiceProfile& profile, uint32_t tokens);

// The routed experts of a request: `length` on `model`, whose group sizes and read times are filled in by Make.
//
// Search evaluates many shapes of one request; what does not depend on the shape is computed once, here.
class RequestMaker {
 public:
  // `max_layers`: of the sparse layers only so many (the last one among them), for a quick comparison of shapes.
  RequestMaker(const ServiceProfile& profile, const StreamedModel& model, const LengthTimes& length,
               uint32_t max_layers = UINT32_MAX);

  // The request with groups of `group_size`, reads as long as `queue_depth` in flight make them, and with the sparse
  // reads of `schedule`: single runs of a group with few routed experts, nothing early where few routes are expected.
  ModelRequest Make(Schedule schedule, uint32_t group_size, uint32_t queue_depth) const;

 private:
  struct Layer {
    uint64_t block_ns = 0;
    uint64_t record_bytes = 0;
    uint64_t call_ns = 0;
    uint64_t routes = 0;
    std::vector<uint64_t> exec_ns;  // [E] of each expert, call_ns apart; 0 when not routed
  };
  ModelGroup MakeGroup(const Layer& layer, uint32_t first, uint32_t end, uint32_t queue_depth, bool sparse) const;

  const ServiceProfile* profile_;
  uint32_t experts_;
  uint64_t tail_ns_;
  std::vector<Layer> layers_;
};

}  // namespace estream
