// SPDX-License-Identifier: Apache-2.0
// The program estream-synth: model files of the true shapes with random weights, for tests and measurements that need
// no checkpoint.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "base/macros.h"
#include "base/thread_pool.h"
#include "format/atomic_file.h"
#include "format/quote.h"
#include "tools/byte_progress.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/outcome.h"
#include "tools/synth/model_shape.h"
#include "tools/synth/stream_out.h"
#include "tools/synth/synth_file.h"
#include "tools/synth/type_mix.h"
#include "tools/terminal.h"

namespace estream {
namespace {

struct Flags {
  std::string model;
  std::string type = "q4_0";
  std::string out;
  uint32_t layers = 0;  // 0: all
  uint32_t seed = 1;
  uint32_t threads = 0;  // 0: all
  bool hollow = false;
  bool tiny = false;
  bool list = false;
};

double Gigabytes(uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

// "3.62 GB", "0.9 MB": as papers and disks count.
std::string Amount(uint64_t bytes) {
  return bytes < 100'000'000 ? fmt::format("{:.1f} MB", 1e3 * Gigabytes(bytes))
                             : fmt::format("{:.2f} GB", Gigabytes(bytes));
}

// Table 1 for what this program writes.
void PrintModels(TypeMix mix) {
  Write(fmt::format("{:<18} {:>8} {:>4} {:>14} {:>11} {:>10}\n", "model", "layers", "E", "non-expert GB", "expert GB",
                    "file GB"));
  for (const ModelShape& shape : AllModelShapes()) {
    const SynthFile file(shape, mix, 1);
    Write(fmt::format("{:<18} {:>8} {:>4} {:>14.2f} {:>11.2f} {:>10.2f}\n", shape.id,
                      fmt::format("{} ({})", shape.layers, shape.layers - shape.dense_layers), shape.experts,
                      Gigabytes(file.other_bytes()), Gigabytes(file.expert_bytes()), Gigabytes(file.size())));
  }
}

Status WriteToOutput(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::Io(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Status::Ok();
}

// A full disk is better found before than after minutes of writing.
Status CheckFreeSpace(const std::string& path, uint64_t needed) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) return Status::Ok();  // creating the file will say why
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= needed) return Status::Ok();
  return Status::Io(fmt::format("{}: needs {}, only {} are free", ShownPath(path), Amount(needed), Amount(free)));
}

// The header as it is and no weights: a file of the true size that takes no space.
Status WriteHollow(const SynthFile& file, const std::string& path) {
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> out, AtomicFile::Create(path));
  ES_RETURN_IF_ERROR(out->Write(file.header()));
  ES_RETURN_IF_ERROR(out->WriteHole(file.size() - file.header().size()));
  return out->Commit();
}

Status WriteModel(const SynthFile& file, const Flags& flags) {
  ThreadPool pool(flags.threads != 0 ? flags.threads : UsableProcessors());
  ByteProgress bar;
  const auto progress = [&](uint64_t written) { bar.Update("writing", written, file.size()); };
  if (flags.out == "-") return StreamOut(file, &pool, WriteToOutput, progress);
  ES_RETURN_IF_ERROR(CheckFreeSpace(flags.out, file.size()));
  ES_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> out, AtomicFile::Create(flags.out));
  out->BypassPageCache();
  // ^C ends with an error like any other, so that no half-written file is left.
  const InterruptFlag interrupt;
  const auto sink = [&](std::span<const std::byte> bytes) {
    return *interrupt.flag() ? Status::Cancelled("interrupted") : out->Write(bytes);
  };
  ES_RETURN_IF_ERROR(StreamOut(file, &pool, sink, progress));
  return out->Commit();
}

