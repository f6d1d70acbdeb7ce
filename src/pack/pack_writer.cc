// SPDX-License-Identifier: Apache-2.0
// The order of a run: look at the source, claim the target, encode, finish, and only then perhaps remove the source.
#include "pack/pack_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/macros.h"
#include "family/family.h"
#include "format/quote.h"
#include "pack/direct_file.h"
#include "pack/expert_order.h"
#include "pack/forward_packer.h"
#include "pack/pack_file.h"
#include "pack/pack_header.h"
#include "pack/pack_output.h"
#include "pack/pack_run.h"
#include "pack/pack_target.h"

namespace estream {
namespace {

// Far above any router; the rows of one are held as a whole.
constexpr uint64_t kMaxVectorBytes = 48 << 20;

class Packer {
 public:
  Packer(const PackOptions& options, PackReport* report) : options_(options), report_(*report) {}

  Status FromFile();
  Status FromPipe();

 private:
  Status Plan(const Gguf& source);
  Status Claim(const Gguf& source, const std::vector<std::string>& sources);
  Result<uint64_t> Resume();
  Status Begin(uint64_t first_unit);
  Status Finish();
  Status VerifyAndRemove(const Gguf& source);
  Status Interrupted(Status status);

  PackRun Run(const char* phase, uint64_t total) {
    PackRun run{.plan = plan_, .regions = regions_, .threads = options_.threads};
    run.cancel = options_.cancel;
    if (!options_.progress) return run;
    run.progress = [this, phase, total](uint64_t done) {
      done_ = done;
      options_.progress({phase, done, total});
    };
    return run;
  }
  uint64_t RegionBytes() const { return header_->file_bytes() - header_->bytes().size(); }

  const PackOptions& options_;
  PackReport& report_;
  ModelPlan plan_;
  SourceIdentity identity_;
  std::vector<PackRegion> regions_;
  std::optional<PackHeader> header_;
  std::unique_ptr<PartialFile> output_;
  uint64_t done_ = 0;
};

Status CheckVectors(const Gguf& source, const RecordPlan& record) {
  for (const VectorPart& v : record.vectors) {
    if (uint64_t{v.spec.count} * sizeof(float) <= kMaxVectorBytes) continue;
    return Status::Unsupported(fmt::format("{}: tensor {} has {} values kept as floats, at most {} are supported",
                                           ShownPath(source.path()), Quoted(source.tensors()[v.source.tensor].name),
                                           v.spec.count, kMaxVectorBytes / sizeof(float)));
  }
  return Status::Ok();
}

Status Packer::Plan(const Gguf& source) {
  const GgufValue* architecture = source.Find("general.architecture");
  if (architecture != nullptr && architecture->AsString() == kPackArchitecture) {
    return Status::InvalidArgument(fmt::format("{}: is a pack already", ShownPath(source.path())));
  }
  ES_ASSIGN_OR_RETURN(plan_, PlanModel(source));
  for (const LayerPlan& layer : plan_.layers) ES_RETURN_IF_ERROR(CheckVectors(source, layer.block));
  if (!options_.order_file.empty()) ES_RETURN_IF_ERROR(LoadExpertOrder(options_.order_file, &plan_));
  regions_ = PackRegions(plan_);
  return Status::Ok();
}

// Opens the partial file of a target that may be written.
Status Packer::Claim(const Gguf& source, const std::vector<std::string>& sources) {
  const std::string out = options_.out.empty() ? DefaultPackPath(source.path()) : options_.out;
  ES_ASSIGN_OR_RETURN(const std::string target, ResolveTarget(out, sources, options_.force));
  ES_ASSIGN_OR_RETURN(output_, PartialFile::Create(target));
  header_ = PackHeader::Build(source, plan_, identity_, &regions_);
  header_->MarkUnfinished();
  report_.out = out;
  report_.pack_bytes = header_->file_bytes();
  return Status::Ok();
}

// The first unit that is still to be made, given what an earlier run left.
Result<uint64_t> Packer::Resume() {
  ES_ASSIGN_OR_RETURN(const std::shared_ptr<const DirectFile> earlier, DirectFile::Open(output_->path()));
  if (earlier->size() == 0) return uint64_t{0};
  std::vector<std::byte> header(header_->bytes().size());
  const bool same = options_.resume && earlier->size() == header_->file_bytes() && earlier->ReadAt(0, header).ok() &&
                    header_->AdoptHashes(header);
  if (!same) {
    report_.restarted = true;
    ES_RETURN_IF_ERROR(output_->Clear());
    return uint64_t{0};
  }
  return CountGoodUnits(Run("checking", RegionBytes()), *earlier, *header_);
}

// Makes room and puts the unfinished header in place.
Status Packer::Begin(uint64_t first_unit) {
  for (uint64_t unit = first_unit; unit < UnitCount(regions_); ++unit) header_->set_unit_hash(unit, {});
  ES_RETURN_IF_ERROR(output_->Reserve(header_->file_bytes()));
  return output_->WriteAt(0, header_->bytes());
}

// All regions are written and hashed: completes the header, looks at the result as any reader would, gives it its name.
Status Packer::Finish() {
  header_->MarkWhole();
  ES_RETURN_IF_ERROR(output_->Sync());
  ES_RETURN_IF_ERROR(output_->WriteAt(0, header_->bytes()));
  ES_RETURN_IF_ERROR(output_->Sync());
  ES_RETURN_IF_ERROR(PackFile::Open(output_->path()).status());
  return output_->Publish();
}

// After an error: keeps what another run can continue, removes the rest.
Status Packer::Interrupted(Status status) {
  const bool pipe = options_.source == "-";
  const bool begun = header_->unit_hash(0).known();
  const bool final = status.code() != StatusCode::kCancelled && status.code() != StatusCode::kIo;
  if (pipe || final || !begun) output_->Discard();
  if (status.code() != StatusCode::kCancelled) return status;
  if (pipe || !begun)
    return Status::Cancelled(fmt::format("{}: stopped; nothing is left behind", ShownPath(report_.out)));
  return Status::Cancelled(fmt::format("{}: stopped after {} of {}; the same command goes on from there",
                                       ShownPath(output_->path()), SizeText(done_), SizeText(RegionBytes())));
}

std::vector<std::string> ShardPaths(const Gguf& source) {
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < source.shard_count(); ++i) paths.push_back(source.shard(i).name());
  return paths;
}

Status Packer::FromFile() {
  ES_ASSIGN_OR_RETURN(const Gguf source, Gguf::Open(options_.source));
  ES_RETURN_IF_ERROR(Plan(source));
  ES_ASSIGN_OR_RETURN(identity_, IdentifySource(source));
  ES_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::OpenDirect(source));
  ES_RETURN_IF_ERROR(Claim(source, ShardPaths(source)));

