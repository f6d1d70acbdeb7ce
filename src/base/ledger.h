// SPDX-License-Identifier: Apache-2.0
// Who holds how much: every buffer that grows with model, prompt or budget is registered here under a name.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace estream {

class MemoryLedger {
 public:
  struct Entry {
    std::string name;
    uint64_t bytes = 0;       // held now
    uint64_t peak_bytes = 0;  // most ever held under this name
  };

  // A registration: holds `bytes` under `name` until destroyed.
  class Hold {
   public:
    Hold() = default;
    Hold(MemoryLedger* ledger, std::string name, uint64_t bytes);
    ~Hold() { Release(); }
    Hold(Hold&& o) noexcept
        : ledger_(std::exchange(o.ledger_, nullptr)), name_(std::move(o.name_)), bytes_(std::exchange(o.bytes_, 0)) {}
    Hold& operator=(Hold&& o) noexcept;
    uint64_t bytes() const { return bytes_; }

   private:
    void Release();
    MemoryLedger* ledger_ = nullptr;
    std::string name_;
    uint64_t bytes_ = 0;
  };

  // Entries in order of name; their sum is what EStream itself accounts for.
  std::vector<Entry> Entries() const;
  uint64_t TotalBytes() const;
  uint64_t PeakTotalBytes() const;

 private:
  void Add(const std::string& name, uint64_t bytes);
  void Subtract(const std::string& name, uint64_t bytes);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
  uint64_t total_ = 0;                    // guarded by mutex_
  uint64_t peak_total_ = 0;               // guarded by mutex_
};

}  // namespace estream
