// SPDX-License-Identifier: Apache-2.0
// Every shape is compared in full before anything is computed from it; messages name the tensor or key.
#include "family/plan_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/macros.h"
#include "format/tile.h"

namespace estream {
namespace {

std::string ShapeText(std::span<const uint64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

}  // namespace

std::string LayerTensor(uint32_t layer, std::string_view what) { return fmt::format("blk.{}.{}.weight", layer, what); }

PlanBuilder::PlanBuilder(const Gguf& file, std::string_view architecture, std::span<const GgufTensor> tensors)
    : file_(file), prefix_(fmt::format("{}.", architecture)), tensors_(tensors) {
  for (const GgufTensor& t : tensors_) by_name_.emplace(t.name, &t);
}

Status PlanBuilder::Bad(std::string message) const {
  return Status::Corrupt(fmt::format("{}: {}", file_.path(), message));
}

Status PlanBuilder::NotSupported(std::string message) const {
  return Status::Unsupported(fmt::format("{}: {}", file_.path(), message));
}

Result<uint32_t> PlanBuilder::Uint(std::string_view key, uint64_t min, uint64_t max) const {
  ES_ASSIGN_OR_RETURN(const uint64_t v, file_.Uint(prefix_ + std::string(key), min, max));
  return static_cast<uint32_t>(v);
}

Result<uint32_t> PlanBuilder::UintOr(std::string_view key, uint64_t absent, uint64_t min, uint64_t max) const {
  ES_ASSIGN_OR_RETURN(const uint64_t v, file_.UintOr(prefix_ + std::string(key), absent, min, max));
  return static_cast<uint32_t>(v);
}

Result<float> PlanBuilder::Float(std::string_view key, double min, double max) const {
  const std::string full = prefix_ + std::string(key);
  ES_ASSIGN_OR_RETURN(const double v, file_.Float(full));
  if (!(v > min && v <= max)) {
    return Bad(fmt::format("key \"{}\" is {}, expected a number above {} and at most {}", full, v, min, max));
  }
  return static_cast<float>(v);
}

Result<float> PlanBuilder::FloatOr(std::string_view key, double absent, double min, double max) const {
  if (file_.Find(prefix_ + std::string(key)) == nullptr) return static_cast<float>(absent);
  return Float(key, min, max);
}

Result<const GgufTensor*> PlanBuilder::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return Bad(fmt::format("tensor \"{}\" is missing", name));
  return it->second;
}

Result<const GgufTensor*> PlanBuilder::FindShaped(const std::string& name, std::initializer_list<uint64_t> dims) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, Find(name));
  if (!std::equal(t->dims, t->dims + t->dimensions, dims.begin(), dims.end())) {
    return Bad(fmt::format("tensor \"{}\" has shape {}, expected {}", name, ShapeText({t->dims, t->dimensions}),
                           ShapeText({dims.begin(), dims.size()})));
  }
  return t;
}

Result<FoundMatrix> PlanBuilder::Tileable(const GgufTensor& tensor, uint64_t first, uint64_t rows) const {
  const auto format = WeightFormatFromGgufType(tensor.gguf_type);
  if (!format.ok()) return format.status().WithPrefix(fmt::format("{}: tensor \"{}\": ", file_.path(), tensor.name));
  if (!CanTile(*format, tensor.cols())) {
    return NotSupported(
        fmt::format("tensor \"{}\" has rows of {} values, tiles need a multiple of 32", tensor.name, tensor.cols()));
  }
  return FoundMatrix{*format, {IndexOf(tensor), first, rows}};
}

Result<FoundMatrix> PlanBuilder::Matrix(const std::string& name, uint64_t rows, uint64_t cols) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(name, {cols, rows}));
  return Tileable(*t, 0, rows);
}

Result<FoundMatrix> PlanBuilder::MatrixOrPart(const std::string& name, uint64_t rows, uint64_t cols,
                                              const std::string& merged, uint64_t merged_rows, uint64_t first) const {
  if (Has(name) || !Has(merged)) return Matrix(name, rows, cols);
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(merged, {cols, merged_rows}));
  return Tileable(*t, first, rows);
}

Result<SourceRows> PlanBuilder::Vector(const std::string& name, uint64_t count) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(name, {count}));
  const auto format = WeightFormatFromGgufType(t->gguf_type);
  if (!format.ok()) return format.status().WithPrefix(fmt::format("{}: tensor \"{}\": ", file_.path(), name));
  return SourceRows{IndexOf(*t), 0, 1};
}

