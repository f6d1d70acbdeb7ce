// SPDX-License-Identifier: Apache-2.0
// Packs made on first use: a plain model file is packed once into a cache folder and found there afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "estream/status.h"

namespace estream {

struct PackCacheOptions {
  std::string folder;    // empty: DefaultPackCache()
  uint32_t threads = 0;  // processors to use; 0: all this process may
  // Called once when packing begins, with the reason in one sentence, and then with its progress. May be empty.
  std::function<void(const std::string& reason)> notice;
  std::function<void(const char* phase, uint64_t done_bytes, uint64_t total_bytes)> progress;
  const std::atomic<bool>* cancel = nullptr;  // true: stop soon; the next run continues
};

// $ESTREAM_CACHE_DIR, else $XDG_CACHE_HOME/estream, else $HOME/.cache/estream; empty when none of them is set.
std::string DefaultPackCache();

// The path of a pack of `model`: `model` itself when it is a pack; else the cached one, made or made anew when there is
// none or the model has changed since (its size, time or header).
//
// Errors: as packing and opening; InvalidArgument when no cache folder is known; Io when it cannot be made.
Result<std::string> CachedPack(const std::string& model, const PackCacheOptions& options);

// The path of a pack of `model` that is there already: `model` itself or the cached one; empty when there is none.
std::string ExistingPack(const std::string& model, const std::string& folder = "");

}  // namespace estream
