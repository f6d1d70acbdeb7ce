// SPDX-License-Identifier: Apache-2.0
// Column widths from the cells, numbers right-aligned.
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace estream {
namespace {

std::string FormatValue(double v) {
  if (std::isnan(v)) return "-";
  if (v >= 100) return fmt::format("{:.0f}", v);
  if (v >= 10) return fmt::format("{:.1f}", v);
  return fmt::format("{:.2f}", v);
}

void AppendTable(const ReportTable& table, std::string* out) {
  size_t label_width = table.label.size();
  for (const ReportTable::Row& row : table.rows) label_width = std::max(label_width, row.label.size());
  *out += fmt::format("\n{}\n  {:<{}}", table.title, table.label, label_width);
  constexpr size_t kLeast = 6;
  for (const std::string& column : table.columns) *out += fmt::format("  {:>{}}", column, kLeast);
  *out += '\n';
  for (const ReportTable::Row& row : table.rows) {
    *out += fmt::format("  {:<{}}", row.label, label_width);
    for (size_t i = 0; i < row.values.size(); ++i) {
      *out += fmt::format("  {:>{}}", FormatValue(row.values[i]), std::max(kLeast, table.columns[i].size()));
    }
    *out += '\n';
  }
}

}  // namespace

std::string FormatText(const Report& report) {
  size_t width = 0;
  for (const auto& [name, value] : report.facts) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, value] : report.facts) out += fmt::format("{:<{}}  {}\n", name, width, value);
  for (const ReportTable& table : report.tables) AppendTable(table, &out);
  return out;
}

nlohmann::json FormatJson(const Report& report) {
  nlohmann::json json;
  json["facts"] = nlohmann::json::object();
  for (const auto& [name, value] : report.facts) json["facts"][name] = value;
  json["tables"] = nlohmann::json::array();
  for (const ReportTable& table : report.tables) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ReportTable::Row& row : table.rows) {
      nlohmann::json values = nlohmann::json::array();
      for (const double v : row.values) values.push_back(std::isnan(v) ? nlohmann::json(nullptr) : nlohmann::json(v));
      rows.push_back({{"label", row.label}, {"values", values}});
    }
    json["tables"].push_back(
        {{"title", table.title}, {"label", table.label}, {"columns", table.columns}, {"rows", rows}});
  }
  return json;
}

void PrintReport(const Report& report, bool as_json) {
  const std::string text = as_json ? FormatJson(report).dump(2) + "\n" : FormatText(report);
  std::fputs(text.c_str(), stdout);
}

int ExitCode(const char* program, const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", program, status.message());
  return 1;
}

}  // namespace estream