Result<SourceRows> PlanBuilder::FloatMatrix(const std::string& name, uint64_t rows, uint64_t cols) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(name, {cols, rows}));
  const auto format = WeightFormatFromGgufType(t->gguf_type);
  if (!format.ok()) return format.status().WithPrefix(fmt::format("{}: tensor \"{}\": ", file_.path(), name));
  return SourceRows{IndexOf(*t), 0, rows};
}

Result<FoundMatrix> PlanBuilder::StackedMatrix(const std::string& name, uint64_t rows, uint64_t cols,
                                               uint64_t depth) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(name, {cols, rows, depth}));
  return Tileable(*t, 0, rows * depth);
}

Result<std::vector<uint32_t>> PlanBuilder::PerLayer(std::string_view key, uint32_t count, uint64_t min,
                                                    uint64_t max) const {
  const std::string full = prefix_ + std::string(key);
  const GgufValue* value = file_.Find(full);
  if (value == nullptr || value->type() != GgufValueType::kArray) {
    ES_ASSIGN_OR_RETURN(const uint32_t v, Uint(key, min, max));
    return std::vector<uint32_t>(count, v);
  }
  if (value->count() != count) {
    return Bad(fmt::format("key \"{}\" has {} values for {} layers", full, value->count(), count));
  }
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < count; ++i) {
    const auto v = value->IntAt(i);
    if (!v || *v < static_cast<int64_t>(min) || *v > static_cast<int64_t>(max)) {
      return Bad(fmt::format("key \"{}\" has no integer in {}..{} at index {}", full, min, max, i));
    }
    values.push_back(static_cast<uint32_t>(*v));
  }
  return values;
}

Status PlanBuilder::ReadSizes(ModelPlan* plan) const {
  plan->architecture = prefix_.substr(0, prefix_.size() - 1);
  ES_ASSIGN_OR_RETURN(const uint32_t layers, Uint("block_count", 1, kMaxLayers));
  plan->layers.resize(layers);
  ES_ASSIGN_OR_RETURN(plan->hidden, Uint("embedding_length", 1, kMaxWidth));
  ES_ASSIGN_OR_RETURN(plan->context, Uint("context_length", 1, kMaxContext));
  if (file_.Find(prefix_ + "expert_count") == nullptr && !Has(LayerTensor(layers - 1, "ffn_gate_inp"))) {
    return NotSupported(
        "the model has no experts (no expert_count, no router); EStream runs Mixture-of-Experts models");
  }
  ES_ASSIGN_OR_RETURN(plan->experts, Uint("expert_count", 1, kMaxExperts));
  ES_ASSIGN_OR_RETURN(plan->top_k, Uint("expert_used_count", 1, plan->experts));

  const GgufValue* tokens = file_.Find("tokenizer.ggml.tokens");
  if (tokens == nullptr) return Bad("key \"tokenizer.ggml.tokens\" is missing");
  if (tokens->type() != GgufValueType::kArray || tokens->element_type() != GgufValueType::kString) {
    return Bad("key \"tokenizer.ggml.tokens\" is not an array of strings");
  }
  if (tokens->count() == 0 || tokens->count() > kMaxVocabulary) {
    return Bad(
        fmt::format("key \"tokenizer.ggml.tokens\" has {} entries, expected 1..{}", tokens->count(), kMaxVocabulary));
  }
  plan->vocabulary = static_cast<uint32_t>(tokens->count());
  return Status::Ok();
}

Status PlanBuilder::AddEnds(const std::string& norm_name, float epsilon, bool tied_head, ModelPlan* plan) const {
  ES_ASSIGN_OR_RETURN(const GgufTensor* embedding, FindShaped("token_embd.weight", {plan->hidden, plan->vocabulary}));
  const auto format = WeightFormatFromGgufType(embedding->gguf_type);
  if (!format.ok()) return format.status().WithPrefix(file_.path() + ": tensor \"token_embd.weight\": ");
  plan->embedding = {*format, plan->hidden};
  plan->embedding_rows = {IndexOf(*embedding), 0, plan->vocabulary};

  RecordLayout final_record("output_norm");
  ES_ASSIGN_OR_RETURN(const SourceRows norm, Vector(norm_name, plan->hidden));
  plan->final_norm = {plan->hidden, epsilon, final_record.AddVector(plan->hidden, norm)};
  plan->final_record = std::move(final_record).Finish();

  const bool tied = tied_head && !Has("output.weight");
  ES_ASSIGN_OR_RETURN(const FoundMatrix head,
                      Matrix(tied ? "token_embd.weight" : "output.weight", plan->vocabulary, plan->hidden));
  RecordLayout head_record("output");
  plan->head = {head_record.AddMatrix(head.format, plan->vocabulary, plan->hidden, head.source)};
  plan->head_record = std::move(head_record).Finish();
  return Status::Ok();
}

