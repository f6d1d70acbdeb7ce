// SPDX-License-Identifier: Apache-2.0
// `estream classify`: which of some labels fits each text, by the likelihood the model gives them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>

#include "base/machine.h"
#include "base/macros.h"
#include "estream/classify.h"
#include "format/file.h"
#include "format/quote.h"
#include "task/prompt_template.h"
#include "text/utf8.h"
#include "tools/command_line.h"
#include "tools/flag_text.h"
#include "tools/model_flags.h"
#include "tools/progress_line.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

// What is to be done, once the flags and files are read.
struct Job {
  ClassifyOptions options;
  std::vector<std::string> names;  // shown instead of options.labels
  std::vector<std::string> texts;
  bool from_file = false;
};

struct ClassifyFlags {
  ModelFlags model;
  std::string labels;
  std::string names;
  std::string prompt_template = "{text}";
  std::string label_prefix = " ";
  std::string label_suffix;
  bool normalize = false;
  std::string text_file;
  uint32_t top = 3;
  bool json = false;
  bool quiet = false;
  Job job;
};

Outcome ReadLabels(const ClassifyFlags& flags, Job* job) {
  if (flags.labels.empty()) return Outcome::Usage("no labels given; name them with --labels yes,no");
  std::vector<std::string>& labels = job->options.labels;
  labels = SplitList(flags.labels);
  if (labels.size() < 2)
    return Outcome::Usage(fmt::format("--labels: two or more are needed, found {}", labels.size()));
  std::set<std::string_view> seen;
  for (const std::string& label : labels) {
    if (label.empty()) return Outcome::Usage("--labels: a label is empty");
    if (!seen.insert(label).second) return Outcome::Usage(fmt::format("--labels: {} occurs twice", Quoted(label)));
  }
  job->names = flags.names.empty() ? labels : SplitList(flags.names);
  if (job->names.size() != labels.size()) {
    return Outcome::Usage(
        fmt::format("--names: expected {}, one for each label, found {}", labels.size(), job->names.size()));
  }
  return Outcome::Ok();
}

// A template is given as itself or as a file; one without {text} would be no template, so it must be a file.
bool TemplateIsFile(const ClassifyFlags& flags) {
  return flags.prompt_template.find(PromptTemplate::kGap) == std::string::npos;
}

Outcome TakeTemplate(std::string source, Job* job) {
  job->options.prompt_template = std::move(source);
  const Status status = PromptTemplate::Parse(job->options.prompt_template).status();
  return status.ok() ? Outcome::Ok() : Outcome::Usage("--template: " + status.message());
}

Outcome ReadTemplateFile(const ClassifyFlags& flags, Job* job) {
  Result<std::string> file = ReadTextFile(flags.prompt_template, kMaxTextBytes);
  if (file.status().code() == StatusCode::kNotFound) {
    return Outcome::Usage(
        fmt::format("--template: {} is neither a file nor a text with {{text}} in it", Quoted(flags.prompt_template)));
  }
  ES_RETURN_IF_ERROR(file.status());
  return TakeTemplate(WithoutFinalNewline(std::move(*file)), job);
}

Outcome Check(ClassifyFlags& flags, Positionals positionals) {
  ES_RETURN_IF_NOT_OK(CheckModelFlags(&flags.model, &positionals));
  Job& job = flags.job;
  job.options.label_prefix = Unescape(flags.label_prefix);
  job.options.label_suffix = Unescape(flags.label_suffix);
  job.options.normalize = flags.normalize;
  ES_RETURN_IF_NOT_OK(ReadLabels(flags, &job));
  if (!TemplateIsFile(flags)) ES_RETURN_IF_NOT_OK(TakeTemplate(Unescape(flags.prompt_template), &job));
  job.from_file = !flags.text_file.empty();
  if (job.from_file && !positionals.empty()) {
    return Outcome::Usage("texts are given twice: as arguments and with -f");
  }
  if (!job.from_file && positionals.empty()) {
    return Outcome::Usage("no text given; add texts, or a file of one text a line with -f");
  }
  job.texts = std::move(positionals);
  return Outcome::Ok();
}

Outcome ReadTextsFile(const ClassifyFlags& flags, Job* job) {
  ES_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(flags.text_file, kMaxTextBytes));
  job->texts = SplitLines(content);
  if (job->texts.empty()) return Status::InvalidArgument(fmt::format("{} holds no text", ShownPath(flags.text_file)));
  return Outcome::Ok();
}