  const auto write = [&]() -> Status {
    ES_ASSIGN_OR_RETURN(const uint64_t first_unit, Resume());
    report_.resumed_bytes = BytesBefore(regions_, first_unit);
    ES_RETURN_IF_ERROR(Begin(first_unit));
    ES_RETURN_IF_ERROR(EncodeRegions(Run("packing", RegionBytes()), files, first_unit, &*header_, output_.get()));
    ES_ASSIGN_OR_RETURN(const Gguf now, Gguf::Open(options_.source));
    ES_ASSIGN_OR_RETURN(const SourceIdentity identity, IdentifySource(now));
    if (identity != identity_) {
      return Status::Corrupt(fmt::format("{}: was changed while it was packed", ShownPath(source.path())));
    }
    return Finish();
  };
  if (Status status = write(); !status.ok()) return Interrupted(std::move(status));
  report_.source_bytes = identity_.bytes;
  report_.direct_reads = files.direct();
  report_.direct_writes = output_->direct();
  return options_.replace ? VerifyAndRemove(source) : Status::Ok();
}

Status Packer::VerifyAndRemove(const Gguf& source) {
  ES_ASSIGN_OR_RETURN(const PackFile pack, PackFile::Open(report_.out));
  VerifyOptions verify{.threads = options_.threads};
  if (options_.progress) {
    verify.progress = [this](uint64_t done, uint64_t total) { options_.progress({"verifying", done, total}); };
  }
  verify.cancel = options_.cancel;
  ES_RETURN_IF_ERROR(pack.Verify(verify, nullptr));
  report_.verified = true;
  for (const std::string& path : ShardPaths(source)) {
    if (unlink(path.c_str()) == 0) continue;
    return Status::Io(fmt::format("{}: cannot be removed: {}", ShownPath(path), std::strerror(errno)));
  }
  return Status::Ok();
}

Status Packer::FromPipe() {
  if (options_.out.empty()) return Status::InvalidArgument("a pack made from standard input needs a name (-o)");
  if (options_.replace) return Status::InvalidArgument("standard input cannot be replaced");
  if (options_.order_file == "-") return Status::InvalidArgument("standard input cannot be both model and order");
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<ForwardSource> source,
                      ForwardSource::Open(options_.input_fd, "standard input"));
  ES_RETURN_IF_ERROR(Plan(source->gguf()));
  ES_ASSIGN_OR_RETURN(identity_, source->Identify());
  ES_RETURN_IF_ERROR(Claim(source->gguf(), {}));

  const auto write = [&]() -> Status {
    ES_RETURN_IF_ERROR(output_->Clear());
    ES_RETURN_IF_ERROR(Begin(0));
    uint64_t end = 0;
    for (const GgufTensor& tensor : source->gguf().tensors()) end = std::max(end, tensor.offset + tensor.bytes);
    ES_RETURN_IF_ERROR(PackForward(Run("packing", end), source.get(), output_.get()));
    ES_ASSIGN_OR_RETURN(identity_.bytes, source->Drain());
    header_ = PackHeader::Build(source->gguf(), plan_, identity_, &regions_);
    ES_RETURN_IF_ERROR(output_->Sync());
    ES_ASSIGN_OR_RETURN(const auto written, DirectFile::Open(output_->path()));
    ES_RETURN_IF_ERROR(HashRegions(Run("hashing", RegionBytes()), *written, &*header_));
    return Finish();
  };
  if (Status status = write(); !status.ok()) return Interrupted(std::move(status));
  report_.source_bytes = identity_.bytes;
  return Status::Ok();
}

}  // namespace

Status PackModel(const PackOptions& options, PackReport* report) {
  *report = {};
  const auto start = std::chrono::steady_clock::now();
  Packer packer(options, report);
  ES_RETURN_IF_ERROR(options.source == "-" ? packer.FromPipe() : packer.FromFile());
  report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return Status::Ok();
}

}  // namespace estream
