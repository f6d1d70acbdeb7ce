// SPDX-License-Identifier: Apache-2.0
// Labels as continuations of the filled template, compared by their log-probabilities.
#include "estream/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "base/macros.h"
#include "format/quote.h"
#include "task/prompt_template.h"
#include "task/score.h"

namespace estream {
namespace {

Status CheckLabels(const std::vector<std::string>& labels) {
  if (labels.size() < 2) {
    return Status::InvalidArgument(fmt::format("classification needs two labels or more, found {}", labels.size()));
  }
  std::set<std::string_view> seen;
  for (const std::string& label : labels) {
    if (label.empty()) return Status::InvalidArgument("a label is empty");
    if (!seen.insert(label).second) {
      return Status::InvalidArgument(fmt::format("the label {} occurs twice", Quoted(label)));
    }
  }
  return Status::Ok();
}

// The labels with the ids that will be scored, and no scores yet.
Result<std::vector<LabelScore>> EncodeLabels(const Model& model, const ClassifyOptions& options) {
  std::vector<LabelScore> result;
  std::map<std::vector<int32_t>, std::string_view> owners;
  for (const std::string& label : options.labels) {
    LabelScore score;
    score.label = label;
    ES_ASSIGN_OR_RETURN(score.tokens, model.Encode(options.label_prefix + label + options.label_suffix,
                                                   {.add_special = false, .parse_special = false}));
    if (score.tokens.empty()) {
      return Status::InvalidArgument(fmt::format("the label {} has no tokens in this vocabulary", Quoted(label)));
    }
    const auto [owner, is_new] = owners.emplace(score.tokens, label);
    if (!is_new) {
      return Status::InvalidArgument(
          fmt::format("the labels {} and {} have the same tokens, so they cannot be told apart", Quoted(owner->second),
                      Quoted(label)));
    }
    result.push_back(std::move(score));
  }
  return result;
}

// probability = softmax of the (per-token, if `normalize`) log-probabilities over the labels; returns the best one.
size_t CompareLabels(bool normalize, std::vector<LabelScore>* labels) {
  const auto score = [&](const LabelScore& label) {
    return label.log_probability / (normalize ? static_cast<double>(label.tokens.size()) : 1.0);
  };
  size_t best = 0;
  for (size_t i = 1; i < labels->size(); ++i) {
    if (score((*labels)[i]) > score((*labels)[best])) best = i;
  }
  const double largest = score((*labels)[best]);
  double sum = 0;
  for (LabelScore& label : *labels) {
    // When every label is impossible (-infinity), none is likelier than another.
    label.probability = std::isinf(largest) ? 1.0 : std::exp(score(label) - largest);
    sum += label.probability;
  }
  for (LabelScore& label : *labels) label.probability /= sum;
  return best;
}

class LabelClassifier final : public Classifier {
 public:
  LabelClassifier(Engine* engine, bool normalize, PromptTemplate prompt_template, std::vector<LabelScore> labels,
                  ContinuationPlan plan)
      : engine_(engine),
        normalize_(normalize),
        template_(std::move(prompt_template)),
        labels_(std::move(labels)),
        plan_(std::move(plan)) {}

  Result<Classification> Classify(std::string_view text) override {
    const auto start = std::chrono::steady_clock::now();
    // The text is content, never control: the names of special tokens in it stay text.
    ES_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, engine_->model().Encode(template_.Fill(text)));
    const uint64_t needed = uint64_t{prompt.size()} + plan_.longest_context();
    if (needed > engine_->max_tokens()) {
      return Status::InvalidArgument(fmt::format("template, text and label are {} tokens long, but at most {} fit",
                                                 needed, engine_->max_tokens()));
    }
    ES_ASSIGN_OR_RETURN(const std::vector<double> scores, plan_.Score(engine_, prompt));

    Classification result;
    result.scores = labels_;
    for (size_t i = 0; i < scores.size(); ++i) result.scores[i].log_probability = scores[i];
    result.best = CompareLabels(normalize_, &result.scores);
    result.prompt_tokens = static_cast<uint32_t>(prompt.size());
    result.passes = plan_.pass_count();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  Engine* engine_;
  bool normalize_;
  PromptTemplate template_;
  std::vector<LabelScore> labels_;  // with ids, without scores
  ContinuationPlan plan_;
};

}  // namespace

Result<std::unique_ptr<Classifier>> Classifier::Create(Engine* engine, const ClassifyOptions& options) {
  ES_RETURN_IF_ERROR(CheckLabels(options.labels));
  ES_ASSIGN_OR_RETURN(PromptTemplate prompt_template, PromptTemplate::Parse(options.prompt_template));
  ES_ASSIGN_OR_RETURN(std::vector<LabelScore> labels, EncodeLabels(engine->model(), options));
  std::vector<std::vector<int32_t>> continuations;
  for (const LabelScore& label : labels) continuations.push_back(label.tokens);
  ES_ASSIGN_OR_RETURN(ContinuationPlan plan, ContinuationPlan::Create(continuations));
  return std::unique_ptr<Classifier>(std::make_unique<LabelClassifier>(
      engine, options.normalize, std::move(prompt_template), std::move(labels), std::move(plan)));
}

}  // namespace estream
