// SPDX-License-Identifier: Apache-2.0
// `estream inspect`: what a GGUF file or pack holds, and what the engine makes of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/aligned_buffer.h"
#include "base/macros.h"
#include "format/quote.h"
#include "text/utf8.h"
#include "tools/command_line.h"
#include "tools/model_facts.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

struct InspectFlags {
  std::string model;
  bool metadata = false;
  bool tensors = false;
  bool json = false;
};

constexpr uint64_t kShownElements = 6;  // of an array
constexpr size_t kShownColumns = 80;    // of a string

// One element of an array, or a scalar, as JSON.
Json JsonScalar(const GgufValue& value) {
  if (const auto text = value.AsString()) return ToValidUtf8(*text);
  if (const auto flag = value.AsBool()) return *flag;
  if (const auto number = value.AsUint()) return *number;
  if (const auto number = value.AsInt()) return *number;
  if (const auto number = value.AsFloat()) return *number;
  return nullptr;
}

// The first elements of an array.
Json JsonElements(const GgufValue& value, uint64_t count) {
  Json elements = Json::array();
  if (const auto strings = value.Strings()) {
    for (uint64_t i = 0; i < count; ++i) elements.push_back(ToValidUtf8((*strings)[i]));
    return elements;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const auto integer = value.IntAt(i);
    const auto real = value.FloatAt(i);
    if (integer) elements.push_back(*integer);
    if (real) elements.push_back(*real);
    if (!integer && !real) elements.push_back(value.bytes()[i] != std::byte{0});  // bools
  }
  return elements;
}

Json MetadataJson(const Gguf& file) {
  Json all = Json::object();
  for (const auto& [key, value] : file.metadata()) {
    if (value.type() != GgufValueType::kArray) {
      all[ToValidUtf8(key)] = JsonScalar(value);
      continue;
    }
    all[ToValidUtf8(key)] = {{"type", GgufValueTypeName(value.element_type())},
                             {"count", value.count()},
                             {"first", JsonElements(value, std::min(value.count(), kShownElements))}};
  }
  return all;
}

Json TensorsJson(const Gguf& file) {
  Json all = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    all.push_back({{"name", ToValidUtf8(tensor.name)},
                   {"type", *GgufTypeName(tensor.gguf_type)},
                   {"shape", std::vector<uint64_t>(tensor.dims, tensor.dims + tensor.dimensions)},
                   {"bytes", tensor.bytes},
                   {"shard", tensor.shard},
                   {"offset", tensor.offset}});
  }
  return all;
}

Json PlanJson(const PlanFacts& plan) {
  Json classes = Json::array();
  for (const ClassFacts& c : plan.classes) {
    classes.push_back({{"hidden", c.spec.hidden},
                       {"ffn", c.spec.ffn},
                       {"gate", Traits(c.spec.gate.format).name},
                       {"up", Traits(c.spec.up.format).name},
                       {"down", Traits(c.spec.down.format).name},
                       {"record_bytes", c.spec.record_bytes},
                       {"records", c.records}});
  }
  return {{"layers", plan.layers},
          {"sparse_layers", plan.sparse_layers},
          {"hidden", plan.hidden},
          {"experts", plan.experts},
          {"top_k", plan.top_k},
          {"vocabulary", plan.vocabulary},
          {"context", plan.context},
          {"shape_classes", classes},
          {"expert_stride_bytes", plan.expert_stride},
          {"block_records", plan.block_records},
          {"block_bytes", plan.block_bytes},
          {"largest_block_bytes", plan.largest_block},
          {"head_bytes", plan.head_bytes},
          {"embedding_bytes", plan.embedding_bytes}};
}

void PrintJson(const Gguf& file, const ModelFacts& facts, const InspectFlags& flags) {
  Json types = Json::array();
  for (const TypeTotal& t : facts.types)
    types.push_back({{"type", t.type}, {"tensors", t.tensors}, {"bytes", t.bytes}});
  const TokenizerFacts& t = facts.tokenizer;
  Json tokenizer = {{"model", ToValidUtf8(t.model)},
                    {"pre", ToValidUtf8(t.pre)},
                    {"tokens", t.tokens},
                    {"merges", t.merges},
                    {"bos", nullptr},
                    {"eos", nullptr},
                    {"chat_template", t.has_chat_template}};
  if (t.bos) tokenizer["bos"] = *t.bos;
  if (t.eos) tokenizer["eos"] = *t.eos;
  Json all = {{"file", ToValidUtf8(facts.path)},
              {"gguf_version", facts.version},
              {"files", facts.files},
              {"bytes", facts.file_bytes},
              {"pack", facts.is_pack},
              {"architecture", ToValidUtf8(facts.architecture)},
              {"name", ToValidUtf8(facts.name)},
              {"runs", facts.runs.ok()},
              {"reason", facts.runs.ok() ? Json(nullptr) : Json(ToValidUtf8(facts.runs.message()))},
              {"expert_bytes", facts.expert_bytes},
              {"non_expert_bytes", facts.other_bytes},
              {"types", types},
              {"plan", facts.plan ? PlanJson(*facts.plan) : Json(nullptr)},
              {"tokenizer", tokenizer}};
  if (flags.metadata) all["metadata"] = MetadataJson(file);
  if (flags.tensors) all["tensors"] = TensorsJson(file);
  Write(JsonLine(all));
}