Outcome Run(const Flags& flags) {
  const Result<TypeMix> mix = ParseTypeMix(flags.type);
  if (!mix.ok()) return Outcome::FromFlags(mix.status().WithPrefix("--type: "));
  if (flags.list) {
    PrintModels(*mix);
    return FlushOutput();
  }
  if (flags.model.empty()) return Outcome::Usage("no model given; name one with --model, or see them with --list");
  if (flags.out.empty()) return Outcome::Usage("no output given; name a file, or - for standard output");
  if (flags.hollow && flags.out == "-") return Outcome::Usage("--hollow: standard output has no holes");
  if (flags.tiny && flags.layers != 0) return Outcome::Usage("--tiny has its own number of layers; leave out --layers");
  Result<ModelShape> shape = FindModelShape(flags.model);
  if (shape.ok() && flags.tiny) shape = Tiny(*std::move(shape));
  if (shape.ok() && flags.layers != 0) shape = WithLayers(*std::move(shape), flags.layers);
  if (!shape.ok()) return Outcome::FromFlags(shape.status());

  const auto start = std::chrono::steady_clock::now();
  const SynthFile file(*shape, *mix, flags.seed);
  if (flags.hollow) return WriteHollow(file, flags.out);
  ES_RETURN_IF_ERROR(WriteModel(file, flags));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(stderr, "{}: {} experts, {} others, {} in {:.1f} s ({:.2f} GB/s)\n", shape->title,
             Amount(file.expert_bytes()), Amount(file.other_bytes()), Amount(file.size()), seconds,
             Gigabytes(file.size()) / seconds);
  return Outcome::Ok();
}

Outcome Parse(CLI::App* app, int argc, char** argv, bool* done) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Write(app->help());
    *done = true;
    return FlushOutput();
  } catch (const CLI::ParseError& error) {
    return Outcome::Usage(error.what());
  }
  return Outcome::Ok();
}

Outcome RunProgram(int argc, char** argv) {
  CLI::App app("Writes a model file with random weights and the true shapes of a published model.", "estream-synth");
  Flags flags;
  app.add_option("--model", flags.model, "The model to imitate; see --list")->type_name("NAME");
  app.add_option("--type", flags.type, "Weight formats: q4_0 (the paper's) or q4_k_m (llama.cpp's); default: q4_0")
      ->type_name("NAME");
  AddCount(app, "--layers", 1, 1024, &flags.layers, "Only the first N layers");
  AddCount(app, "--seed", 0, UINT32_MAX, &flags.seed, "The same seed gives the same bytes; default: 1");
  AddCount(app, "-t,--threads", 1, 1024, &flags.threads, "Threads; default: every processor this process may use");
  app.add_flag("--tiny", flags.tiny, "The same blocks, 256 wide, with few experts: a few MB");
  app.add_flag("--hollow", flags.hollow, "Weights are zeros that take no space: for opening, not for running");
  app.add_flag("--list", flags.list, "Show the models and their sizes, and exit");
  app.add_option("OUT", flags.out, "The file to write; - is standard output")->type_name("");
  app.footer(
      "Examples:\n"
      "  estream-synth --model olmoe-1b-7b olmoe.gguf\n"
      "  estream-synth --model qwen3-30b-a3b --layers 4 --type q4_k_m - | cat > qwen3-4-layers.gguf");
  bool done = false;
  ES_RETURN_IF_NOT_OK(Parse(&app, argc, argv, &done));
  return done ? Outcome::Ok() : Run(flags);
}

}  // namespace
}  // namespace estream

int main(int argc, char** argv) {
  using namespace estream;
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has seen enough ends the program quietly
  try {
    const Outcome outcome = RunProgram(argc, argv);
    if (!outcome.ok()) fmt::print(stderr, "estream-synth: {}\n", OneLine(outcome.message()));
    return outcome.code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "estream-synth: out of memory\n");
  } catch (const std::exception& error) {  // from libraries only; our own code returns errors
    fmt::print(stderr, "estream-synth: {}\n", OneLine(error.what()));
  }
  return kExitFailure;
}
