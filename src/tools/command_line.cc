// SPDX-License-Identifier: Apache-2.0
// CLI11 reads flags and prints help; what it would say about mistakes is said here instead, in one sentence.
#include "tools/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "format/quote.h"
#include "tools/nearest.h"
#include "tools/terminal.h"

namespace estream {
namespace {

bool LooksLikeOption(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

Outcome Unknown(const char* what, const std::string& found, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(found, known);
  return Outcome::Usage(nearest.empty() ? fmt::format("unknown {} {}; see estream --help", what, Quoted(found))
                                        : fmt::format("unknown {} {}; did you mean {}?", what, Quoted(found), nearest));
}

Outcome UnknownOption(const std::string& argument, const CLI::App& app) {
  return Unknown("option", argument.substr(0, argument.find('=')), OptionNames(app));
}

// CLI11's complaint about a flag as one of our sentences.
Outcome UsageFrom(const CLI::ParseError& error) {
  const std::string what = error.what();
  if (error.get_name() != "ArgumentMismatch") return Outcome::Usage(OneLine(what));
  const std::string option = what.substr(0, what.find_first_of(": "));
  if (what.find("disallowed") != std::string::npos) return Outcome::Usage(fmt::format("--{} takes no value", option));
  if (what.find("missing") != std::string::npos) return Outcome::Usage(fmt::format("{} needs a value", option));
  return Outcome::Usage(fmt::format("{} is given more than once", option));
}

// CLI11 takes arguments last first, and reads the value of "--flag=" from the next argument; we mean the empty string.
std::vector<std::string> ForCli11(const CLI::App& app, std::vector<std::string>::const_iterator begin,
                                  std::vector<std::string>::const_iterator end) {
  std::vector<std::string> result;
  for (auto it = begin; it != end; ++it) {
    if (it->size() > 3 && it->starts_with("--") && it->find('=') == it->size() - 1) {
      result.push_back(it->substr(0, it->size() - 1));
      const CLI::Option* option = app.get_option_no_throw(result.back());
      if (option == nullptr || option->get_expected_max() != 0) result.emplace_back();
    } else {
      result.push_back(*it);
    }
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// Reads `arguments`, which follow the verb's name. The verb is read as if there were no others, so that their names and
// CLI11's "++" are arguments like any others.
Outcome ReadVerb(const Verb& verb, const std::vector<std::string>& arguments, Request* request) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  try {
    verb.app->parse(ForCli11(*verb.app, arguments.begin(), mark));
  } catch (const CLI::CallForHelp&) {
    request->text = verb.app->help("estream");
    return Outcome::Ok();
  } catch (const CLI::ParseError& error) {
    return UsageFrom(error);
  }
  Positionals positionals;
  for (std::string& argument : verb.app->remaining()) {
    if (LooksLikeOption(argument)) return UnknownOption(argument, *verb.app);
    positionals.push_back(std::move(argument));
  }
  if (mark != arguments.end()) positionals.insert(positionals.end(), mark + 1, arguments.end());
  request->verb = &verb;
  return verb.check(std::move(positionals));
}

}  // namespace

Outcome ReadCommandLine(CLI::App& root, const std::vector<Verb>& verbs, const std::vector<std::string>& arguments,
                        Request* request) {
  root.name("estream");
  root.require_subcommand(1);
  root.set_version_flag("--version", "estream " ES_VERSION, "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  root.footer("estream VERB --help explains a verb.\nExit codes: 0 done, 1 failed, 2 wrong usage.");
  root.get_formatter()->label("SUBCOMMAND", "VERB ...");
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    verb.app->group("Verbs");
    verb.app->get_formatter()->label("Positionals", "Arguments");
    verb.app->allow_extras();  // positionals, and unknown options for ReadVerb to name
    verb.app->set_help_flag("-h,--help", "Print this help and exit");
    for (CLI::Option* option : verb.app->get_options()) {
      if (option->get_expected_max() == 0) option->disable_flag_override();  // --json=yes
    }
    names.push_back(verb.app->get_name());
  }

  if (arguments.empty()) return Outcome::Usage("no verb given; see estream --help");
  std::vector<std::string> rest = arguments;
  if (rest[0] == "help") {  // `help run` is `run --help`
    rest.erase(rest.begin());
    rest.insert(rest.begin() + (rest.empty() ? 0 : 1), "--help");
  }
  if (rest[0] == "--version" || rest[0] == "-V") {
    request->text = root.version() + "\n";
    return Outcome::Ok();
  }
  if (rest[0] == "--help" || rest[0] == "-h") {
    request->text = root.help();
    return Outcome::Ok();
  }
  if (LooksLikeOption(rest[0])) return UnknownOption(rest[0], root);
  for (const Verb& verb : verbs) {
    if (verb.app->get_name() == rest[0]) return ReadVerb(verb, {rest.begin() + 1, rest.end()}, request);
  }
  return Unknown("verb", rest[0], names);
}

Outcome RunCommandLine(CLI::App& root, const std::vector<Verb>& verbs, const std::vector<std::string>& arguments) {
  Request request;
  ES_RETURN_IF_NOT_OK(ReadCommandLine(root, verbs, arguments, &request));
  if (request.verb != nullptr) return request.verb->run();
  Write(request.text);
  return Outcome::Ok();
}

CLI::Option* AddCount(CLI::App& app, const std::string& names, uint32_t min, uint32_t max, uint32_t* value,
                      const std::string& description) {
  const std::string name = names.substr(names.rfind(',') + 1);
  const auto read = [=](const CLI::results_t& results) {
    const std::string& text = results.back();
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < min || number > max) {
      throw CLI::ValidationError(
          fmt::format("{}: expected a whole number from {} to {}, found {}", name, min, max, Quoted(text)),
          CLI::ExitCodes::ValidationError);
    }
    *value = number;
    return true;
  };
  return app.add_option(names, read, description)->type_name("N");
}

void DescribePositional(CLI::App& app, const std::string& name, bool many, const std::string& description) {
  // An option that expects nothing is never matched, so that its arguments stay among the remaining ones.
  app.add_option(
         name, [](const CLI::results_t&) { return true; }, description)
      ->expected(0, many ? -1 : 1);
}

}  // namespace estream
