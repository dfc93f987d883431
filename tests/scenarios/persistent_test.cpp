// Engines whose writes outlive the process, and what can be done with their files.
#include "tests/scenarios/scenario.h"

namespace quire::scenarios::persistent_test {
namespace {

class PersistentEngine : public OnEngine {
 protected:
  Status Remove() { return parts_.NewRemoval(engine_.fs(), "/part", nullptr)->Run(); }

  const engine::StoredParts& parts_ = *GetParam()->stored_parts();
};

INSTANTIATE_TEST_SUITE_P(Engines, PersistentEngine,
                         testing::ValuesIn(EnginesWith(&engine::Capabilities::persistent)), NameOf);

TEST_P(PersistentEngine, FindsAllAgainAfterACloseAndWhatIsDurableAfterALossOfPower) {
  ASSERT_OK(engine_->Put("flushed", "1"));
  ASSERT_OK(engine_->Flush());
  ASSERT_OK(engine_->Put("synced", "2"));
  ASSERT_OK(engine_->SyncLog());
  engine_.LosePower();
  ASSERT_OK(engine_.Open(engine::OpenFlags::kMustExist));
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"flushed", "1"}, {"synced", "2"}}));
  ASSERT_OK(engine_->Put("closed", "3"));
  engine_.Close();
  EXPECT_CODE(engine_.Open(engine::OpenFlags::kMustNotExist), Code::kInvalidArgument);
  ASSERT_OK(engine_.Open(engine::OpenFlags::kMustExist));
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"closed", "3"}, {"flushed", "1"}, {"synced", "2"}}));
}

TEST_P(PersistentEngine, IsReadByOthersAsItWasLastPublished) {
  ASSERT_OK(engine_->Put("a", "1"));
  ASSERT_OK(engine_->Put("gone", "1"));
  ASSERT_OK(engine_->Flush());
  const auto stored = parts_.Open(engine_.fs(), "/part", {});
  ASSERT_OK(stored.status());
  ASSERT_OK(engine_->Put("a", "2"));
  ASSERT_OK(engine_->Delete("gone"));
  ASSERT_OK(engine_->Flush());
  const auto newer = (*stored)->Newer();
  ASSERT_OK(newer.status());
  std::string value;
  auto state = table::KeyState::kAbsent;
  ASSERT_OK((*stored)->Get("a", Into(&value), &state));
  EXPECT_EQ(value, "1");
  EXPECT_EQ(state, table::KeyState::kValue);
  ASSERT_OK((*newer)->Get("a", Into(&value), nullptr));
  EXPECT_EQ(value, "2");
  EXPECT_CODE((*newer)->Get("gone", Into(&value), &state), Code::kNotFound);
  EXPECT_EQ(state, table::KeyState::kDeleted);
  EXPECT_CODE((*newer)->Get("never", Into(&value), &state), Code::kNotFound);
  EXPECT_EQ(state, table::KeyState::kAbsent);
  EXPECT_EQ((*newer)->Position().store_id, (*stored)->Position().store_id);
  EXPECT_GT((*newer)->Position().edition, (*stored)->Position().edition);
  EXPECT_GT((*newer)->EntryBytes(), 0u);
}

TEST_P(PersistentEngine, IsRemovedOnceItIsClosed) {
  ASSERT_OK(engine_->Put("a", "1"));
  EXPECT_TRUE(*engine_.fs().Exists("/part/" + parts_.marker()));
  EXPECT_CODE(Remove(), Code::kBusy);
  EXPECT_EQ(Get(*engine_, "a"), "1");
  engine_.Close();
  ASSERT_OK(Remove());
  EXPECT_FALSE(*engine_.fs().Exists("/part"));
  ASSERT_OK(Remove());
  EXPECT_CODE(engine_.Open(engine::OpenFlags::kMustExist), Code::kNotFound);
  EXPECT_CODE(parts_.Open(engine_.fs(), "/part", {}).status(), Code::kNotFound);
}

TEST_P(PersistentEngine, ACopyOfACaptureIsAPartOfItsOwn) {
  if (!GetParam()->capabilities().capturable) GTEST_SKIP() << "it has no captures";
  io::FileSystem& fs = engine_.fs();
  ASSERT_OK(engine_->Put("a", std::string(1000, '1')));
  const auto capture = engine_->capturable()->NewCapture();
  ASSERT_OK(capture.status());
  ASSERT_OK(engine_->Put("a", "2"));
  ASSERT_OK(fs.MakeDirectory("/copy"));
  const auto verifier = parts_.NewVerifier(fs, "/copy");
  std::vector<std::string> names;
  for (const engine::Capture::File& file : (*capture)->files()) {
    const auto bytes = io::ReadFile(fs, "/part/" + file.name, 1 << 20);
    ASSERT_OK(bytes.status());
    ASSERT_OK(io::WriteFile(fs, "/copy/" + file.name, *bytes));
    EXPECT_OK(verifier->Check(file.name, file.identity));
    EXPECT_CODE(verifier->Check(file.name, file.identity + 1), Code::kCorruption);
    names.push_back(file.name);
  }
  EXPECT_TRUE(*verifier->FinishSome(names));
  ASSERT_OK(io::WriteFile(fs, "/copy/" + parts_.marker(), (*capture)->manifest()));
  const auto before = parts_.Open(fs, "/copy", {});
  ASSERT_OK(before.status());
  ASSERT_OK(parts_.GiveNewStoreId(fs, "/copy"));
  const auto copy = parts_.Open(fs, "/copy", {});
  ASSERT_OK(copy.status());
  EXPECT_NE((*copy)->Position().store_id, (*before)->Position().store_id);
  std::string value;
  ASSERT_OK((*copy)->Get("a", Into(&value), nullptr));
  EXPECT_EQ(value, std::string(1000, '1'));
}

}  // namespace
}  // namespace quire::scenarios::persistent_test
