// SPDX-License-Identifier: Apache-2.0
// Command lines that are read and not run.
#include "tools/command_line.h"

#include <gmock/gmock.h>

namespace estream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

// A root with the program's verbs and one more, which keeps what it is given.
struct Reader {
  CLI::App root;
  std::vector<Verb> verbs = AddVerbs(root);
  bool flag = false;
  std::string text = "unset";
  Positionals positionals;
  Request request;

  Outcome Read(const Arguments& arguments) {
    CLI::App& app = *root.add_subcommand("probe");
    app.add_flag("-g,--flag", flag, "");
    app.add_option("--text", text, "");
    const auto keep = [this](Positionals p) {
      positionals = std::move(p);
      return Outcome::Ok();
    };
    verbs.push_back({&app, keep, [] { return Outcome::Ok(); }});
    return ReadCommandLine(root, verbs, arguments, &request);
  }
};

TEST(CommandLine, PositionalsAreHandedOverAsTheyStand) {
  Reader reader;
  ASSERT_TRUE(reader.Read({"probe", "++", "run", "[a,b]", "", "--text", "++", "x=y", "--", "--flag"}).ok());
  EXPECT_EQ(reader.request.verb->app->get_name(), "probe");
  EXPECT_THAT(reader.positionals, ElementsAre("++", "run", "[a,b]", "", "x=y", "--flag"));
  EXPECT_EQ(reader.text, "++");
  EXPECT_FALSE(reader.flag);
}

TEST(CommandLine, AnEqualsSignWithNothingBehindItIsTheEmptyString) {
  Reader reader;
  ASSERT_TRUE(reader.Read({"probe", "--text=", "--flag=", "x"}).ok());
  EXPECT_EQ(reader.text, "");
  EXPECT_TRUE(reader.flag);
  EXPECT_THAT(reader.positionals, ElementsAre("x"));
}

TEST(CommandLine, HelpAndVersionAreTextsAndNoVerbs) {
  for (const Arguments& arguments : {Arguments{"--version"}, {"--help"}, {"help"}, {"help", "run"}, {"run", "-h"}}) {
    Reader reader;
    EXPECT_TRUE(reader.Read(arguments).ok());
    EXPECT_EQ(reader.request.verb, nullptr);
    EXPECT_THAT(reader.request.text, HasSubstr("estream"));
  }
}

TEST(CommandLine, MistakesShowBeforeAnyFileIsOpened) {
  const std::pair<Arguments, std::string> cases[] = {
      {{"probe", "--flag=\x1b[2J"}, "--flag takes no value"},
      {{"run", "m", "-p", "x", "--json=maybe"}, "--json takes no value"},
      {{"run", "m", "--tokens", "1,two"}, "--tokens: expected ids"},
      {{"classify", "m", "--labels", "a,b", "--template", "{text}{text}", "x"}, "more than one {text}"},
      {{"classify", "m", "--labels", "a,b"}, "no text given"},
      {{"pack", "-"}, "give one with -o"},
      {{"verify"}, "no pack given"},
      {{"inspect", "a", "b"}, "unexpected argument \"b\""},
      {{"doctor", "x"}, "unexpected argument \"x\""},
  };
  for (const auto& [arguments, part] : cases) {
    Reader reader;
    const Outcome outcome = reader.Read(arguments);
    EXPECT_EQ(outcome.code(), kExitUsage);
    EXPECT_THAT(outcome.message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace estream
