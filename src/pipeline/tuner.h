// SPDX-License-Identifier: Apache-2.0
// Chooses group size, queue depth and banks from service times: a nested search that evaluates the model of the
// pipeline only.                                                                                     (§3.4, eq. 6-10)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/service_profile.h"

namespace estream {

// A prompt length of the expected work, and its share.
struct WorkloadLength {
  uint32_t tokens = 0;
  double weight = 1;
};

struct TunerOptions {
  Schedule schedule = Schedule::kStream;
  // Most bytes of the arena, M_max - M_other.
  uint64_t arena_bytes = UINT64_MAX;
  // What is given is kept, what is 0 is chosen.
  StreamShape fixed = {0, 0, 0};
  // Of all shapes within this of the best time the one with the smallest arena is taken.
  double tolerance = 1e-3;
};

struct ShapeCandidate {
  StreamShape shape;
  uint64_t arena_bytes = 0;
  uint64_t mean_ns = 0;  // of the search's requests, weighted; of many layers it takes a sample
};

struct ShapeChoice {
  ShapeCandidate best;
  std::vector<ShapeCandidate> by_group;  // the best of every G that fits, G ascending, `best` among them
  uint32_t evaluations = 0;              // calls of Simulate
};

// 𝒢: 1, 2, 4, 8, 16, 32 and E, as far as there are as many experts.
std::vector<uint32_t> GroupSizes(uint32_t experts);

// Bytes of B banks of G slots with their placement table.
uint64_t ArenaBytes(const StreamedModel& model, const StreamShape& shape);

// The smallest arena that `schedule` can run with.
StreamShape SmallestShape(Schedule schedule, const StreamShape& fixed);

// (G*, Q*, B*) for `workload`; nothing when no shape fits.
//
// The paper takes Q from the bandwidth of reads alone (eq. 7). Measured bandwidths differ by chance, and more reads in
// flight need more banks, so every depth of the profile is tried by the model; one read at a time only where no more
// fit, since from its end until a thread, which computing keeps waiting, begins the next, storage rests. For every G
// and Q the time with the most banks that fit (eq. 8) is computed first; only what comes within the tolerance of the
// best is searched for the fewest banks, doubling, then bisecting, since more banks make a request no slower but for
// reads in vain.
//
// Pre:  a schedule whose shape can be chosen, CheckShape's for what is fixed; at least one length.
// Cost: below 5 ms for 48 layers of 128 experts and four lengths.
std::optional<ShapeChoice> ChooseShape(const ServiceProfile& profile, const StreamedModel& model,
                                       std::span<const WorkloadLength> workload, const TunerOptions& options);

// A request of `tokens` on all layers.
ModelOutcome PredictRequest(const ServiceProfile& profile, const StreamedModel& model, uint32_t tokens,
                            Schedule schedule, const StreamShape& shape);

}  // namespace estream
