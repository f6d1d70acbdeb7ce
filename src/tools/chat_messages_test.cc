// SPDX-License-Identifier: Apache-2.0
// What conversations look like in files, and what is said about those that do not.
#include "tools/chat_messages.h"

#include <gtest/gtest.h>

#include <string>

namespace estream {
namespace {

TEST(ChatMessages, AreAnArrayOfRoleAndContent) {
  const auto read = ParseChatMessages(R"( [{"role": "user", "content": "a\n\u00e9"}, {"content": "", "role": "x"}] )");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].role, "user");
  EXPECT_EQ((*read)[0].content, "a\n\xC3\xA9");
  EXPECT_EQ((*read)[1].role, "x");
  EXPECT_EQ((*read)[1].content, "");
  EXPECT_TRUE(ParseChatMessages("[]").ok());
}

TEST(ChatMessages, AnythingElseIsRefusedInOneSentence) {
  struct Case {
    std::string json, error;
  };
  const Case cases[] = {
      {"", "no JSON from byte 1 on"},
      {"[", "no JSON from byte 2 on"},
      {"[{\"role\": \"a\xFF\"}]", "no JSON from byte 13 on"},
      {"[] []", "no JSON from byte 4 on"},
      {"{}", "a JSON array of messages is needed"},
      {"\"x\"", "a JSON array of messages is needed"},
      {"null", "a JSON array of messages is needed"},
      {"[1]", "message 1 is no object with role and content"},
      {"[[]]", "message 1 is no object with role and content"},
      {R"([{"role": "a", "content": "b"}, "c"])", "message 2 is no object with role and content"},
      {R"([{"role": "a", "content": null}])", "message 1 needs text as its \"content\""},
      {R"([{"role": "a", "content": ["b"]}])", "message 1 needs text as its \"content\""},
      {R"([{"role": {"x": 1}}])", "message 1 needs text as its \"role\""},
      {R"([{"role": "a"}])", "message 1 has no \"content\""},
      {R"([{}])", "message 1 has no \"role\""},
      {R"([{"role": "a", "role": "b"}])", "message 1 has \"role\" twice"},
      {R"([{"role": "a", "name": "b"}])", "message 1 has a member \"name\"; role and content are known"},
      {std::string(1'000'000, '['), "message 1 is no object with role and content"},
  };
  for (const Case& c : cases) {
    const auto read = ParseChatMessages(c.json);
    ASSERT_FALSE(read.ok()) << c.json;
    EXPECT_EQ(read.status().message(), c.error);
  }
}

}  // namespace
}  // namespace estream
