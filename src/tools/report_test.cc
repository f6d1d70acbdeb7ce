// SPDX-License-Identifier: Apache-2.0
// How numbers are written.
#include "tools/report.h"

#include <gtest/gtest.h>

#include <vector>

namespace estream {
namespace {

TEST(Report, WritesDurationsForPeople) {
  const std::pair<double, const char*> cases[] = {{0, "0 us"},         {42e-6, "42 us"},     {0.0032, "3.2 ms"},
                                                  {0.25, "250 ms"},    {1.254, "1.25 s"},    {59.9, "59.90 s"},
                                                  {125, "2 min 05 s"}, {3600, "60 min 00 s"}};
  for (const auto& [seconds, text] : cases) EXPECT_EQ(FormatSeconds(seconds), text);
}

TEST(Report, WritesSizesForPeople) {
  const std::pair<uint64_t, const char*> cases[] = {{0, "0 B"},
                                                    {1023, "1023 B"},
                                                    {1024, "1.0 KiB"},
                                                    {21395456, "20.4 MiB"},
                                                    {157286400, "150 MiB"},
                                                    {uint64_t{3} << 30, "3.0 GiB"},
                                                    {uint64_t{5000} << 40, "5000 TiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text);
}

TEST(Report, PercentagesAlign) {
  for (const double p : {0.0, 0.5, 0.98611, 1.0}) EXPECT_EQ(FormatPercent(p).size(), 8u) << p;
  EXPECT_EQ(FormatPercent(0.98611), " 98.61 %");
}

TEST(Report, JsonIsAlwaysOneValidLine) {
  const std::string line = JsonLine({{"text", "a\nb\xff"}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(Json::parse(line)["text"], "a\nb\ufffd");
}

}  // namespace
}  // namespace estream
