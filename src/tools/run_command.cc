// SPDX-License-Identifier: Apache-2.0
// `estream run`: one pass over a prompt, then its most likely next tokens.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "base/machine.h"
#include "base/macros.h"
#include "format/file.h"
#include "format/npy.h"
#include "format/quote.h"
#include "task/score.h"
#include "text/utf8.h"
#include "tools/chat_flags.h"
#include "tools/command_line.h"
#include "tools/flag_text.h"
#include "tools/model_flags.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

constexpr uint64_t kMaxPromptBytes = uint64_t{256} << 20;

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  std::string prompt_file;
  std::string tokens;
  ChatFlags chat;
  std::vector<int32_t> token_ids;  // in `tokens`
  bool escapes = false;
  bool parse_special = false;
  bool no_bos = false;
  uint32_t top = 5;
  uint32_t repeat = 1;
  std::string logits_file;
  bool all_rows = false;
  bool json = false;
  // Which of the sources of a prompt were given, beside those of `chat`.
  CLI::Option* prompt_option = nullptr;
  CLI::Option* prompt_file_option = nullptr;
  CLI::Option* tokens_option = nullptr;
};

struct NextToken {
  int32_t id;
  float logit;
  double probability;
};

// The `count` most likely tokens of a logits row, most likely first, the lowest id first among equals.
Result<std::vector<NextToken>> MostLikely(std::span<const float> logits, uint32_t count) {
  const double normalizer = LogSumExp(logits);
  if (std::isnan(normalizer)) return Status::Device("the logits of the last token are not finite");
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto middle = ids.begin() + static_cast<ptrdiff_t>(std::min<size_t>(count, ids.size()));
  std::partial_sort(ids.begin(), middle, ids.end(),
                    [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  std::vector<NextToken> top;
  for (auto it = ids.begin(); it != middle; ++it) {
    top.push_back({*it, logits[*it], std::exp(logits[*it] - normalizer)});
  }
  return top;
}

Outcome Check(RunFlags& flags, Positionals positionals) {
  ES_RETURN_IF_NOT_OK(CheckModelFlags(&flags.model, &positionals));
  if (!positionals.empty()) {
    return Outcome::Usage(fmt::format("unexpected argument {}; a prompt goes behind -p", Quoted(positionals[0])));
  }
  ES_RETURN_IF_NOT_OK(CheckChatFlags(flags.chat));
  const size_t sources = flags.prompt_option->count() + flags.prompt_file_option->count() +
                         flags.tokens_option->count() + flags.chat.sources();
  if (sources != 1) {
    return Outcome::Usage("a prompt is needed, from exactly one of -p, -f, --tokens, --user and --messages");
  }
  if (flags.chat.sources() == 1 && (flags.parse_special || flags.no_bos)) {
    return Outcome::Usage(fmt::format("{} does not go with {}: the chat template says which control tokens there are",
                                      flags.parse_special ? "--parse-special" : "--no-bos",
                                      flags.chat.user_option->count() == 1 ? "--user" : "--messages"));
  }
  if (flags.prompt_option->count() == 1 && flags.prompt.empty()) return Outcome::Usage("-p: the prompt is empty");
  if (flags.all_rows && flags.logits_file.empty()) return Outcome::Usage("--all-rows needs --logits");
  flags.model.experts.keep_warm = flags.repeat > 1;
  if (flags.tokens_option->count() == 0) return Outcome::Ok();
  std::optional<std::vector<int32_t>> ids = ParseTokenIds(flags.tokens);
  if (!ids) return Outcome::Usage(fmt::format("--tokens: expected ids like 5,17,9, found {}", Quoted(flags.tokens)));
  flags.token_ids = std::move(*ids);
  return Outcome::Ok();
}

Outcome TakePromptTokens(const RunFlags& flags, const Model& model, std::vector<int32_t>* tokens) {
  for (const int32_t id : flags.token_ids) {
    if (static_cast<uint32_t>(id) >= model.info().vocabulary) {
      return Outcome::Usage(
          fmt::format("--tokens: {} is outside the vocabulary of {} tokens", id, model.info().vocabulary));
    }
  }
  *tokens = flags.token_ids;
  return Outcome::Ok();
}

// The tokens to run; of a conversation also its text, to `chat_text`.
Outcome ReadPrompt(const RunFlags& flags, const Model& model, std::vector<int32_t>* tokens,
                   std::optional<std::string>* chat_text) {
  if (flags.tokens_option->count() == 1) return TakePromptTokens(flags, model, tokens);
  if (flags.chat.sources() == 1) {
    ChatPrompt chat;
    ES_RETURN_IF_NOT_OK(ReadChat(flags.chat, flags.escapes, model, &chat));
    *chat_text = std::move(chat.text);
    *tokens = std::move(chat.tokens);
    if (tokens->empty()) return Status::InvalidArgument("the chat template makes nothing of these messages");
    return Outcome::Ok();
  }
  std::string text = flags.escapes ? Unescape(flags.prompt) : flags.prompt;
  if (flags.prompt_file_option->count() == 1) {
    ES_ASSIGN_OR_RETURN(text, ReadTextFile(flags.prompt_file, kMaxPromptBytes));
    text = WithoutFinalNewline(std::move(text));
    if (text.empty()) return Status::InvalidArgument(fmt::format("{} holds no prompt", ShownPath(flags.prompt_file)));
  }
  const TextOptions options{.add_special = !flags.no_bos, .parse_special = flags.parse_special};
  ES_ASSIGN_OR_RETURN(*tokens, model.Encode(text, options));
  if (tokens->empty()) return Status::InvalidArgument("the prompt has no tokens");
  return Outcome::Ok();
}

// One pass; the last row's best tokens go to `top`, the asked rows to the file of --logits.
Outcome Prefill(const RunFlags& flags, Engine* engine, const std::vector<int32_t>& tokens, PrefillReport* report,
                std::vector<NextToken>* top) {
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  std::vector<uint32_t> rows = {last};
  if (flags.all_rows) {
    rows.resize(tokens.size());
    std::iota(rows.begin(), rows.end(), 0u);
  }
  std::unique_ptr<NpyWriter> writer;
  if (!flags.logits_file.empty()) {
    ES_ASSIGN_OR_RETURN(writer, NpyWriter::Create(flags.logits_file, rows.size(), engine->model().info().vocabulary));
  }
  const auto sink = [&](uint32_t row, std::span<const float> logits) -> Status {
    if (writer) ES_RETURN_IF_ERROR(writer->Append(logits));
    if (row == last) {
      ES_ASSIGN_OR_RETURN(*top, MostLikely(logits, flags.top));
    }
    return Status::Ok();
  };
  ES_ASSIGN_OR_RETURN(*report, engine->Prefill({.tokens = tokens, .rows = rows}, sink));
  if (writer) ES_RETURN_IF_ERROR(writer->Finish());
  return Outcome::Ok();
}

struct RunResult {
  std::vector<int32_t> tokens;
  std::optional<std::string> chat_text;
  double load_s = 0;
  uint64_t mem_available_drop = 0;  // in the system's MemAvailable, from before the model was opened to after the pass
  PrefillReport report;
  std::vector<NextToken> top;

  double tokens_per_s() const { return report.ttft_s > 0 ? report.tokens / report.ttft_s : 0; }
};

void PrintJson(const RunFlags& flags, const Engine& engine, const RunResult& result) {
  const ModelInfo& info = engine.model().info();
  Json top = Json::array();
  for (const NextToken& next : result.top) {
    top.push_back({{"id", next.id},
                   {"text", ToValidUtf8(engine.model().Decode(std::span(&next.id, 1)))},
                   {"prob", next.probability},
                   {"logit", next.logit}});
  }
  Json line = {{"model", ToValidUtf8(flags.model.model)},
               {"file", ToValidUtf8(info.path)},
               {"architecture", ToValidUtf8(info.architecture)},
               {"device", ToValidUtf8(engine.device_description())},
               {"activations", engine.activations()},
               {"tokens", result.report.tokens},
               {"ttft_s", result.report.ttft_s},
               {"tokens_per_s", result.tokens_per_s()},
               {"total_s", result.report.total_s},
               {"load_s", result.load_s},
               {"peak_rss_bytes", PeakResidentBytes()},
               {"routes", result.report.routes},
               {"active_experts", result.report.active_experts},
               {"experts", ToValidUtf8(engine.expert_description())},
               {"compute_s", result.report.compute_s},
               {"io_s", result.report.io_s},
               {"stall_s", result.report.stall_s},
               {"bubble_rate", result.report.bubble_rate()},
               {"read_bytes", result.report.read_bytes},
               {"wasted_bytes", result.report.wasted_bytes},
               {"early_groups", result.report.early_groups},
               {"later_groups", result.report.later_groups},
               {"mem_available_drop_bytes", result.mem_available_drop},
               {"top", top},
               {"token_ids", result.tokens},
               {"memory", MemoryJson(engine.memory())}};
  if (result.chat_text) line["prompt"] = ToValidUtf8(*result.chat_text);
  Write(JsonLine(line));
}

void PrintForPeople(const Engine& engine, const RunResult& result) {
  const bool colour = UsesColour(stdout);
  std::vector<std::string> texts;
  size_t width = 0;
  for (const NextToken& next : result.top) {
    texts.push_back('"' + OneLine(engine.model().Decode(std::span(&next.id, 1))) + '"');
    width = std::max(width, Columns(texts.back()));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    Write(fmt::format("{}  {}  {}\n", FormatPercent(result.top[i].probability),
                      Bold(Fit(texts[i], width), colour && i == 0),
                      Dim(fmt::format("token {}", result.top[i].id), colour)));
  }
  Write(fmt::format("{} tokens, first logits after {} ({:.0f} tokens/s), loaded in {}\n", result.report.tokens,
                    FormatSeconds(result.report.ttft_s), result.tokens_per_s(), FormatSeconds(result.load_s)));
  Write(fmt::format("peak memory {}, {}, {} activations\n", FormatBytes(PeakResidentBytes()),
                    OneLine(engine.device_description()), engine.activations()));
  if (result.report.read_bytes > 0) {
    Write(fmt::format("experts: {}; read {}, waited {}\n", OneLine(engine.expert_description()),
                      FormatBytes(result.report.read_bytes), FormatSeconds(result.report.stall_s)));
  }
}

Outcome Run(const RunFlags& flags) {
  RunResult result;
  const std::optional<SystemMemory> before = ReadSystemMemory();
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<const Model> model;
  ES_RETURN_IF_NOT_OK(OpenModel(flags.model, &model));
  ES_RETURN_IF_NOT_OK(ReadPrompt(flags, *model, &result.tokens, &result.chat_text));
  std::unique_ptr<Engine> engine;
  ES_RETURN_IF_NOT_OK(OpenEngine(flags.model, model, result.tokens.size(), &engine));
  result.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  for (uint32_t pass = 0; pass < flags.repeat; ++pass) {
    result.top.clear();
    ES_RETURN_IF_NOT_OK(Prefill(flags, engine.get(), result.tokens, &result.report, &result.top));
  }
  ES_RETURN_IF_NOT_OK(WriteTrace(flags.model, *engine));
  const std::optional<SystemMemory> after = ReadSystemMemory();
  if (before && after && before->available_bytes > after->available_bytes) {
    result.mem_available_drop = before->available_bytes - after->available_bytes;
  }
  if (flags.json) {
    PrintJson(flags, *engine, result);
  } else {
    PrintForPeople(*engine, result);
  }
  return Outcome::Ok();
}

}  // namespace

Verb AddRunCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("run", "Run a prompt and show the most likely next tokens");
  auto flags = std::make_shared<RunFlags>();
  DescribePositional(app, "MODEL", false, "The model, when -m does not name it");
  AddModelFlags(app, &flags->model);
  flags->prompt_option = app.add_option("-p,--prompt", flags->prompt, "The prompt")->type_name("TEXT");
  flags->prompt_file_option =
      app.add_option("-f,--file", flags->prompt_file,
                     "Read the prompt from a file (- is standard input); one final newline is dropped")
          ->type_name("FILE");
  flags->tokens_option =
      app.add_option("--tokens", flags->tokens, "The prompt as token ids, nothing added")->type_name("5,17,9");
  AddChatFlags(app, &flags->chat);
  app.add_flag("-e,--escape", flags->escapes,
               "Read \\n, \\t, \\r and \\\\ in -p, --user and --system as newline, tab, return, backslash");
  app.add_flag("--parse-special", flags->parse_special,
               "Read the names of control tokens in the prompt as those tokens");
  app.add_flag("--no-bos", flags->no_bos, "Put no beginning-of-sequence token in front");
  AddCount(app, "--top", 1, 1000, &flags->top, "Show the N most likely next tokens; default: 5");
  AddCount(app, "--repeat", 1, 1000, &flags->repeat,
           "Run the pass N times and show the last: what it takes once memory and banks are warm");
  app.add_option("--logits", flags->logits_file, "Write the last token's logits as a NumPy array [1, vocabulary]")
      ->type_name("OUT.npy");
  app.add_flag("--all-rows", flags->all_rows, "With --logits: the logits of every token [tokens, vocabulary]");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer(
      "Examples:\n"
      "  estream run -m olmoe.gguf -p 'The capital of France is'\n"
      "  estream run olmoe.gguf -f prompt.txt --top 10 --json\n"
      "  estream run olmoe.gguf -e -p 'Message: see you at six\\nSpam:'\n"
      "  estream run qwen3.gguf --system 'Answer yes or no.' --user 'Is water wet?' --json\n"
      "  estream run olmoe.gguf --tokens 50279,510,5347 --logits out.npy --all-rows");
  return {&app, [flags](Positionals p) { return Check(*flags, std::move(p)); }, [flags] { return Run(*flags); }};
}

}  // namespace estream
