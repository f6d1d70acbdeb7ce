// SPDX-License-Identifier: Apache-2.0
// Runs one call of any graph on a device from plain vectors, for tests that compare devices or runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "tests/random_weights.h"

namespace estream {

// A device and what has been copied to it.
class DeviceRig {
 public:
  explicit DeviceRig(const std::string& name, uint32_t threads = 1, const std::string& activations = "f32",
                     MemoryLedger* ledger = nullptr, TraceRecorder* trace = nullptr) {
    DeviceOptions options;
    options.name = name;
    options.threads = threads;
    options.activations = activations;
    options.ledger = ledger;
    options.trace = trace;
    auto made = MakeDevice(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    device_ = std::move(made).value();
  }

  Device& device() { return *device_; }

  // A buffer with these values.
  template <class T>
  DeviceBuffer Upload(std::span<const T> values) {
    auto buffer = device_->Allocate(std::max<size_t>(values.size_bytes(), 1), "test");
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    if (!values.empty()) std::memcpy(buffer->host, values.data(), values.size_bytes());
    return *buffer;
  }
  template <class T>
  DeviceBuffer Upload(const std::vector<T>& values) {
    return Upload(std::span<const T>(values));
  }

  template <class Spec>
  uint32_t Build(const Spec& spec, const Capacity& capacity) {
    auto graph = device_->Build(spec, capacity);
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return graph.ok() ? *graph : 0;
  }

  template <class Call>
  Status Run(const Call& call) {
    auto ticket = device_->Submit(call);
    return ticket.ok() ? device_->Wait(*ticket) : ticket.status();
  }

 private:
  std::unique_ptr<Device> device_;
};

// A block call in terms of vectors.
struct BlockCase {
  BlockSpec spec;
  std::vector<std::byte> record;
  std::vector<float> in;
  std::vector<uint32_t> row_ids;  // empty: none
  BlockInvocation call;           // numbers only; references are filled in
  uint64_t out_count = 0;
  uint64_t route_count = 0;
  bool in_place = false;
};

struct BlockOutcome {
  Status status;
  std::vector<float> out;
  std::vector<Route> routes;
};

// Runs `c` once on `rig`, with a graph of `capacity` tokens (0: just as many as it takes).
inline BlockOutcome RunBlock(DeviceRig& rig, const BlockCase& c, uint32_t capacity = 0) {
  BlockInvocation call = c.call;
  if (capacity == 0) capacity = std::max(call.tokens, call.rows);
  call.graph = rig.Build(c.spec, Capacity{capacity, 0});
  const DeviceBuffer weights = rig.Upload(c.record), in = rig.Upload(c.in);
  const DeviceBuffer out = c.in_place ? in : rig.Upload(std::vector<float>(c.out_count));
  const DeviceBuffer row_ids = rig.Upload(c.row_ids);
  const DeviceBuffer routes = rig.Upload(std::vector<Route>(c.route_count));
  call.weights = weights.ref();
  call.in = in.ref();
  call.out = out.ref();
  if (!c.row_ids.empty()) call.row_ids = row_ids.ref();
  if (c.route_count > 0) call.routes = routes.ref();
  BlockOutcome outcome;
  outcome.status = rig.Run(call);
  outcome.out.assign(out.as<float>(), out.as<float>() + c.out_count);
  outcome.routes.assign(routes.as<Route>(), routes.as<Route>() + c.route_count);
  for (const DeviceBuffer& b : {weights, in, out, row_ids, routes}) rig.device().Free(b);
  return outcome;
}

// An expert call in terms of vectors: expert e is in slot placement[e].
struct ExpertCase {
  ExpertSpec spec;
  std::vector<std::byte> arena;  // slot_count records
  std::vector<int32_t> placement;
  uint32_t slot_count = 0;
  uint32_t tokens = 0;
  std::vector<float> x, y;
  std::vector<Route> routes;
};

// y after the call.
inline std::vector<float> RunExperts(DeviceRig& rig, const ExpertCase& c, uint32_t route_capacity = 0) {
  const auto routes_count = static_cast<uint32_t>(c.routes.size());
  ExpertInvocation call;
  call.graph = rig.Build(c.spec, Capacity{c.tokens, std::max(route_capacity, routes_count)});
  const DeviceBuffer x = rig.Upload(c.x), y = rig.Upload(c.y), routes = rig.Upload(c.routes);
  const DeviceBuffer placement = rig.Upload(c.placement), arena = rig.Upload(c.arena);
  call.tokens = c.tokens;
  call.route_count = routes_count;
  call.expert_count = static_cast<uint32_t>(c.placement.size());
  call.slot_count = c.slot_count;
  call.slot_stride = c.spec.record_bytes;
  call.x = x.ref();
  call.y = y.ref();
  call.routes = routes.ref();
  call.placement = placement.ref();
  call.arena = arena.ref();
  const Status status = rig.Run(call);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> result(y.as<float>(), y.as<float>() + c.y.size());
  for (const DeviceBuffer& b : {x, y, routes, placement, arena}) rig.device().Free(b);
  return result;
}

}  // namespace estream
