// SPDX-License-Identifier: Apache-2.0
// How fast main memory is read and copied, by one thread and by all.
#pragma once

#include "base/thread_pool.h"
#include "bench/measure.h"
#include "bench/report.h"
#include "estream/status.h"

namespace estream {

// GB/s (10^9) of reading, and of copying (bytes copied, each read and written once), over buffers far larger than
// caches.
Result<ReportTable> MeasureMemory(const Effort& effort, ThreadPool& pool);

}  // namespace estream
