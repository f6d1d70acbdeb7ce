// SPDX-License-Identifier: Apache-2.0
// How fast attention runs at long prompts, and which of its parts takes the time.
#pragma once

#include "bench/measure.h"
#include "bench/report.h"

namespace estream {

// Causal attention of 4,096 tokens on one core, for the heads of two models, with keys and values as 16-bit floats and
// as floats; shares are of `fma_peak`, in GMAC/s. Multiply-adds are those executed: whole blocks of 64 keys.
ReportTable MeasureAttention(const Effort& effort, double fma_peak);

}  // namespace estream
