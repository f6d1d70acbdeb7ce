// SPDX-License-Identifier: Apache-2.0
// A device with memory and no arithmetic: tests say what a call of experts does.
#pragma once

#include <map>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "device/device.h"

namespace estream::testing {

class HostDevice : public Device {
 public:
  const DeviceTraits& traits() const override { return traits_; }
  Result<DeviceBuffer> Allocate(uint64_t bytes, std::string_view) override {
    ES_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::Allocate(bytes));
    const DeviceBuffer buffer{++last_id_, memory.data(), bytes};
    buffers_.emplace(buffer.id, std::move(memory));
    return buffer;
  }
  void Free(const DeviceBuffer& buffer) override { ES_CHECK(buffers_.erase(buffer.id) == 1); }
  Result<uint32_t> Build(const ExpertSpec&, const Capacity&) override { return NoGraphs(); }
  Result<uint32_t> Build(const BlockSpec&, const Capacity&) override { return NoGraphs(); }
  void Drop(uint32_t) override {}
  Result<Ticket> Submit(const BlockInvocation&) override { return NoGraphs(); }

  size_t buffers() const { return buffers_.size(); }

 protected:
  template <class T = std::byte>
  const T* At(const BufferRef& ref) const {
    return reinterpret_cast<const T*>(buffers_.at(ref.buffer).data() + ref.offset);
  }
  // Where `call` has the record of `expert`; null when it is in no slot.
  const std::byte* RecordOf(const ExpertInvocation& call, uint32_t expert) const {
    const int32_t slot = At<int32_t>(call.placement)[expert];
    if (slot < 0 || static_cast<uint32_t>(slot) >= call.slot_count) return nullptr;
    return At(call.arena) + static_cast<uint32_t>(slot) * call.slot_stride;
  }

 private:
  static Status NoGraphs() { return Status::Unsupported("a device of tests has no graphs"); }

  const DeviceTraits traits_{"test", "memory only", "f32", 1};
  std::map<uint32_t, AlignedBuffer> buffers_;
  uint32_t last_id_ = 0;
};

}  // namespace estream::testing