// "line 17", "text 2": a text as users count them.
std::string TextName(const Job& job, size_t index) {
  return fmt::format("{} {}", job.from_file ? "line" : "text", index + 1);
}

// Opens the engine for the longest text, so that memory is what the work needs, and names the first that is too long.
Outcome OpenForLongest(const ClassifyFlags& flags, const Job& job, std::shared_ptr<const Model> model,
                       std::unique_ptr<Engine>* engine) {
  size_t label_tokens = 1;
  for (const std::string& label : job.options.labels) {
    ES_ASSIGN_OR_RETURN(const auto ids, model->Encode(job.options.label_prefix + label + job.options.label_suffix,
                                                      {.add_special = false, .parse_special = false}));
    label_tokens = std::max(label_tokens, ids.size());
  }
  ES_ASSIGN_OR_RETURN(const PromptTemplate prompt, PromptTemplate::Parse(job.options.prompt_template));
  const uint64_t limit = flags.model.max_tokens != 0 ? flags.model.max_tokens : model->info().context;
  uint64_t longest = 1;
  for (size_t i = 0; i < job.texts.size(); ++i) {
    ES_ASSIGN_OR_RETURN(const auto ids, model->Encode(prompt.Fill(job.texts[i]), {}));
    const uint64_t needed = ids.size() + label_tokens - 1;  // a label's last token is never fed
    if (needed > limit) {
      return Status::InvalidArgument(
          fmt::format("{} has {} tokens with its template and label, but {} is {}", TextName(job, i), needed,
                      flags.model.max_tokens != 0 ? "-c" : "the context of this model", limit));
    }
    longest = std::max(longest, needed);
  }
  ModelFlags model_flags = flags.model;
  model_flags.experts.keep_warm = true;  // a pass for every text and label
  return OpenEngine(model_flags, std::move(model), longest, engine);
}

std::string JsonRow(const Job& job, const std::string& text, const Classification& result) {
  Json scores = Json::array();
  for (size_t i = 0; i < result.scores.size(); ++i) {
    const LabelScore& score = result.scores[i];
    scores.push_back({{"label", ToValidUtf8(score.label)},
                      {"name", ToValidUtf8(job.names[i])},
                      {"probability", score.probability},
                      {"log_probability", score.log_probability},
                      {"token_ids", score.tokens}});
  }
  return JsonLine({{"text", ToValidUtf8(text)},
                   {"label", ToValidUtf8(job.options.labels[result.best])},
                   {"name", ToValidUtf8(job.names[result.best])},
                   {"probability", result.scores[result.best].probability},
                   {"tokens", result.prompt_tokens},
                   {"passes", result.passes},
                   {"seconds", result.seconds},
                   {"scores", scores}});
}

// Aligned columns: the likeliest labels with their probabilities, then the text.
class RowPrinter {
 public:
  RowPrinter(const Job& job, uint32_t top)
      : job_(job),
        count_(std::min<size_t>(top, job.names.size())),
        colour_(UsesColour(stdout)),
        columns_(IsTerminal(stdout) ? TerminalColumns(80) : SIZE_MAX) {
    for (const std::string& name : job.names) name_width_ = std::max(name_width_, Columns(OneLine(name)));
  }

  std::string Row(const std::string& text, const Classification& result) const {
    std::vector<size_t> order(result.scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return result.scores[a].probability > result.scores[b].probability; });
    std::string row;
    size_t used = 0;
    for (size_t place = 0; place < count_; ++place) {
      const std::string name = Fit(OneLine(job_.names[order[place]]), name_width_);
      const std::string percent = FormatPercent(result.scores[order[place]].probability);
      row += place == 0 ? Bold(name, colour_) + " " + percent : Dim(name + " " + percent, colour_);
      row += "   ";
      used += name_width_ + 1 + percent.size() + 3;
    }
    const std::string shown = OneLine(text);
    const size_t room = columns_ > used + 20 ? columns_ - used : 20;
    return row + (Columns(shown) > room ? Fit(shown, room) : shown) + "\n";
  }

 private:
  const Job& job_;
  const size_t count_;
  const bool colour_;
  const size_t columns_;  // of the terminal; no limit elsewhere
  size_t name_width_ = 0;
};

