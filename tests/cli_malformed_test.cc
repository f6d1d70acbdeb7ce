// SPDX-License-Identifier: Apache-2.0
// The damaged, odd and unusual model files as users meet them: `run` and `inspect` end well, or with one sentence that
// names the file and what is wrong in it.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cli_program.h"
#include "tests/malformed_cases.h"

namespace estream {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What the sentence about a refused case must name, by the beginning of the case's name; the first that fits.
constexpr std::pair<const char*, const char*> kNamed[] = {
    {"empty", "header"},
    {"magic-only", "header"},
    {"short-header", "header"},
    {"magic-", "not a GGUF file"},
    {"version-big", "big-endian"},
    {"version-", "GGUF version "},
    {"n-tensors-zero", "tensor \"blk.0.attn_norm.weight\" is missing"},
    {"n-tensors-plus", "tensor 28 of 28"},
    {"n-tensors-", "the header claims"},
    {"n-kv-max", "the header claims"},
    {"n-kv-plus", "tensor 1 of 27"},
    {"n-kv-minus", "tensor \"general.file_type\""},
    {"cut-in-kv", "the header claims 27 tensors"},
    {"cut-in-infos", "tensor 25 of 27"},
    {"cut-before-data", "tensor \"token_embd.weight\""},
    {"cut-in-data", "tensor \"blk.0.ffn_gate_exps.weight\""},
    {"cut-last", "tensor \"output_norm.weight\""},
    {"key-length", "metadata key 2 of 23"},
    {"key-duplicate-conflict", "key \"olmoe.block_count\""},
    {"key-duplicate", "key \"general.name\""},
    {"string-past-end", "key \"general.name\""},
    {"value-type", "key \"general.name\""},
    {"array-", "key \"x.a\""},
    {"tensor-duplicate", "tensor \"blk.0.attn_q.weight\""},
    {"tensor-name", "tensor 4 of 27"},
    {"dim-product-wraps", "tensor \"blk.0.ffn_gate_exps.weight\""},
    {"dim", "tensor \"blk.0.attn_q.weight\""},
    {"type-i32", "tensor \"blk.0.ffn_gate_inp.weight\""},
    {"type-size", "\"blk.0.attn_q.weight\" and \"blk.0.attn_k.weight\""},
    {"type-", "tensor \"blk.0.attn_q.weight\""},
    {"row-not-blocks", "tensor \"blk.0.attn_q.weight\""},
    {"offset-misaligned", "tensor \"output_norm.weight\""},
    {"offset-", "tensor \"blk.0.attn_q.weight\""},
    {"overlap-", "\"blk.0.attn_q.weight\" and \"blk."},
    {"align-claimed", "tensor \"output.weight\""},
    {"align-", "key \"general.alignment\""},
    {"arch-other", "key \"qwen3moe.block_count\""},
    {"arch-unknown", "architecture \"olmoz\""},
    {"arch-", "key \"general.architecture\""},
    {"missing-embedding", "key \"olmoe.embedding_length\" is missing"},
    {"missing-block", "key \"olmoe.block_count\" is missing"},
    {"missing-layer", "key \"olmoe.attention.layer_norm_rms_epsilon\" is missing"},
    {"missing-expert-used", "key \"olmoe.expert_used_count\" is missing"},
    {"missing-expert", "key \"olmoe.expert_count\" is missing"},
    {"missing-head", "key \"olmoe.attention.head_count\" is missing"},
    {"block-count-3", "tensor \"blk.2.attn_norm.weight\" is missing"},
    {"block-count", "key \"olmoe.block_count\""},
    {"embedding-length-64", "tensor \"blk.0.attn_norm.weight\""},
    {"embedding-length", "key \"olmoe.embedding_length\""},
    {"embedding-one", "tensor \"token_embd.weight\""},
    {"head-count-0", "key \"olmoe.attention.head_count\""},
    {"head-count-3", "attention."},
    {"head-kv", "key \"olmoe.attention.head_count_kv\""},
    {"experts-2d", "tensor \"blk.0.ffn_gate_exps.weight\""},
    {"experts-8", "tensor \"blk.0.ffn_gate_inp.weight\""},
    {"experts-3", "tensor \"blk.0.ffn_gate_inp.weight\""},
    {"experts-", "key \"olmoe.expert_count\""},
    {"used-", "key \"olmoe.expert_used_count\""},
    {"ff-wrong", "tensor \"blk.0.ffn_gate_exps.weight\""},
    {"eps-", "key \"olmoe.attention.layer_norm_rms_epsilon\""},
    {"rope-base", "key \"olmoe.rope.freq_base\""},
    {"no-token-embd", "tensor \"token_embd.weight\" is missing"},
    {"no-output-norm", "tensor \"output_norm.weight\" is missing"},
    {"no-output", "tensor \"output.weight\" is missing"},
    {"no-blk-0", "tensor \"blk.0.ffn_gate_inp.weight\" is missing"},
    {"no-blk-1-ffn", "tensor \"blk.1.ffn_down_exps.weight\" is missing"},
    {"no-blk-1-attn", "tensor \"blk.1.attn_k_norm.weight\" is missing"},
    {"norm-too-long", "tensor \"blk.0.attn_norm.weight\""},
    {"router-transposed", "tensor \"blk.0.ffn_gate_inp.weight\""},
    {"vocab-one", "tensor \"token_embd.weight\""},
    {"vocab-type-count", "key \"tokenizer.ggml.token_type\""},
    {"vocab-", "key \"tokenizer.ggml.tokens\""},
    {"merges-", "key \"tokenizer.ggml.merges\""},
    {"tokenizer-", "tokenizer.ggml.model"},
};

std::string Named(const std::string& name) {
  for (const auto& [begins, named] : kNamed) {
    if (name.starts_with(begins)) return named;
  }
  ADD_FAILURE() << "no row for " << name;
  return "";
}

// The last line of standard error: "estream: ", the file, a sentence; shorter than 300 bytes. Nothing was answered.
void ExpectOneSentence(const ProgramResult& result, const std::string& path) {
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, EndsWith("\n"));
  const std::vector<std::string> lines = SplitText(result.err, '\n');
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), StartsWith("estream: " + path + ": "));
  EXPECT_LT(lines.back().size(), 300u);
}

