// SPDX-License-Identifier: Apache-2.0
// What a benchmark found, as tables for people and as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estream/status.h"

namespace estream {

// A table: a label and some numbers a row. Numbers that do not apply are NaN and shown as "-".
struct ReportTable {
  std::string title;
  std::string label;                 // heading of the first column
  std::vector<std::string> columns;  // headings of the others, with their unit
  struct Row {
    std::string label;
    std::vector<double> values;  // as many as columns
  };
  std::vector<Row> rows;
};

struct Report {
  std::vector<std::pair<std::string, std::string>> facts;  // name, value: what was measured on what
  std::vector<ReportTable> tables;
};

// Aligned text, a blank line between tables; values with three significant digits.
std::string FormatText(const Report& report);

// {"facts": {name: value}, "tables": [{"title", "label", "columns", "rows": [{"label", "values"}]}]}; NaN is null.
nlohmann::json FormatJson(const Report& report);

// Either of them on standard output.
void PrintReport(const Report& report, bool as_json);

// What `main` of a benchmark returns: 0, or 1 after `status` on standard error.
int ExitCode(const char* program, const Status& status);

}  // namespace estream
