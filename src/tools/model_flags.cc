// SPDX-License-Identifier: Apache-2.0
// One set of names for all verbs.
#include "tools/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/macros.h"
#include "estream/pack_cache.h"
#include "format/file.h"
#include "format/quote.h"
#include "tools/byte_progress.h"
#include "tools/command_line.h"
#include "tools/flag_text.h"
#include "tools/interrupt.h"
#include "tools/run_profile.h"
#include "tools/terminal.h"

namespace estream {

void AddDeviceFlags(CLI::App& app, ModelFlags* flags) {
  app.add_option("-m,--model", flags->model, "GGUF file; any part of a split set will do")->type_name("FILE");
  app.add_option("--device", flags->device, "What runs the model: cpu, or reference (slow, exact)")->type_name("NAME");
  AddCount(app, "-t,--threads", 1, 1024, &flags->threads, "Threads; default: every processor this process may use");
  app.add_option("--activations", flags->activations,
                 "How activations meet quantised weights: q8 (as 8-bit integers, fast) or f32 (exact); default: q8 on "
                 "cpu, f32 on reference")
      ->type_name("NAME");
  app.add_option("--storage", flags->experts.storage, "How packs are read: auto, io_uring or threads")
      ->type_name("NAME");
}

void AddStreamFlags(CLI::App& app, ModelFlags* flags) {
  app.add_option(
         "--memory", flags->memory,
         "Most memory of the whole process (900M, 1.5G); the experts' arena takes what is useful of what is left")
      ->type_name("SIZE");
  app.add_option("--schedule", flags->experts.schedule,
                 "When experts are read: stream, per-layer, after-routing, on-demand, or resident (all at start); for "
                 "comparison naive, layer-2, layer-all, graph-per-expert, with --group, --banks and --queue-depth of "
                 "their own; default: "
                 "stream, or resident for a plain file with --no-pack-cache")
      ->type_name("NAME");
  AddCount(app, "--group", 1, UINT32_MAX, &flags->experts.group_size,
           "Experts a read; default: from the profile, or 2");
  AddCount(app, "--banks", 1, UINT32_MAX, &flags->experts.bank_count,
           "Groups in memory at once; default: from the profile, or 6");
  AddCount(app, "--queue-depth", 1, 256, &flags->experts.queue_depth,
           "Reads in flight; default: from the profile, or 2");
}

void AddModelFlags(CLI::App& app, ModelFlags* flags) {
  AddDeviceFlags(app, flags);
  AddCount(app, "-c,--max-tokens", 1, UINT32_MAX, &flags->max_tokens,
           "Reserve memory for prompts of N tokens; default: what the input needs");
  app.add_option("--override-pre", flags->override_pre, "Use this pre-tokenizer instead of the file's")
      ->type_name("NAME");
  AddStreamFlags(app, flags);
  app.add_option(
         "--early-order", flags->experts.early_order,
         "What is read before routes are known: pack (in the pack's order; default) or previous (first what the "
         "text before was routed to)")
      ->type_name("NAME");
  app.add_option("--read-rate", flags->read_rate,
                 "Read experts at most so many bytes a second (400M, 1.2G), which leaves storage to others")
      ->type_name("SIZE");
  app.add_flag("!--whole-groups", flags->experts.sparse_reads,
               "Read whole groups even where few of their experts are needed");
  app.add_flag("--no-tune", flags->no_tune, "Measure nothing on first use where there is no profile of this machine");
  app.add_flag("--check", flags->experts.check_hashes,
               "Compare the stored hash of every record of a pack that is used");
  app.add_flag("--no-pack-cache", flags->no_pack_cache,
               "Load a plain model file whole instead of packing it once into the cache folder");
  app.add_option("--trace", flags->trace_file, "Write what happened when, as a Chrome/Perfetto trace")
      ->type_name("OUT.json");
  app.add_flag("-v,--verbose", flags->verbose, "Say on standard error how experts will stream, and why");
}

Outcome CheckModelFlags(ModelFlags* flags, Positionals* positionals) {
  if (flags->model.empty()) {
    if (positionals->empty()) return Outcome::Usage("no model given; name a GGUF file with -m");
    flags->model = std::move(positionals->front());
    positionals->erase(positionals->begin());
  }
  if (!flags->activations.empty() && flags->activations != "q8" && flags->activations != "f32") {
    return Outcome::Usage(fmt::format("--activations: expected q8 or f32, found {}", Quoted(flags->activations)));
  }
  if (flags->device != "cpu" && flags->device != "reference") {
    return Outcome::Usage(fmt::format("--device: expected cpu or reference, found {}", Quoted(flags->device)));
  }
  if (flags->device == "reference" && flags->activations == "q8") {
    return Outcome::Usage("--activations: q8 is for --device cpu; the reference device computes exactly");
  }
  if (!flags->read_rate.empty()) {
    const std::optional<uint64_t> rate = ParseBytes(flags->read_rate);
    if (!rate || *rate == 0) {
      return Outcome::Usage(fmt::format("--read-rate: expected a size like 400M, found {}", Quoted(flags->read_rate)));
    }
    flags->experts.max_read_rate = *rate;
  }
  if (flags->experts.early_order != "pack" && flags->experts.early_order != "previous") {
    return Outcome::Usage(
        fmt::format("--early-order: expected pack or previous, found {}", Quoted(flags->experts.early_order)));
  }
  if (!flags->memory.empty()) {
    const std::optional<uint64_t> bytes = ParseBytes(flags->memory);
    if (!bytes)
      return Outcome::Usage(fmt::format("--memory: expected a size like 900M, found {}", Quoted(flags->memory)));
    flags->memory_bytes = *bytes;
  }
  return Outcome::Ok();
}

Outcome OpenModel(const ModelFlags& flags, std::shared_ptr<const Model>* model) {
  std::string path = flags.model;
  // The file itself first: what is wrong with it is said before anything is packed.
  ES_ASSIGN_OR_RETURN(*model, Model::Open(path, {.override_pre = flags.override_pre}));
  if (!flags.no_pack_cache) {
    PackCacheOptions cache;
    cache.threads = flags.threads;
    const InterruptFlag interrupt;
    ByteProgress bar;
    cache.cancel = interrupt.flag();
    cache.notice = [](const std::string& what) { PrintNotice(what); };
    cache.progress = [&bar](const char* phase, uint64_t done, uint64_t total) { bar.Update(phase, done, total); };
    ES_ASSIGN_OR_RETURN(path, CachedPack(flags.model, cache));
  }
  if (path != flags.model) {
    ES_ASSIGN_OR_RETURN(*model, Model::Open(path, {.override_pre = flags.override_pre}));
  }
  return Outcome::Ok();
}

EngineOptions OptionsOf(const ModelFlags& flags) {
  EngineOptions options;
  options.device = flags.device;
  options.activations = flags.activations;
  options.threads = flags.threads;
  options.experts = flags.experts;
  options.memory_bytes = flags.memory_bytes;
  options.trace = !flags.trace_file.empty();
  return options;
}

Outcome OpenEngine(const ModelFlags& flags, std::shared_ptr<const Model> model, uint64_t needed_tokens,
                   std::unique_ptr<Engine>* engine) {
  const uint64_t context = model->info().context;
  const bool limited = flags.max_tokens != 0 && flags.max_tokens < context;
  if (needed_tokens > (limited ? flags.max_tokens : context)) {
    const std::string limit = limited ? fmt::format("-c allows {}", flags.max_tokens)
                                      : fmt::format("the context of this model is {}", context);
    return Status::InvalidArgument(fmt::format("the prompt has {} tokens, but {}", needed_tokens, limit));
  }
  EngineOptions options = OptionsOf(flags);
  options.max_tokens = flags.max_tokens != 0 ? flags.max_tokens : static_cast<uint32_t>(needed_tokens);
  ES_RETURN_IF_NOT_OK(FindProfileForRun(flags, model, &options));
  if (flags.verbose) ES_RETURN_IF_NOT_OK(ShowPlan(model, options));
  Result<std::unique_ptr<Engine>> opened = Engine::Open(std::move(model), options);
  if (!opened.ok()) return Outcome::FromFlags(opened.status());
  *engine = std::move(*opened);
  return Outcome::Ok();
}

Outcome WriteTrace(const ModelFlags& flags, const Engine& engine) {
  if (flags.trace_file.empty()) return Outcome::Ok();
  const std::string json = engine.TraceJson();
  return WriteFileAtomically(flags.trace_file, std::as_bytes(std::span(json)));
}

}  // namespace estream