// blk.N.ffn_gate_exps [cols, rows, E]; or gate and up merged per expert as ffn_gate_up_exps (gate rows first); or one
// tensor an expert, blk.N.ffn_gate.E.
Result<PlanBuilder::FoundProjection> PlanBuilder::ExpertProjection(uint32_t layer, const char* which, uint64_t rows,
                                                                   uint64_t cols, uint64_t experts) const {
  const std::string alone = LayerTensor(layer, fmt::format("ffn_{}_exps", which));
  const std::string merged = LayerTensor(layer, "ffn_gate_up_exps");
  const bool down = std::string_view(which) == "down";
  FoundProjection found;
  if (!Has(alone) && !down && Has(merged)) {
    ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(merged, {cols, 2 * rows, experts}));
    ES_ASSIGN_OR_RETURN(const FoundMatrix m, Tileable(*t, 0, rows));
    const bool up = std::string_view(which) == "up";
    found = {m.format, {{m.source.tensor}, 2 * rows, up ? rows : 0}};
    return found;
  }
  if (!Has(alone) && Has(LayerTensor(layer, fmt::format("ffn_{}.0", which)))) {
    for (uint64_t e = 0; e < experts; ++e) {
      const std::string name = LayerTensor(layer, fmt::format("ffn_{}.{}", which, e));
      ES_ASSIGN_OR_RETURN(const FoundMatrix m, Matrix(name, rows, cols));
      if (e > 0 && m.format != found.format) {
        return NotSupported(fmt::format("tensor \"{}\" is {}, expert 0's is {}; all experts of a layer need one type",
                                        name, Traits(m.format).name, Traits(found.format).name));
      }
      found.format = m.format;
      found.source.tensors.push_back(m.source.tensor);
    }
    return found;
  }
  ES_ASSIGN_OR_RETURN(const GgufTensor* t, FindShaped(alone, {cols, rows, experts}));
  ES_ASSIGN_OR_RETURN(const FoundMatrix m, Tileable(*t, 0, rows));
  found = {m.format, {{m.source.tensor}, rows, 0}};
  return found;
}

Status PlanBuilder::AddExperts(uint32_t index, uint64_t ffn, ModelPlan* plan, LayerPlan* layer) const {
  ES_ASSIGN_OR_RETURN(const FoundProjection gate, ExpertProjection(index, "gate", ffn, plan->hidden, plan->experts));
  ES_ASSIGN_OR_RETURN(const FoundProjection up, ExpertProjection(index, "up", ffn, plan->hidden, plan->experts));
  ES_ASSIGN_OR_RETURN(const FoundProjection down, ExpertProjection(index, "down", plan->hidden, ffn, plan->experts));
  layer->experts = {gate.source, up.source, down.source};

  const auto width = static_cast<uint32_t>(ffn);
  RecordLayout layout("expert");
  ExpertSpec spec;
  spec.hidden = plan->hidden;
  spec.ffn = width;
  spec.gate = layout.AddMatrix(gate.format, width, plan->hidden, {});
  spec.up = layout.AddMatrix(up.format, width, plan->hidden, {});
  spec.down = layout.AddMatrix(down.format, plan->hidden, width, {});
  spec.record_bytes = std::move(layout).Finish().bytes;

  auto& classes = plan->expert_classes;
  const auto same = std::find(classes.begin(), classes.end(), spec);
  layer->expert_class = static_cast<uint32_t>(same - classes.begin());
  if (same == classes.end()) classes.push_back(spec);
  plan->expert_stride = std::max(plan->expert_stride, spec.record_bytes);
  plan->sparse_layers.push_back(index);
  return Status::Ok();
}

RecordPlan ExpertRecord(const ModelPlan& plan, uint32_t layer, uint32_t position) {
  const LayerPlan& l = plan.layers[layer];
  const uint32_t expert = l.expert_order.empty() ? position : l.expert_order[position];
  const ExpertSpec& spec = plan.expert_classes[l.expert_class];
  const auto part = [&](const MatrixSpec& m, const ExpertSource::Projection& p) {
    const bool shared = p.tensors.size() == 1 && p.rows_per_expert != 0;
    return MatrixPart{m, {p.tensors[shared ? 0 : expert], shared ? p.rows_per_expert * expert + p.first : 0, m.rows}};
  };
  RecordPlan record;
  record.name = fmt::format("blk.{}.expert.{}", layer, expert);
  record.bytes = spec.record_bytes;
  record.matrices = {part(spec.gate, l.experts.gate), part(spec.up, l.experts.up), part(spec.down, l.experts.down)};
  return record;
}

}  // namespace estream
