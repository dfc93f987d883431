#include "runtime/options_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace quire::runtime::options_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// How many rows of these groups the table has.
template <typename... Groups>
std::ptrdiff_t RowsOf(Groups... groups) {
  const auto& rows = OptionTable::Rows();
  return std::count_if(rows.begin(), rows.end(),
                       [&](const OptionRow& row) { return ((row.group == groups) || ...); });
}

std::ptrdiff_t LinesOf(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') + 1;
}

TEST(OptionsText, HasEveryOptionOfItsKindAndNoOther) {
  const std::string context = OptionsText(ContextOptions(), "\n");
  const std::string database = OptionsText(DatabaseOptions(), "\n");
  const std::string dataset = OptionsText(DatasetOptions(), "\n");
  EXPECT_EQ(LinesOf(context), RowsOf(OptionGroup::kContext));
  EXPECT_EQ(LinesOf(database), RowsOf(OptionGroup::kStorage, OptionGroup::kDatabase));
  EXPECT_EQ(LinesOf(dataset), RowsOf(OptionGroup::kDataset));
  EXPECT_THAT(dataset, StartsWith("dataset_format = ribbon\n"));
  EXPECT_THAT(dataset, HasSubstr("\ndataset_batch_bytes = 16384\n"));
  EXPECT_THAT(database, HasSubstr("\nwal = on\n"));
  EXPECT_THAT(database, Not(HasSubstr("dataset_")));
}

TEST(OptionsText, ContainsTheGivenValuesWithTheSeparatorBetween) {
  ContextOptions options;
  options.timeout_ms = 12'345;
  const std::string text = OptionsText(options, ", ");
  EXPECT_THAT(text, HasSubstr("timeout_ms = 12345"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_NE(text.find(", "), std::string::npos);
  EXPECT_NE(text.substr(text.size() - 2), ", ");
}

}  // namespace
}  // namespace quire::runtime::options_text_test
