// SPDX-License-Identifier: Apache-2.0
// The forward pass: embedding, then per layer mixer, router and experts, then norm and head.
#include "model/prefill.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/macros.h"

namespace estream {
namespace {

// Logit rows computed at once: enough to reuse a decoded head panel, few enough to stay small beside the vocabulary.
constexpr uint32_t kHeadRows = 32;

}  // namespace

Result<std::unique_ptr<Prefill>> Prefill::Create(const PrefillParts& parts, uint32_t max_tokens) {
  std::unique_ptr<Prefill> p(new Prefill(parts));
  const ModelPlan& plan = *parts.plan;
  Device* const device = parts.device;
  const uint64_t tokens = max_tokens;
  const uint64_t activations = tokens * plan.hidden * sizeof(float);
  const uint64_t routes = tokens * plan.top_k * sizeof(Route);
  p->head_rows_ = std::min(kHeadRows, max_tokens);
  ES_ASSIGN_OR_RETURN(p->embedding_rows_,
                      device->Allocate(tokens * RowBytes(plan.embedding.format, plan.hidden), "embedding rows"));
  ES_ASSIGN_OR_RETURN(p->residual_, device->Allocate(activations, "residual"));
  ES_ASSIGN_OR_RETURN(p->last_residual_, device->Allocate(activations, "last layer rows"));
  ES_ASSIGN_OR_RETURN(p->normed_, device->Allocate(activations, "expert input"));
  ES_ASSIGN_OR_RETURN(p->row_ids_, device->Allocate(tokens * sizeof(uint32_t), "row ids"));
  ES_ASSIGN_OR_RETURN(p->routes_, device->Allocate(routes, "routes"));
  ES_ASSIGN_OR_RETURN(p->sorted_routes_, device->Allocate(routes, "sorted routes"));
  ES_ASSIGN_OR_RETURN(p->logits_,
                      device->Allocate(uint64_t{p->head_rows_} * plan.vocabulary * sizeof(float), "logits"));
  p->cursors_.resize(plan.experts + 1);
  return p;
}

Prefill::~Prefill() {
  for (const DeviceBuffer* b :
       {&embedding_rows_, &residual_, &last_residual_, &normed_, &row_ids_, &routes_, &sorted_routes_, &logits_}) {
    if (b->id != 0) device_->Free(*b);
  }
}

Result<PrefillCounts> Prefill::Run(std::span<const int32_t> tokens, std::span<const uint32_t> rows, const Sink& sink,
                                   PrefillObserver* observer) {
  // Nothing can be computed before these rows are there, and their small reads would wait behind whole groups.
  const uint64_t bytes = tokens.size() * RowBytes(plan_.embedding.format, plan_.hidden);
  ES_RETURN_IF_ERROR(parts_.source->ReadEmbedding(tokens, {embedding_rows_.host, bytes}));
  ES_RETURN_IF_ERROR(parts_.experts->StartRequest({tokens.size() * plan_.top_k, rows.size() * plan_.top_k}));
  auto counts = RunRequest(tokens, rows, sink, observer);
  parts_.experts->EndRequest();
  return counts;
}

Result<PrefillCounts> Prefill::RunRequest(std::span<const int32_t> tokens, std::span<const uint32_t> rows,
                                          const Sink& sink, PrefillObserver* observer) {
  PrefillCounts counts;
  sparse_index_ = 0;
  ES_RETURN_IF_ERROR(Embed(static_cast<uint32_t>(tokens.size())));
  const auto layers = static_cast<uint32_t>(plan_.layers.size());
  const auto token_count = static_cast<uint32_t>(tokens.size());
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const bool some_rows = layer + 1 == layers && rows.size() < tokens.size();
    const Status status =
        RunLayer(layer, token_count, some_rows ? rows : std::span<const uint32_t>(), observer, &counts);
    if (!status.ok()) return status.WithPrefix(fmt::format("layer {}: ", layer));
  }
  ES_RETURN_IF_ERROR(RunHead(rows, sink, &counts));
  return counts;
}

Status Prefill::Embed(uint32_t tokens) {
  x_ = residual_.ref();
  BlockInvocation call;
  call.graph = parts_.graphs->embedding;
  call.tokens = call.rows = tokens;
  call.weights = embedding_rows_.ref();
  call.out = x_;
  return Submit(call, "embedding");
}

// x += mixer(x);  x += ffn(norm(x)) or experts(norm(x)).  `rows` empty: all tokens; else the rest of the pass has these
// rows only.
Status Prefill::RunLayer(uint32_t layer, uint32_t tokens, std::span<const uint32_t> rows, PrefillObserver* observer,
                         PrefillCounts* counts) {
  const bool sparse = plan_.layers[layer].sparse;
  const uint32_t row_count = rows.empty() ? tokens : static_cast<uint32_t>(rows.size());
  if (sparse) parts_.experts->Begin(sparse_index_);
  ES_RETURN_IF_ERROR(RunMixer(layer, tokens, rows));
  if (sparse) {
    ES_RETURN_IF_ERROR(RunSparseFfn(layer, row_count, observer, counts));
  } else {
    ES_RETURN_IF_ERROR(RunDenseFfn(layer, row_count));
  }
  if (observer != nullptr) {
    ES_RETURN_IF_ERROR(WaitForAll("layer", layer));
    const DeviceBuffer& buffer = rows.empty() ? residual_ : last_residual_;
    observer->OnLayer(layer, {buffer.as<float>(), uint64_t{row_count} * plan_.hidden});
  }
  return Status::Ok();
}

