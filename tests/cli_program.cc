// SPDX-License-Identifier: Apache-2.0
// posix_spawn with the three standard streams in memory files, which cannot block each other.
#include "tests/cli_program.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test_files.h"

extern char** environ;

namespace estream {
namespace {

// A file in memory, gone when closed.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content = "") : descriptor_(memfd_create("stream", MFD_CLOEXEC)) {
    EXPECT_GE(descriptor_, 0);
    EXPECT_EQ(pwrite(descriptor_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::string Content() const {
    std::string content(static_cast<size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(descriptor_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    return content;
  }

 private:
  const int descriptor_;
};

ProgramResult Spawn(const std::vector<std::string>& command, const std::string& input) {
  const MemoryFile in(input), out, err;
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, in.descriptor(), 0);
  posix_spawn_file_actions_adddup2(&streams, out.descriptor(), 1);
  posix_spawn_file_actions_adddup2(&streams, err.descriptor(), 2);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &streams, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  EXPECT_EQ(error, 0) << command[0];
  if (error != 0) return {};
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = out.Content();
  result.err = err.Content();
  return result;
}

}  // namespace

std::string ProgramPath() { return std::string(ES_BINARY_DIR) + "/estream"; }
std::string ModelDir() { return std::string(ES_SOURCE_DIR) + "/models/tiny-olmoe"; }
std::string ModelPath() { return ModelDir() + "/tiny-olmoe-q4_0.gguf"; }

namespace {

// A pack cache of this test program's own, with the bundled model in it: a test leaves nothing in the user's, and what
// the program says when it packs on first use is not in the way of what a test looks at.
void UseOwnPackCache() {
  static const TempDir cache;
  static bool filled = false;
  setenv("ESTREAM_CACHE_DIR", cache.path().c_str(), 1);
  if (filled) return;
  filled = true;
  EXPECT_EQ(Spawn({ProgramPath(), "run", "-m", ModelPath(), "-p", "x"}, "").exit_code, 0);
}

}  // namespace

ProgramResult RunEstream(const std::vector<std::string>& arguments, const std::string& input) {
  UseOwnPackCache();
  std::vector<std::string> command = {ProgramPath()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Spawn(command, input);
}

ProgramResult RunShell(const std::string& command) {
  UseOwnPackCache();
  setenv("ESTREAM", ProgramPath().c_str(), 1);
  setenv("MODEL", ModelPath().c_str(), 1);
  return Spawn({"/bin/sh", "-c", command}, "");
}

}  // namespace estream
