// SPDX-License-Identifier: Apache-2.0
// Where profiles are kept: beside the pack, or in the cache folder.
#pragma once

#include <string>

#include "engine/model_file.h"
#include "engine/profile_file.h"
#include "estream/engine.h"

namespace estream {

// What a profile of `model` with `options` is measured with. Errors: InvalidArgument when the model is no pack or for
// unknown names; Io.
Result<ProfileKey> ProfileKeyOf(const ModelFile& model, const EngineOptions& options);

// Adds `profile` to the file beside `pack`, or in the cache folder when that cannot be written. A broken file is
// replaced. Returns the path.
Result<std::string> SaveProfile(TuningProfile profile, const std::string& pack);

}  // namespace estream
