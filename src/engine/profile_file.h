// SPDX-License-Identifier: Apache-2.0
// Profiles of tuning as a JSON file: docs/profile_format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estream/status.h"
#include "pipeline/service_profile.h"

namespace estream {

// What a profile was measured with. It serves where all of it is the same.
struct ProfileKey {
  std::string processor;       // "AMD EPYC 9R14"
  std::string device;          // "CPU, AVX3_DL, 2 threads"
  std::string activations;     // "q8"
  std::string storage_device;  // "254:0", of the file system that holds the pack
  std::string engine;          // "io_uring"
  bool direct = false;
  std::string pack;  // hash of the pack's header

  bool operator==(const ProfileKey&) const = default;
};

// The sizes by which a profile of one machine finds the same model on another.
struct ProfiledModel {
  uint32_t layers = 0;  // sparse ones
  uint32_t experts = 0;
  uint32_t top_k = 0;
  uint32_t hidden = 0;

  bool operator==(const ProfiledModel&) const = default;
};

struct TuningProfile {
  std::string name;  // of the pack, or of what the profile is of
  std::string note;  // how it came about; may be empty
  bool quick = false;
  ProfileKey key;
  ProfiledModel model;
  ServiceProfile times;

  bool operator==(const TuningProfile&) const = default;
};

// Most bytes of a profile file that is read.
inline constexpr uint64_t kMaxProfileBytes = uint64_t{32} << 20;

// The profiles in `text`, the contents of `file` (as shown in messages), fully checked.
//
// Errors: Corrupt, naming the file and the field; Unsupported for another version.
Result<std::vector<TuningProfile>> ParseProfiles(std::string_view text, const std::string& file);

// A file's text of `profiles`; ParseProfiles gives them back.
std::string FormatProfiles(const std::vector<TuningProfile>& profiles);

// The profile that was measured with `key`; null when there is none, and then `why_not` says in a few words what is
// different in the nearest one.
const TuningProfile* FindProfile(const std::vector<TuningProfile>& profiles, const ProfileKey& key,
                                 std::string* why_not);

// Puts `profile` in the place of the one with its key; beyond a few, the oldest goes.
void AddProfile(TuningProfile profile, std::vector<TuningProfile>* profiles);

// "x/NAME.profile.json" for "x/NAME.estream.gguf" or "x/NAME.gguf".
std::string ProfilePathOf(const std::string& pack);

}  // namespace estream