// "3.62 GB (3.4 GiB)": files and papers count in the one unit, memory in the other.
std::string Size(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  const std::string decimal =
      bytes < 100'000'000 ? fmt::format("{:.2f} MB", value * 1e-6) : fmt::format("{:.2f} GB", value * 1e-9);
  return fmt::format("{} ({})", decimal, FormatBytes(bytes));
}

// A line of the summary: a name in a column of its own, then the text.
void Row(const char* name, const std::string& text) { Write(Fit(name, 15) + text + "\n"); }

std::string Share(uint64_t part, uint64_t whole) {
  return fmt::format("{:.1f} %", whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

void PrintContainer(const ModelFacts& facts) {
  Row("file",
      fmt::format("{}, {} version {}, {}{}", OneLine(facts.path), facts.is_pack ? "pack, GGUF" : "GGUF", facts.version,
                  Size(facts.file_bytes), facts.files > 1 ? fmt::format(" in {} files", facts.files) : ""));
  Row("architecture", facts.architecture.empty() ? "not named" : OneLine(facts.architecture));
  if (!facts.name.empty()) Row("name", OneLine(facts.name));
  const uint64_t all = facts.expert_bytes + facts.other_bytes;
  Row("experts", fmt::format("{}, {} of all weights", Size(facts.expert_bytes), Share(facts.expert_bytes, all)));
  Row("non-experts", Size(facts.other_bytes));
  for (const TypeTotal& t : facts.types) {
    Row(&t == &facts.types.front() ? "types" : "",
        fmt::format("{:<6} {:>5} tensor{} {}", t.type, t.tensors, t.tensors == 1 ? ", " : "s,", Size(t.bytes)));
  }
}

// What G experts a bank and B banks take (M_arena = B G W_e), for a small, a middle and a large choice.
std::string ArenaExamples(const PlanFacts& plan) {
  std::vector<std::string> examples;
  const std::pair<uint32_t, uint32_t> choices[] = {{1, 2}, {4, 3}, {16, 3}, {plan.experts, 2}};
  for (const auto& [group, banks] : choices) {
    if (group > plan.experts) continue;
    examples.push_back(fmt::format("{} x {}: {}", group, banks, FormatBytes(group * banks * plan.expert_stride)));
  }
  return fmt::format("{}", fmt::join(examples, ", "));
}

void PrintPlan(const PlanFacts& plan) {
  Row("sizes",
      fmt::format("{} layers ({} with experts), width {}, {} experts, top {}, vocabulary {}, context {}", plan.layers,
                  plan.sparse_layers, plan.hidden, plan.experts, plan.top_k, plan.vocabulary, plan.context));
  for (const ClassFacts& c : plan.classes) {
    Row(&c == &plan.classes.front() ? "shape classes" : "",
        fmt::format("{} records of {} ({} pages): {} x {}, gate {}, up {}, down {}", c.records,
                    FormatBytes(c.spec.record_bytes), c.spec.record_bytes / kPageBytes, c.spec.hidden, c.spec.ffn,
                    Traits(c.spec.gate.format).name, Traits(c.spec.up.format).name, Traits(c.spec.down.format).name));
  }
  const std::string range =
      plan.smallest_block == plan.largest_block
          ? FormatBytes(plan.largest_block)
          : fmt::format("{} to {}", FormatBytes(plan.smallest_block), FormatBytes(plan.largest_block));
  Row("block records",
      fmt::format("{} of {}, {} in all; head {}, embedding {}", plan.block_records, range,
                  FormatBytes(plan.block_bytes), FormatBytes(plan.head_bytes), FormatBytes(plan.embedding_bytes)));
  Row("arena", ArenaExamples(plan) + " (experts a bank x banks)");
}

void PrintTokenizer(const TokenizerFacts& t) {
  if (t.tokens == 0) return Row("tokenizer", "none");
  std::string text = fmt::format("{}{}, {} tokens", t.model.empty() ? "unnamed model" : OneLine(t.model),
                                 t.pre.empty() ? "" : ", pre-tokenizer " + OneLine(t.pre), t.tokens);
  if (t.merges != 0) text += fmt::format(", {} merges", t.merges);
  if (t.bos) text += fmt::format(", begin {}", *t.bos);
  if (t.eos) text += fmt::format(", end {}", *t.eos);
  text += t.has_chat_template ? ", chat template" : ", no chat template";
  Row("tokenizer", text);
}

// A value as it is listed. f32 as the shortest decimals that mean it, which widened to f64 would be many.
std::string ShownValue(const GgufValue& value) {
  if (value.type() == GgufValueType::kF32) return fmt::format("{}", static_cast<float>(*value.AsFloat()));
  const bool array = value.type() == GgufValueType::kArray;
  const uint64_t shown = std::min(value.count(), kShownElements);
  std::string text = OneLine(array ? JsonElements(value, shown).dump() : JsonScalar(value).dump());
  if (Columns(text) > kShownColumns) text = Fit(text, kShownColumns);
  if (array && shown < value.count()) text.insert(text.size() - 1, ", ...");
  return text;
}

void PrintMetadata(const Gguf& file) {
  Write(fmt::format("\n{} metadata keys\n", file.metadata().size()));
  for (const auto& [key, value] : file.metadata()) {
    const bool array = value.type() == GgufValueType::kArray;
    const std::string type = array ? fmt::format("{}[{}]", GgufValueTypeName(value.element_type()), value.count())
                                   : GgufValueTypeName(value.type());
    Write(fmt::format("  {:<44} {:<14} {}\n", OneLine(key), type, ShownValue(value)));
  }
}

void PrintTensors(const Gguf& file) {
  Write(fmt::format("\n{} tensors\n", file.tensors().size()));
  size_t width = 0;
  for (const GgufTensor& tensor : file.tensors()) width = std::max(width, Columns(OneLine(tensor.name)));
  for (const GgufTensor& tensor : file.tensors()) {
    Write(fmt::format("  {}  {:<7} {:>10}  [{}]\n", Fit(OneLine(tensor.name), width), *GgufTypeName(tensor.gguf_type),
                      FormatBytes(tensor.bytes), fmt::join(tensor.dims, tensor.dims + tensor.dimensions, ", ")));
  }
}

Outcome Check(InspectFlags& flags, Positionals positionals) {
  if (flags.model.empty() && !positionals.empty()) {
    flags.model = std::move(positionals.front());
    positionals.erase(positionals.begin());
  }
  if (flags.model.empty()) return Outcome::Usage("no model given; name a GGUF file");
  if (!positionals.empty()) return Outcome::Usage(fmt::format("unexpected argument {}", Quoted(positionals[0])));
  return Outcome::Ok();
}

Outcome Inspect(const InspectFlags& flags) {
  ES_ASSIGN_OR_RETURN(const Gguf file, Gguf::Open(flags.model));
  const ModelFacts facts = CollectFacts(file);
  if (flags.json) {
    PrintJson(file, facts, flags);
    return Outcome::Ok();
  }
  PrintContainer(facts);
  if (facts.plan) PrintPlan(*facts.plan);
  PrintTokenizer(facts.tokenizer);
  Row("runs", facts.runs.ok() ? "yes" : "no: " + OneLine(facts.runs.message()));
  if (flags.metadata) PrintMetadata(file);
  if (flags.tensors) PrintTensors(file);
  return Outcome::Ok();
}

}  // namespace

Verb AddInspectCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("inspect", "Show what a model file holds and what the engine makes of it");
  auto flags = std::make_shared<InspectFlags>();
  DescribePositional(app, "MODEL", false, "The model, when -m does not name it");
  app.add_option("-m,--model", flags->model, "GGUF file or pack; any part of a split set will do")->type_name("FILE");
  app.add_flag("--metadata", flags->metadata, "List the metadata, long arrays abbreviated");
  app.add_flag("--tensors", flags->tensors, "List the tensors");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.footer(
      "Reads headers only. Works for every GGUF file; `runs` says whether this engine can run it, and why not.\n"
      "Examples:\n"
      "  estream inspect olmoe.gguf\n"
      "  estream inspect olmoe.gguf --json --tensors | jq '.tensors[].name'");
  return {&app, [flags](Positionals p) { return Check(*flags, std::move(p)); }, [flags] { return Inspect(*flags); }};
}

}  // namespace estream
