// SPDX-License-Identifier: Apache-2.0
// The device contract: what runs graphs. The code above it does not know which device it drives.            (§3.2)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/ledger.h"
#include "base/trace.h"
#include "estream/status.h"
#include "graph/block_graph.h"
#include "graph/expert_graph.h"

namespace estream {

// What a device says of itself.
struct DeviceTraits {
  std::string name;         // as given to --device
  std::string description;  // for people: "CPU, AVX3, 2 threads"
  std::string activations;  // as given to --activations
  uint32_t threads = 1;
};

// Memory that host and device see; zeroed, page-aligned. The device owns it; free it with Device::Free.
struct DeviceBuffer {
  uint32_t id = 0;
  std::byte* host = nullptr;
  uint64_t bytes = 0;

  BufferRef ref(uint64_t offset = 0) const { return {id, 0, offset}; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(host);
  }
};

// The most that one call of a graph may bind. Scratch memory is taken for it at Build, none at Submit.
struct Capacity {
  uint32_t tokens = 0;
  uint32_t routes = 0;  // experts only: C, routes a call
};

// Names a submitted call; calls complete in the order of submission.
using Ticket = uint64_t;

// Threads: one request thread calls everything below.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceTraits& traits() const = 0;

  // A buffer of `bytes`, registered in the ledger as `name`. Errors: OverBudget.
  virtual Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view name) = 0;
  // Pre: no call that names the buffer is pending.
  virtual void Free(const DeviceBuffer& buffer) = 0;

  // Builds the graph of a shape class or block and returns its number (topology; once per class, §3.2).
  // Errors: Unsupported for a format or shape the device cannot run; OverBudget for its scratch.
  virtual Result<uint32_t> Build(const ExpertSpec& spec, const Capacity& capacity) = 0;
  virtual Result<uint32_t> Build(const BlockSpec& spec, const Capacity& capacity) = 0;

  // Forgets a graph; its number may be given out again. Pre: no call of it is pending.
  virtual void Drop(uint32_t graph) = 0;

  // Queues or runs a call; in order. Errors: InvalidArgument when the call does not fit its graph's capacity or a
  // route's expert has no slot (nothing is written); Device when it failed.
  virtual Result<Ticket> Submit(const ExpertInvocation& call) = 0;
  virtual Result<Ticket> Submit(const BlockInvocation& call) = 0;

  // Returns when the call of `ticket` and all before it are complete; the first error among them that was not reported
  // yet.
  virtual Status Wait(Ticket ticket) = 0;
};

// In which numbers activations meet weights of a block format; F16, BF16 and F32 weights always take floats.
enum class Activations : uint32_t {
  kF32,  // weights are dequantised
  kQ8,   // activations become int8 in blocks of 32 (kernels/quantize.h)
};

struct DeviceOptions {
  std::string name = "cpu";  // "cpu" or "reference"
  uint32_t threads = 0;      // 0: all usable processors
  MemoryLedger* ledger = nullptr;
  std::string activations;  // "q8" or "f32"; empty: q8 on the CPU, f32 on the reference device, which has no other
  TraceRecorder* trace = nullptr;  // for spans of the parts of a call, where the device has them; null: none
};

// Errors: InvalidArgument for an unknown name of a device or of activations, listing the known ones, or for activations
// that the device does not have; Unsupported when this machine has no such device.
Result<std::unique_ptr<Device>> MakeDevice(const DeviceOptions& options);

}  // namespace estream
