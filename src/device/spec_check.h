// SPDX-License-Identifier: Apache-2.0
// Whether a spec makes sense: asked once at Build, so that neither calls nor kernels have to.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "graph/block_graph.h"
#include "graph/expert_graph.h"

namespace estream {

// Errors: InvalidArgument, naming the field, for shapes that contradict each other; Unsupported for a matrix that
// cannot be tiled or a dimension beyond 2^24, up to which sizes computed from specs and capacities fit 64 bits.
Status CheckSpec(const ExpertSpec& spec, const Capacity& capacity);
Status CheckSpec(const BlockSpec& spec, const Capacity& capacity);

// The bytes of a record up to the end of a part: what a call must bind for it.
uint64_t PartEnd(const MatrixSpec& matrix);
uint64_t PartEnd(const VectorSpec& vector);

}  // namespace estream
