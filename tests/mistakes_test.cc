// SPDX-License-Identifier: Apache-2.0
// The usual mistakes of implementing these families, made on purpose: each must show in the stored results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model_rig.h"
#include "tests/oracle.h"

namespace estream {
namespace {

using testing::LoadOracle;
using testing::MakeRig;
using testing::OracleModelPath;

// An exact run stays within 1e-3; a mistake counts as caught when it exceeds that ten times over.
constexpr double kCaught = 1e-2;

template <class Spec, class Change>
auto InMixers(const Change& change) {
  return [change](ModelPlan& plan) {
    for (LayerPlan& layer : plan.layers) {
      if (auto* spec = std::get_if<Spec>(&layer.mixer)) change(*spec);
    }
  };
}

template <class Change>
auto InRouters(const Change& change) {
  return [change](ModelPlan& plan) {
    for (LayerPlan& layer : plan.layers) change(layer.router);
  };
}

void OtherRope(RopeSpec& rope) {
  rope.style = rope.style == RopeStyle::kHalves ? RopeStyle::kAdjacent : RopeStyle::kHalves;
}

struct Mistake {
  const char* name;
  std::vector<const char*> models;
  std::function<void(ModelPlan&)> make;
};

const std::vector<Mistake>& Mistakes() {
  using A = AttentionSpec;
  using L = LatentAttentionSpec;
  static const std::vector<Mistake> all = {
      {"rotary pairs of the other style",
       {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0"},
       InMixers<A>([](A& a) { OtherRope(a.rope); })},
      {"rotary pairs of the other style, latent", {"deepseek2-t-fused-q4_0"}, InMixers<L>([](L& a) {
         OtherRope(a.rope);
       })},
      {"rotary base 10 % off",
       {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0"},
       InMixers<A>([](A& a) { a.rope.base *= 1.1F; })},
      {"norm epsilon ten times larger", {"olmoe-m-q4_0", "mixtral-m-q4_0"}, InMixers<A>([](A& a) {
         a.norm_epsilon *= 10;
       })},
      {"no q/k norm", {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0"}, InMixers<A>([](A& a) {
         a.qk_norm = QkNorm::kNone;
       })},
      {"renormalisation of expert weights inverted",
       {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0", "deepseek2-t-fused-q4_0"},
       InRouters([](RouterSpec& r) { r.renormalize = 1 - r.renormalize; })},
      {"one expert fewer",
       {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0", "deepseek2-t-fused-q4_0"},
       [](ModelPlan& plan) {
         --plan.top_k;
         for (LayerPlan& layer : plan.layers) --layer.router.top_k;
       }},
      {"gate and up swapped",
       {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0", "deepseek2-t-fused-q4_0"},
       [](ModelPlan& plan) {
         for (ExpertSpec& spec : plan.expert_classes) std::swap(spec.gate, spec.up);
         // The records keep their places; only what is read as gate and up changes.
         for (LayerPlan& layer : plan.layers) std::swap(layer.experts.gate, layer.experts.up);
         for (ExpertSpec& spec : plan.expert_classes) std::swap(spec.gate.offset, spec.up.offset);
       }},
      {"score scale from width / heads", {"qwen3moe-t-q4_0"}, InMixers<A>([](A& a) {
         a.score_scale = 1 / std::sqrt(static_cast<float>(a.hidden) / static_cast<float>(a.heads));
       })},
      {"selection bias dropped", {"lfm2moe-t-q4_0"}, InRouters([](RouterSpec& r) { r.bias = {}; })},
      {"softmax instead of sigmoid", {"lfm2moe-t-q4_0", "deepseek2-v-fused-q4_0"}, InRouters([](RouterSpec& r) {
         r.gating = Gating::kSoftmax;
       })},
      {"weights not scaled", {"deepseek2-v-fused-q4_0"}, InRouters([](RouterSpec& r) { r.scale = 1; })},
      {"no shared experts",
       {"deepseek2-t-fused-q4_0", "deepseek2-v-fused-q4_0"},
       [](ModelPlan& plan) {
         for (LayerPlan& layer : plan.layers) {
           if (layer.sparse) layer.ffn = {};
         }
       }},
      {"score scale without m * m", {"deepseek2-t-fused-q4_0", "deepseek2-l-split-q4_0"}, InMixers<L>([](L& a) {
         a.score_scale = 1 / std::sqrt(static_cast<float>(a.key_dim));
       })},
      {"no YaRN", {"deepseek2-t-fused-q4_0", "deepseek2-t-split-q4_0"}, InMixers<L>([](L& a) {
         a.rope.factor = 1;
         a.rope.original_context = 0;
       })},
      {"all frequencies divided by the factor",
       {"deepseek2-t-fused-q4_0", "deepseek2-t-split-q4_0"},
       InMixers<L>([](L& a) { a.rope.original_context = 0; })},
  };
  return all;
}

double WorstLogit(const char* model, const std::function<void(ModelPlan&)>& change) {
  auto rig = MakeRig(OracleModelPath(model), "cpu", 2, 64, 256, change);
  EXPECT_TRUE(rig.ok()) << rig.status().message();
  if (!rig.ok()) return 0;
  const auto want = LoadOracle(model).at("p64");
  const std::vector<uint32_t> rows = want.rows();
  const auto& exact = want.arrays.at("exact").f32;
  double worst = 0;
  size_t at = 0;
  const auto counts = (*rig)->prefill->Run(want.tokens(), rows, [&](uint32_t, std::span<const float> logits) {
    for (const float x : logits) worst = std::max(worst, std::abs(double{x} - double{exact[at++]}));
    return Status::Ok();
  });
  EXPECT_TRUE(counts.ok()) << counts.status().message();
  return worst;
}

TEST(Mistakes, EachWouldBeCaught) {
  for (const Mistake& mistake : Mistakes()) {
    for (const char* model : mistake.models) {
      EXPECT_GT(WorstLogit(model, mistake.make), kCaught) << mistake.name << ", " << model;
    }
  }
}

TEST(Mistakes, NoneOfThemIsMadeHere) {
  for (const char* model : {"olmoe-t-q4_0", "lfm2moe-t-q4_0", "qwen3moe-t-q4_0", "mixtral-t-q4_0",
                            "deepseek2-t-fused-q4_0", "deepseek2-l-split-q4_0"}) {
    EXPECT_LT(WorstLogit(model, nullptr), 1e-3) << model;
  }
}

}  // namespace
}  // namespace estream
