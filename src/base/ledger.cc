// SPDX-License-Identifier: Apache-2.0
// A map under one lock: registrations happen at open and per request, never in a hot loop.
#include "base/ledger.h"

#include <algorithm>

#include "base/macros.h"

namespace estream {

MemoryLedger::Hold::Hold(MemoryLedger* ledger, std::string name, uint64_t bytes)
    : ledger_(ledger), name_(std::move(name)), bytes_(bytes) {
  if (ledger_ != nullptr) ledger_->Add(name_, bytes_);
}

MemoryLedger::Hold& MemoryLedger::Hold::operator=(Hold&& o) noexcept {
  if (this != &o) {
    Release();
    ledger_ = std::exchange(o.ledger_, nullptr);
    name_ = std::move(o.name_);
    bytes_ = std::exchange(o.bytes_, 0);
  }
  return *this;
}

void MemoryLedger::Hold::Release() {
  if (ledger_ != nullptr) ledger_->Subtract(name_, bytes_);
  ledger_ = nullptr;
}

void MemoryLedger::Add(const std::string& name, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Entry& e = entries_[name];
  e.name = name;
  e.bytes += bytes;
  e.peak_bytes = std::max(e.peak_bytes, e.bytes);
  total_ += bytes;
  peak_total_ = std::max(peak_total_, total_);
}

void MemoryLedger::Subtract(const std::string& name, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Entry& e = entries_[name];
  ES_CHECK(e.bytes >= bytes);
  e.bytes -= bytes;
  total_ -= bytes;
}

std::vector<MemoryLedger::Entry> MemoryLedger::Entries() const {
  std::lock_guard lock(mutex_);
  std::vector<Entry> out;
  for (const auto& [name, entry] : entries_) out.push_back(entry);
  return out;
}

uint64_t MemoryLedger::TotalBytes() const {
  std::lock_guard lock(mutex_);
  return total_;
}

uint64_t MemoryLedger::PeakTotalBytes() const {
  std::lock_guard lock(mutex_);
  return peak_total_;
}

}  // namespace estream
