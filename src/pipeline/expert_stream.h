// SPDX-License-Identifier: Apache-2.0
// Who brings experts to the device and when they run; the forward pass only says which layer and which routes.  (§3.4)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "estream/status.h"

namespace estream {

// One sparse layer of one request, ready to run: routes sorted by expert (pack order), then by token.
struct ExpertWork {
  uint32_t layer = 0;   // counts sparse layers
  uint32_t tokens = 0;  // rows of x and y
  uint32_t route_count = 0;
  const Route* host_routes = nullptr;  // the same routes as `routes`, for the host
  BufferRef routes;
  BufferRef x;
  BufferRef y;
};

// How many routes a request will have, as far as that is known before it starts.
struct RouteCounts {
  uint64_t layer = UINT64_MAX;  // in every sparse layer but the last
  uint64_t last = UINT64_MAX;   // in the last one, where only asked rows are computed
};

// A request is StartRequest, then Begin and Run for every layer in order, then EndRequest, also after an error.
//
// Threads: the request thread.
class ExpertStream {
 public:
  virtual ~ExpertStream() = default;

  // A new request: reading may begin. Errors: Io, when the storage is gone.
  virtual Status StartRequest(const RouteCounts& routes) = 0;

  // The non-expert work of `layer` begins: loading may start before its routes are known.
  virtual void Begin(uint32_t layer) = 0;

  // Runs all routes of a layer, experts in pack order: y[t] += α F_e(x[t]).                                     (eq. 2)
  // Returns when the last call is submitted; it is complete after Device::Wait of any later ticket.
  // Errors:  Io or Corrupt when an expert could not be read, Device when it could not run.
  virtual Status Run(const ExpertWork& work) = 0;

  // The request is over, well or not. Nothing of it runs on return, and nothing is read for it but what was found to be
  // unneeded meanwhile.
  virtual void EndRequest() = 0;
};

}  // namespace estream
