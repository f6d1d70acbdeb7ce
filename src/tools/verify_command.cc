// SPDX-License-Identifier: Apache-2.0
// `estream verify`: reads a whole pack and compares every hash.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <vector>

#include "base/macros.h"
#include "format/quote.h"
#include "pack/pack_file.h"
#include "text/utf8.h"
#include "tools/byte_progress.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/terminal.h"
#include "tools/verb.h"

namespace estream {
namespace {

struct VerifyFlags {
  std::string pack;
  std::string source;
  uint32_t threads = 0;
  bool json = false;
  bool quiet = false;
};

void PrintJson(const PackFile& pack, const std::vector<std::string>& bad, double seconds) {
  Json names = Json::array();
  for (const std::string& name : bad) names.push_back(ToValidUtf8(name));
  Write(JsonLine({{"pack", ToValidUtf8(pack.path())},
                  {"ok", bad.empty()},
                  {"bytes", pack.bytes()},
                  {"hashes", UnitCount(pack.regions()) + 1},
                  {"bad", names},
                  {"seconds", seconds}}));
}

Outcome Check(VerifyFlags& flags, const Positionals& positionals) {
  if (positionals.empty()) return Outcome::Usage("no pack given");
  if (positionals.size() > 1) return Outcome::Usage(fmt::format("unexpected argument {}", Quoted(positionals[1])));
  flags.pack = positionals[0];
  return Outcome::Ok();
}

Outcome Verify(const VerifyFlags& flags) {
  ES_ASSIGN_OR_RETURN(const PackFile pack, PackFile::Open(flags.pack));
  if (!flags.source.empty()) ES_RETURN_IF_ERROR(pack.CheckSource(flags.source));

  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> bad;
  Status status;
  {
    const InterruptFlag interrupt;
    ByteProgress bar;
    VerifyOptions options{.threads = flags.threads};
    options.cancel = interrupt.flag();
    options.progress = [&bar](uint64_t done, uint64_t total) { bar.Update("verifying", done, total); };
    status = pack.Verify(options, &bad);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!status.ok() && bad.empty()) return status;  // it could not be read to its end
  if (flags.json) {
    PrintJson(pack, bad, seconds);
  } else if (!flags.quiet) {
    for (const std::string& name : bad) Write(fmt::format("damaged: {}\n", OneLine(name)));
    if (bad.empty()) {
      Write(fmt::format("{}: {} hashes are right, {} in {} ({}/s)\n", OneLine(pack.path()),
                        UnitCount(pack.regions()) + 1, FormatBytes(pack.bytes()), FormatSeconds(seconds),
                        FormatBytes(static_cast<uint64_t>(static_cast<double>(pack.bytes()) / seconds))));
    }
  }
  return status;
}

}  // namespace

Verb AddVerifyCommand(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("verify", "Read a whole pack and compare every hash");
  auto flags = std::make_shared<VerifyFlags>();
  DescribePositional(app, "PACK", false, "A file made by estream pack");
  app.add_option("--source", flags->source, "Check too that this is the model the pack was made from")
      ->type_name("FILE");
  AddCount(app, "-t,--threads", 1, 1024, &flags->threads, "Processors to use; default: every one this process may use");
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.add_flag("-q,--quiet", flags->quiet, "Print nothing but errors");
  app.footer(
      "Exit code 1 when anything differs; the damaged parts are named.\n"
      "Examples:\n"
      "  estream verify olmoe.estream.gguf\n"
      "  estream verify olmoe.estream.gguf --source olmoe.gguf --json");
  return {&app, [flags](const Positionals& p) { return Check(*flags, p); }, [flags] { return Verify(*flags); }};
}

}  // namespace estream