Outcome ClassifyAll(const ClassifyFlags& flags, const Job& job, Classifier* classifier) {
  const RowPrinter printer(job, flags.top);
  // Where standard output is a terminal the answers themselves show how far it is.
  ProgressLine progress(IsTerminal(stderr) && !IsTerminal(stdout));
  for (size_t i = 0; i < job.texts.size(); ++i) {
    Result<Classification> result = classifier->Classify(job.texts[i]);
    if (!result.ok()) return result.status().WithPrefix(TextName(job, i) + ": ");
    Write(flags.json ? JsonRow(job, job.texts[i], *result) : printer.Row(job.texts[i], *result));
    ES_RETURN_IF_ERROR(FlushOutput());  // each answer as soon as it is there
    if (progress.Due()) progress.Show(fmt::format("{}/{}", i + 1, job.texts.size()));
  }
  return Outcome::Ok();
}

void PrintSummary(const Engine& engine, size_t texts, double seconds) {
  const std::string line =
      fmt::format("{} {} in {} ({} each), peak memory {}, {}", texts, texts == 1 ? "text" : "texts",
                  FormatSeconds(seconds), FormatSeconds(seconds / static_cast<double>(texts)),
                  FormatBytes(PeakResidentBytes()), OneLine(engine.device_description()));
  const std::string styled = Dim(line, UsesColour(stderr)) + "\n";
  std::fwrite(styled.data(), 1, styled.size(), stderr);
}

Outcome Classify(ClassifyFlags& flags) {
  Job& job = flags.job;
  if (TemplateIsFile(flags)) ES_RETURN_IF_NOT_OK(ReadTemplateFile(flags, &job));
  if (job.from_file) ES_RETURN_IF_NOT_OK(ReadTextsFile(flags, &job));

  std::shared_ptr<const Model> model;
  ES_RETURN_IF_NOT_OK(OpenModel(flags.model, &model));
  std::unique_ptr<Engine> engine;
  ES_RETURN_IF_NOT_OK(OpenForLongest(flags, job, std::move(model), &engine));
  Result<std::unique_ptr<Classifier>> classifier = Classifier::Create(engine.get(), job.options);
  if (!classifier.ok()) return Outcome::FromFlags(classifier.status());

  const auto start = std::chrono::steady_clock::now();
  ES_RETURN_IF_NOT_OK(ClassifyAll(flags, job, classifier->get()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ES_RETURN_IF_NOT_OK(WriteTrace(flags.model, *engine));
  if (!flags.json && !flags.quiet) PrintSummary(*engine, job.texts.size(), seconds);
  return Outcome::Ok();
}

}  // namespace

Verb AddClassifyCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("classify", "Choose the label that fits each text");
  auto flags = std::make_shared<ClassifyFlags>();
  DescribePositional(app, "MODEL", false, "The model, when -m does not name it");
  DescribePositional(app, "TEXT", true, "The texts");
  AddModelFlags(app, &flags->model);
  app.add_option("-f,--file", flags->text_file, "Read the texts from a file, one a line (- is standard input)")
      ->type_name("FILE");
  app.add_option("--labels", flags->labels, "The labels; \\, is a comma inside one")->type_name("A,B,...");
  app.add_option("--names", flags->names, "Show these instead of the labels, in the same order")->type_name("A,B,...");
  app.add_option("--template", flags->prompt_template,
                 "What the model reads: a text with {text} in it, or a file of one (one final newline is dropped); "
                 "default: {text}")
      ->type_name("TEXT|FILE");
  app.add_option("--label-prefix", flags->label_prefix, "Put before each label; default: one space")->type_name("TEXT");
  app.add_option("--label-suffix", flags->label_suffix,
                 "Put behind each label, so that one that begins another is no better for it; default: nothing")
      ->type_name("TEXT");
  app.add_flag("--normalize", flags->normalize, "Compare the log-probability a token instead of the label's sum");
  AddCount(app, "--top", 1, 1000, &flags->top, "Show the N most likely labels; default: 3");
  app.add_flag("--json", flags->json, "Print one JSON object for each text");
  app.add_flag("-q,--quiet", flags->quiet, "Print no summary");
  app.footer(
      "In a --template given as text, --label-prefix and --label-suffix, \\n is a newline, \\t a tab, \\\\ a "
      "backslash.\n"
      "Examples:\n"
      "  estream classify -m olmoe.gguf --labels positive,negative \\\n"
      "    --template 'Review: {text}\\nSentiment:' 'I would buy it again' 'Broke on day one'\n"
      "  estream classify olmoe.gguf --labels yes,no --names 'spam,not spam' --template spam.txt -f messages.txt "
      "--json");
  return {&app, [flags](Positionals p) { return Check(*flags, std::move(p)); }, [flags] { return Classify(*flags); }};
}

}  // namespace estream