Status Prefill::RunMixer(uint32_t layer, uint32_t tokens, std::span<const uint32_t> rows) {
  BlockInvocation mixer;
  mixer.graph = parts_.graphs->layers[layer].mixer;
  mixer.tokens = mixer.rows = tokens;
  mixer.weights = parts_.weights->layers[layer];
  mixer.in = mixer.out = x_;
  if (!rows.empty()) {
    mixer.rows = static_cast<uint32_t>(rows.size());
    std::copy(rows.begin(), rows.end(), row_ids_.as<uint32_t>());
    mixer.row_ids = row_ids_.ref();
    mixer.out = last_residual_.ref();
  }
  x_ = mixer.out;
  return Submit(mixer, "mixer", layer);
}

Status Prefill::RunDenseFfn(uint32_t layer, uint32_t rows) {
  BlockInvocation norm;
  norm.graph = parts_.graphs->layers[layer].ffn_norm;
  norm.tokens = norm.rows = rows;
  norm.weights = parts_.weights->layers[layer];
  norm.in = x_;
  norm.out = normed_.ref();
  ES_RETURN_IF_ERROR(Submit(norm, "norm", layer));
  return RunFfn(layer, rows, "dense ffn");
}

// x += ffn(h), with h in normed_.
Status Prefill::RunFfn(uint32_t layer, uint32_t rows, const char* name) {
  BlockInvocation ffn;
  ffn.graph = parts_.graphs->layers[layer].ffn;
  ffn.tokens = ffn.rows = rows;
  ffn.weights = parts_.weights->layers[layer];
  ffn.in = normed_.ref();
  ffn.out = x_;
  return Submit(ffn, name, layer);
}

Status Prefill::RunSparseFfn(uint32_t layer, uint32_t rows, PrefillObserver* observer, PrefillCounts* counts) {
  BlockInvocation router;
  router.graph = parts_.graphs->layers[layer].router;
  router.tokens = router.rows = rows;
  router.weights = parts_.weights->layers[layer];
  router.in = x_;
  router.out = normed_.ref();
  router.routes = routes_.ref();
  ES_RETURN_IF_ERROR(Submit(router, "router", layer));
  ES_RETURN_IF_ERROR(WaitForAll("router", layer));

  const uint32_t route_count = rows * plan_.top_k;
  if (observer != nullptr) observer->OnRoutes(layer, {routes_.as<Route>(), route_count});
  ES_RETURN_IF_ERROR(SortRoutes(layer, route_count, counts));
  if (plan_.layers[layer].ffn.ffn > 0) ES_RETURN_IF_ERROR(RunFfn(layer, rows, "shared experts"));

  ExpertWork work;
  work.layer = sparse_index_++;
  work.tokens = rows;
  work.route_count = route_count;
  work.host_routes = sorted_routes_.as<Route>();
  work.routes = sorted_routes_.ref();
  work.x = normed_.ref();
  work.y = x_;
  return parts_.experts->Run(work);
}

// routes_ (token by token) -> sorted_routes_ (expert by expert, tokens ascending): a stable counting sort.
Status Prefill::SortRoutes(uint32_t layer, uint32_t count, PrefillCounts* counts) {
  const std::span<const Route> routes(routes_.as<Route>(), count);
  std::fill(cursors_.begin(), cursors_.end(), 0u);
  for (const Route& r : routes) {
    if (r.expert >= plan_.experts) {
      return Status::Device(
          fmt::format("the device chose expert {} of {} in layer {}", r.expert, plan_.experts, layer));
    }
    ++cursors_[r.expert + 1];
  }
  counts->routes += count;
  counts->active_experts +=
      static_cast<uint64_t>(std::count_if(cursors_.begin(), cursors_.end(), [](uint32_t c) { return c > 0; }));
  std::partial_sum(cursors_.begin(), cursors_.end(), cursors_.begin());
  Route* sorted = sorted_routes_.as<Route>();
  for (const Route& r : routes) sorted[cursors_[r.expert]++] = r;
  return Status::Ok();
}

// Final norm, then logits some rows at a time: the whole [rows, vocabulary] matrix is never held.
Status Prefill::RunHead(std::span<const uint32_t> rows, const Sink& sink, PrefillCounts* counts) {
  const auto row_count = static_cast<uint32_t>(rows.size());
  const uint64_t row_bytes = uint64_t{plan_.hidden} * sizeof(float);
  BlockInvocation norm;
  norm.graph = parts_.graphs->final_norm;
  norm.tokens = norm.rows = row_count;
  norm.weights = parts_.weights->final_norm;
  norm.in = x_;
  norm.out = normed_.ref();
  ES_RETURN_IF_ERROR(Submit(norm, "norm"));

  for (uint32_t first = 0; first < row_count; first += head_rows_) {
    BlockInvocation head;
    head.graph = parts_.graphs->head;
    head.tokens = head.rows = std::min(head_rows_, row_count - first);
    head.row_count = head.out_stride = plan_.vocabulary;
    head.weights = parts_.weights->head;
    head.in = normed_.ref(first * row_bytes);
    head.out = logits_.ref();
    ES_RETURN_IF_ERROR(Submit(head, "head"));
    ES_RETURN_IF_ERROR(WaitForAll("head"));
    if (first == 0) counts->first_logits = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < head.rows; ++i) {
      const float* logits = logits_.as<float>() + uint64_t{i} * plan_.vocabulary;
      ES_RETURN_IF_ERROR(sink(rows[first + i], {logits, plan_.vocabulary}));
    }
  }
  return Status::Ok();
}

Status Prefill::Submit(const BlockInvocation& call, const char* name, uint32_t layer) {
  const ComputeSpan span(parts_.clock, name, layer);
  ES_ASSIGN_OR_RETURN(last_, device_->Submit(call));
  return Status::Ok();
}

Status Prefill::WaitForAll(const char* name, uint32_t layer) {
  const ComputeSpan span(parts_.clock, name, layer);
  return device_->Wait(last_);
}

}  // namespace estream
