// SPDX-License-Identifier: Apache-2.0
// Every transition from every state of a bank, and what lookups show meanwhile.
#include "residency/residency_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/macros.h"

namespace estream {
namespace {

constexpr RecordKey kOwner = {1, 2};
constexpr ResidencyTable::Shape kShape = {2, 4, 3, 5, 4096};
constexpr SlotRange kRead = {0, 3};  // what Make reads

// The states of a bank that behave differently.
enum class Life { kAvailable, kFilling, kAbandoned, kReady, kFailed, kInUse, kShared };
constexpr Life kLives[] = {Life::kAvailable, Life::kFilling, Life::kAbandoned, Life::kReady,
                           Life::kFailed,    Life::kInUse,   Life::kShared};

// Brings bank 0 of a new table there.
ResidencyTable Make(Life life) {
  ResidencyTable table(kShape);
  if (life == Life::kAvailable) return table;
  EXPECT_EQ(**table.Reserve(kOwner, 7, kRead), 0u);
  if (life == Life::kAbandoned) ES_CHECK(table.Abandon(0).ok());
  if (life == Life::kFilling || life == Life::kAbandoned) return table;
  ES_CHECK(table.Publish(0, kRead, life == Life::kFailed ? Status::Io("bad sector") : Status::Ok()).ok());
  if (life == Life::kInUse || life == Life::kShared) ES_CHECK(table.Acquire(0).ok());
  if (life == Life::kShared) ES_CHECK(table.Acquire(0).ok());
  return table;
}

Life Read(const ResidencyTable& table) {
  switch (table.state(0)) {
    case BankState::kAvailable:
      return Life::kAvailable;
    case BankState::kFilling:
      return table.owner(0) ? Life::kFilling : Life::kAbandoned;
    case BankState::kReady:
      return table.error(0).ok() ? Life::kReady : Life::kFailed;
    case BankState::kInUse:
      return table.leases(0) == 1 ? Life::kInUse : Life::kShared;
  }
  return Life::kAvailable;
}

struct Transition {
  std::string name;
  std::function<Status(ResidencyTable&)> run;
  // From -> to; every other state refuses with Internal and stays.
  std::vector<std::pair<Life, Life>> legal;
};

const std::vector<Transition>& Transitions() {
  static const std::vector<Transition> all = {
      {"Publish",
       [](ResidencyTable& t) { return t.Publish(0, kRead, Status::Ok()); },
       {{Life::kFilling, Life::kReady}, {Life::kAbandoned, Life::kAvailable}}},
      {"Publish error",
       [](ResidencyTable& t) { return t.Publish(0, kRead, Status::Io("x")); },
       {{Life::kFilling, Life::kFailed}, {Life::kAbandoned, Life::kAvailable}}},
      {"Abandon", [](ResidencyTable& t) { return t.Abandon(0); }, {{Life::kFilling, Life::kAbandoned}}},
      {"Acquire",
       [](ResidencyTable& t) { return t.Acquire(0); },
       {{Life::kReady, Life::kInUse}, {Life::kInUse, Life::kShared}, {Life::kShared, Life::kShared}}},
      {"Drop",
       [](ResidencyTable& t) { return t.Drop(0); },
       {{Life::kInUse, Life::kAvailable}, {Life::kShared, Life::kInUse}}},
      {"Discard",
       [](ResidencyTable& t) { return t.Discard(0); },
       {{Life::kReady, Life::kAvailable}, {Life::kFailed, Life::kAvailable}}},
      {"TopUp",
       [](ResidencyTable& t) {
         return t.TopUp(0, {3, 1});
       },
       {{Life::kReady, Life::kFilling}, {Life::kFilling, Life::kFilling}}},
      {"Adopt",
       [](ResidencyTable& t) { return t.Adopt(0, 8); },
       {{Life::kFilling, Life::kFilling}, {Life::kReady, Life::kReady}, {Life::kFailed, Life::kFailed}}},
  };
  return all;
}

TEST(ResidencyTable, EveryTransitionFromEveryStateIsLegalOrRefusedWithoutATrace) {
  for (const Transition& transition : Transitions()) {
    for (const Life from : kLives) {
      SCOPED_TRACE(transition.name + " from " + std::to_string(static_cast<int>(from)));
      // An error surfaces at Acquire and gives the bank back: the one transition that is legal and no success.
      if (transition.name == "Acquire" && from == Life::kFailed) continue;
      ResidencyTable table = Make(from);
      const Status status = transition.run(table);
      const auto legal = std::find_if(transition.legal.begin(), transition.legal.end(),
                                      [&](const auto& edge) { return edge.first == from; });
      const bool is_legal = legal != transition.legal.end();
      EXPECT_EQ(status.ok(), is_legal) << status.message();
      EXPECT_EQ(status.code(), is_legal ? StatusCode::kOk : StatusCode::kInternal);
      EXPECT_EQ(Read(table), is_legal ? legal->second : from);
      EXPECT_EQ(table.available(), table.state(0) == BankState::kAvailable ? 2u : 1u);
      EXPECT_EQ(table.leased(), table.state(0) == BankState::kInUse ? 1u : 0u);
    }
  }
}

TEST(ResidencyTable, MappingIsHiddenUntilPublished) {
  for (const Life life : kLives) {
    const ResidencyTable table = Make(life);
    const bool visible = life == Life::kReady || life == Life::kFailed || life == Life::kInUse || life == Life::kShared;
    EXPECT_EQ(table.Find(kOwner).has_value(), visible);
    EXPECT_EQ(table.BankOf(kOwner).has_value(), visible || life == Life::kFilling);
    EXPECT_FALSE(table.Find({1, 1}));
    EXPECT_FALSE(table.Find({3, 0}));
    EXPECT_FALSE(table.Find({0, 5}));
  }
}

TEST(ResidencyTable, ReadErrorSurfacesAtAcquireOnceAndFreesTheBank) {
  ResidencyTable table = Make(Life::kFailed);
  EXPECT_EQ(table.Acquire(0).message(), "bad sector");
  EXPECT_EQ(table.state(0), BankState::kAvailable);
  EXPECT_EQ(table.available(), 2u);
  EXPECT_FALSE(table.Find(kOwner));
  EXPECT_EQ(**table.Reserve(kOwner, 8, {0, 1}), 0u);
  ASSERT_TRUE(table.Publish(0, {0, 1}, Status::Ok()).ok());
  EXPECT_TRUE(table.Acquire(0).ok());
}

TEST(ResidencyTable, UnroutedBankIsDiscardedWithoutALease) {
  ResidencyTable table = Make(Life::kReady);
  ASSERT_TRUE(table.Discard(0).ok());
  EXPECT_EQ(table.state(0), BankState::kAvailable);
  EXPECT_FALSE(table.Find(kOwner));
  EXPECT_FALSE(table.owner(0));
}

TEST(ResidencyTable, AbandonedBankIsNotReusedBeforeItsReadEnds) {
  ResidencyTable table = Make(Life::kAbandoned);
  EXPECT_EQ(**table.Reserve(kOwner, 8, {0, 1}), 1u);
  EXPECT_FALSE(table.Reserve({0, 0}, 8, {0, 1})->has_value());
  ASSERT_TRUE(table.Publish(0, kRead, Status::Ok()).ok());
  // The new bank of the same owner is untouched by the end of the old one.
  EXPECT_EQ(table.BankOf(kOwner), 1u);
  EXPECT_EQ(**table.Reserve({0, 0}, 8, {0, 1}), 0u);
  EXPECT_FALSE(table.present(0, 0));
}

TEST(ResidencyTable, FullArenaReservesNothingAndEveryBankOnce) {
  ResidencyTable table(kShape);
  std::set<uint32_t> banks;
  for (uint32_t g = 0; g < kShape.banks; ++g) banks.insert(**table.Reserve({0, g}, 1, {0, 4}));
  EXPECT_EQ(banks.size(), kShape.banks);
  const auto none = table.Reserve({0, 4}, 1, {0, 4});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(ResidencyTable, ReserveRefusesASecondBankAndWhatIsOutsideTheShape) {
  ResidencyTable table = Make(Life::kFilling);
  EXPECT_EQ(table.Reserve(kOwner, 1, {0, 1}).status().code(), StatusCode::kInternal);
  struct Case {
    RecordKey owner;
    SlotRange slots;
  };
  const Case cases[] = {{{3, 0}, {0, 1}}, {{0, 5}, {0, 1}}, {{0, 0}, {0, 0}},         {{0, 0}, {0, 5}},
                        {{0, 0}, {4, 1}}, {{0, 0}, {3, 2}}, {{0, 0}, {3, UINT32_MAX}}};
  for (const Case& c : cases) EXPECT_EQ(table.Reserve(c.owner, 1, c.slots).status().code(), StatusCode::kInternal);
  EXPECT_EQ(table.available(), 1u);
}

TEST(ResidencyTable, BanksThatDoNotExistAreRefused) {
  ResidencyTable table(kShape);
  for (const uint32_t bank : {2u, UINT32_MAX}) {
    EXPECT_FALSE(table.Publish(bank, {0, 1}, Status::Ok()).ok());
    EXPECT_FALSE(table.Abandon(bank).ok());
    EXPECT_FALSE(table.Acquire(bank).ok());
    EXPECT_FALSE(table.Drop(bank).ok());
    EXPECT_FALSE(table.Discard(bank).ok());
    EXPECT_FALSE(table.TopUp(bank, {0, 1}).ok());
    EXPECT_FALSE(table.Adopt(bank, 1).ok());
  }
}

TEST(ResidencyTable, ToppingUpAddsSlotsAndKeepsThoseThere) {
  const std::vector<uint8_t> all = {1, 1, 1, 1}, ends = {1, 0, 0, 1};
  ResidencyTable table(kShape);
  ASSERT_TRUE(table.Reserve(kOwner, 1, {1, 1}).ok());
  EXPECT_FALSE(table.present(0, 1));  // hidden until the read ends
  ASSERT_TRUE(table.Publish(0, {1, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.Missing(0, all), (SlotRange{0, 1}));
  EXPECT_EQ(table.Missing(0, std::vector<uint8_t>{0, 1, 1, 1}), (SlotRange{2, 2}));
  EXPECT_EQ(table.Missing(0, std::vector<uint8_t>{0, 1}).count, 0u);
  EXPECT_EQ(table.Missing(0, ends), (SlotRange{0, 1}));
  for (const SlotRange outside : {SlotRange{3, 2}, SlotRange{4, 1}, SlotRange{2, 0}, SlotRange{3, UINT32_MAX}}) {
    EXPECT_FALSE(table.TopUp(0, outside).ok());
  }
  EXPECT_FALSE(table.TopUp(0, {0, 2}).ok()) << "slot 1 is there";
  ASSERT_TRUE(table.TopUp(0, {2, 2}).ok());
  EXPECT_FALSE(table.Find(kOwner));
  ASSERT_TRUE(table.Publish(0, {2, 2}, Status::Ok()).ok());
  EXPECT_EQ(table.Missing(0, all), (SlotRange{0, 1}));
  ASSERT_TRUE(table.Discard(0).ok());
  ASSERT_TRUE(table.Reserve(kOwner, 1, {0, 1}).ok());
  ASSERT_TRUE(table.Publish(0, {0, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.Missing(0, all), (SlotRange{1, 3}));  // the life before left nothing
}

TEST(ResidencyTable, SeveralReadsFillABankAndTheLastPublishesIt) {
  ResidencyTable table(kShape);
  ASSERT_TRUE(table.Reserve(kOwner, 1, {0, 1}).ok());
  EXPECT_FALSE(table.TopUp(0, {0, 2}).ok()) << "slot 0 is being read";
  ASSERT_TRUE(table.TopUp(0, {2, 1}).ok());
  EXPECT_EQ(table.Missing(0, std::vector<uint8_t>{1, 0, 1, 1}), (SlotRange{3, 1}));
  EXPECT_FALSE(table.Publish(0, {0, 2}, Status::Ok()).ok()) << "slot 1 is not being read";
  ASSERT_TRUE(table.Publish(0, {2, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.state(0), BankState::kFilling);
  EXPECT_FALSE(table.Find(kOwner));
  EXPECT_FALSE(table.Publish(0, {2, 1}, Status::Ok()).ok()) << "published already";
  ASSERT_TRUE(table.Publish(0, {0, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.state(0), BankState::kReady);
  EXPECT_TRUE(table.present(0, 0) && !table.present(0, 1) && table.present(0, 2));
}

TEST(ResidencyTable, AnAbandonedBankIsGivenBackByItsLastRead) {
  ResidencyTable table(kShape);
  ASSERT_TRUE(table.Reserve(kOwner, 1, {0, 1}).ok());
  ASSERT_TRUE(table.TopUp(0, {2, 1}).ok());
  ASSERT_TRUE(table.Abandon(0).ok());
  ASSERT_TRUE(table.Publish(0, {0, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.available(), 1u);
  ASSERT_TRUE(table.Publish(0, {2, 1}, Status::Ok()).ok());
  EXPECT_EQ(table.available(), 2u);
}

TEST(ResidencyTable, TheFirstErrorOfABankIsItsErrorWhateverFollows) {
  ResidencyTable table = Make(Life::kReady);
  ASSERT_TRUE(table.TopUp(0, {3, 1}).ok());
  ASSERT_TRUE(table.Publish(0, {3, 1}, Status::Io("x")).ok());
  EXPECT_EQ(Read(table), Life::kFailed);
  EXPECT_FALSE(table.TopUp(0, {3, 1}).ok());
  ResidencyTable two(kShape);
  ASSERT_TRUE(two.Reserve(kOwner, 1, {0, 1}).ok());
  ASSERT_TRUE(two.TopUp(0, {2, 1}).ok());
  ASSERT_TRUE(two.Publish(0, {0, 1}, Status::Io("first")).ok());
  EXPECT_FALSE(two.TopUp(0, {1, 1}).ok()) << "holds an error";
  ASSERT_TRUE(two.Publish(0, {2, 1}, Status::Io("second")).ok());
  EXPECT_EQ(two.Acquire(0).message(), "first");
}

TEST(ResidencyTable, BanksCarryTheEpochTheyWereReservedOrAdoptedFor) {
  ResidencyTable table = Make(Life::kReady);
  EXPECT_EQ(table.epoch(0), 7u);
  ASSERT_TRUE(table.Adopt(0, 9).ok());
  EXPECT_EQ(table.epoch(0), 9u);
}

}  // namespace
}  // namespace estream
