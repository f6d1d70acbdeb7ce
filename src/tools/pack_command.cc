// SPDX-License-Identifier: Apache-2.0
// `estream pack`: makes the file that experts are streamed from.
#include <fmt/format.h>

#include <memory>

#include "base/macros.h"
#include "format/quote.h"
#include "pack/pack_writer.h"
#include "text/utf8.h"
#include "tools/byte_progress.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

struct PackFlags {
  PackOptions options;
  bool no_resume = false;
  bool json = false;
  bool quiet = false;
};

double BytesPerSecond(const PackReport& report) {
  return report.seconds > 0
             ? static_cast<double>(report.source_bytes - std::min(report.source_bytes, report.resumed_bytes)) /
                   report.seconds
             : 0;
}

void PrintJson(const PackReport& report) {
  Write(JsonLine({{"pack", ToValidUtf8(report.out)},
                  {"source_bytes", report.source_bytes},
                  {"pack_bytes", report.pack_bytes},
                  {"resumed_bytes", report.resumed_bytes},
                  {"restarted", report.restarted},
                  {"verified", report.verified},
                  {"direct_reads", report.direct_reads},
                  {"direct_writes", report.direct_writes},
                  {"seconds", report.seconds},
                  {"bytes_per_s", BytesPerSecond(report)}}));
}

void PrintForPeople(const PackReport& report) {
  if (report.restarted) Write("an unfinished file of another source or order was thrown away\n");
  if (report.resumed_bytes > 0) Write(fmt::format("continued after {}\n", FormatBytes(report.resumed_bytes)));
  Write(fmt::format("{}: {} from {} in {} ({}/s){}\n", OneLine(report.out), FormatBytes(report.pack_bytes),
                    FormatBytes(report.source_bytes), FormatSeconds(report.seconds),
                    FormatBytes(static_cast<uint64_t>(BytesPerSecond(report))),
                    report.verified ? ", verified, source removed" : ""));
}

Outcome Check(PackFlags& flags, const Positionals& positionals) {
  if (positionals.empty()) return Outcome::Usage("no model given; name a GGUF file, or - for standard input");
  if (positionals.size() > 1) {
    return Outcome::Usage(
        fmt::format("unexpected argument {}; the pack's name goes behind -o", Quoted(positionals[1])));
  }
  PackOptions& options = flags.options;
  options.source = positionals[0];
  options.resume = !flags.no_resume;
  if (options.source == "-" && options.out.empty()) {
    return Outcome::Usage("a pack made from standard input needs a name; give one with -o");
  }
  if (options.source == "-" && options.replace) return Outcome::Usage("--replace: standard input cannot be removed");
  if (options.source == "-" && options.order_file == "-") {
    return Outcome::Usage("--order: standard input is the model already");
  }
  return Outcome::Ok();
}

Outcome Pack(const PackFlags& flags) {
  PackReport report;
  {
    const InterruptFlag interrupt;
    ByteProgress bar;
    PackOptions options = flags.options;
    options.cancel = interrupt.flag();
    options.progress = [&bar](const PackProgress& p) { bar.Update(p.phase, p.done, p.total); };
    ES_RETURN_IF_ERROR(PackModel(options, &report));
  }
  if (flags.json) {
    PrintJson(report);
  } else if (!flags.quiet) {
    PrintForPeople(report);
  }
  return Outcome::Ok();
}

}  // namespace

Verb AddPackCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("pack", "Turn a model into a pack, the file that experts are streamed from");
  auto flags = std::make_shared<PackFlags>();
  PackOptions& options = flags->options;
  DescribePositional(app, "MODEL", false, "A GGUF file, any part of a split set, or - for standard input");
  app.add_option("-o,--output", options.out, "The pack; default: beside the model, NAME.estream.gguf")
      ->type_name("FILE");
  app.add_option("--order", options.order_file,
                 "Store experts in this order: a line of expert numbers for each layer, the first one first")
      ->type_name("FILE");
  app.add_flag("--force", options.force, "Replace a pack that exists");
  app.add_flag("--no-resume", flags->no_resume, "Begin anew where an unfinished pack could be continued");
  app.add_flag("--replace", options.replace, "Remove the model once the pack has been verified");
  AddCount(app, "-t,--threads", 1, 1024, &options.threads,
           "Processors to use; default: every one this process may use");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.add_flag("-q,--quiet", flags->quiet, "Print nothing but errors");
  app.footer(
      "An interrupted run (^C) leaves NAME.partial, and the same command goes on from there; a pipe begins anew.\n"
      "Examples:\n"
      "  estream pack olmoe.gguf\n"
      "  estream pack mixtral-00001-of-00003.gguf -o /fast/mixtral.estream.gguf\n"
      "  curl -L https://example.org/olmoe.gguf | estream pack - -o olmoe.estream.gguf");
  return {&app, [flags](const Positionals& p) { return Check(*flags, p); }, [flags] { return Pack(*flags); }};
}

}  // namespace estream
