// SPDX-License-Identifier: Apache-2.0
// Classification by likelihood: which label does the model expect after the prompt?
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estream/engine.h"
#include "estream/status.h"

namespace estream {

struct ClassifyOptions {
  std::vector<std::string> labels;         // two or more, all different
  std::string prompt_template = "{text}";  // `{text}` stands for the text; must occur exactly once
  std::string label_prefix = " ";          // put before each label before it is tokenized
  std::string label_suffix;                // and after it ("\n" closes a label that may begin another)
  bool normalize = false;                  // compare log-probability per token instead of the sum
};

struct LabelScore {
  std::string label;
  std::vector<int32_t> tokens;  // the ids that were scored
  double log_probability = 0;   // Σ log P(token | prompt and the tokens before it)
  double probability = 0;       // softmax of the (normalised) scores over the labels
};

struct Classification {
  std::vector<LabelScore> scores;  // in the order of options.labels
  size_t best = 0;                 // index of the winner; the first of equals
  uint32_t prompt_tokens = 0;
  uint32_t passes = 0;  // forward passes it took
  double seconds = 0;
};

// Scores every label's full token sequence after the prompt. Labels that differ in one final token share a pass.
//
// Prompt and label are tokenized apart and joined, so that a label's ids do not depend on the text before it.
class Classifier {
 public:
  // Errors: InvalidArgument for fewer than two labels, an empty or repeated one, two labels with the same tokens, or a
  // template without exactly one {text}.
  static Result<std::unique_ptr<Classifier>> Create(Engine* engine, const ClassifyOptions& options);
  virtual ~Classifier() = default;

  // Errors: as Engine::Prefill; InvalidArgument when prompt and label together are longer than max_tokens.
  virtual Result<Classification> Classify(std::string_view text) = 0;
};

}  // namespace estream
