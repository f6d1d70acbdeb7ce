// SPDX-License-Identifier: Apache-2.0
// How fast kernels run, and what share of the core's peak that is.
#pragma once

#include "base/thread_pool.h"
#include "bench/measure.h"
#include "bench/report.h"

namespace estream {

// GMAC/s of one core for each instruction mix (kernels/peak.h), and of all threads together.
ReportTable MeasurePeaks(const Effort& effort, ThreadPool& pool);

// Panel decoding to float, format by format: GB/s of tiled bytes and 10^9 values a second.
ReportTable MeasureDecoding(const Effort& effort);

// f32 matrix products with K = 2048: the product alone, and with the decoding of a [1024, 2048] Q4_0 matrix, by rows;
// shares are of `fma_peak`, in GMAC/s.
ReportTable MeasureMatMul(const Effort& effort, double fma_peak);

// Integer products with K = 2048 against a [1024, 2048] matrix of some formats, by rows; shares are of `int8_peak`,
// that of the densest mix the target has, in GMAC/s.
ReportTable MeasureMatMulQ8(const Effort& effort, double int8_peak);

// Activations to int8: 10^9 values a second, one core.
ReportTable MeasureQuantization(const Effort& effort);

}  // namespace estream