void ExpectRefused(const MalformedCase& c, const std::string& path, const ProgramResult& run) {
  ExpectOneSentence(run, path);
  EXPECT_EQ(SplitText(run.err, '\n').size(), 1u) << run.err;
  EXPECT_THAT(run.err, HasSubstr(Named(c.name)));
  const ProgramResult inspect = RunEstream({"inspect", path});
  if (inspect.exit_code != 0) {  // it is no GGUF file
    ExpectOneSentence(inspect, path);
    EXPECT_EQ(inspect.err, run.err);
  } else {  // it is one, and `runs` says why it does not
    EXPECT_EQ(inspect.err, "");
    EXPECT_THAT(inspect.out, HasSubstr("no: " + run.err.substr(std::string("estream: ").size())));
  }
}

void ExpectAnswered(const std::string& path, const ProgramResult& run) {
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("3 tokens"));
  const ProgramResult inspect = RunEstream({"inspect", path});
  EXPECT_EQ(inspect.exit_code, 0) << inspect.err;
  EXPECT_THAT(inspect.out, HasSubstr("yes"));
}

TEST(CliMalformed, FilesAreRefusedInOneSentenceOrAnswered) {
  const TempDir folder;
  for (const MalformedCase& c : MalformedCases()) {
    if (!c.base.starts_with("olmoe")) continue;  // other families: MalformedModels
    SCOPED_TRACE(c.name + ": " + c.what);
    const std::string path = MakeMalformed(c, folder);
    const ProgramResult run = RunEstream({"run", path, "--tokens", "2,5,7"});
    if (c.expectation == "reject") {
      ExpectRefused(c, path, run);
    } else if (c.expectation == "accept" || run.exit_code == 0) {
      ExpectAnswered(path, run);
    } else {
      ExpectOneSentence(run, path);
    }
  }
}

}  // namespace
}  // namespace estream
