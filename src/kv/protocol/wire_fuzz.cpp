// Requests and answers of a database with any content from other ranks: an error, or values within
// the message that are the same after encoding.
//
// Input: the first byte chooses what the rest is: failures, a get's answer, keys, values, an
// update, named tables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "kv/protocol/wire.h"

namespace quire::kv {
namespace {

bool Within(Slice part, Slice whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void RunDamage(Slice bytes) {
  const Result<ApplyFailures> failures = DecodeApplyFailures(bytes);
  if (!failures.ok()) return;
  QUIRE_CHECK((failures->lost_count == 0) == failures->first.ok());
  const Result<ApplyFailures> again = DecodeApplyFailures(EncodeApplyFailures(*failures));
  QUIRE_CHECK(again.ok() && again->lost_count == failures->lost_count);
  QUIRE_CHECK(again->first.code() == failures->first.code());
  QUIRE_CHECK(again->first.message() == failures->first.message());
}

void RunGetAnswer(Slice bytes) {
  const Result<Slice> value = DecodeGetAnswer(bytes);
  if (value.ok()) QUIRE_CHECK(Within(*value, bytes) && value->size() == bytes.size() - 1);
}

void RunTablesAnswer(Slice bytes) {
  NamedTables tables;
  if (!DecodeTablesAnswer(bytes, &tables)) return;
  QUIRE_CHECK(EncodeTablesAnswer(tables) == bytes);
  QUIRE_CHECK(!DecodeGetAnswer(bytes).ok());  // it is one or the other
}

void RunKeys(Slice bytes) {
  const Result<std::vector<Slice>> keys = DecodeKeys(bytes);
  if (!keys.ok()) return;
  QUIRE_CHECK(keys->size() <= bytes.size());
  std::string encoded;
  for (const Slice key : *keys) {
    QUIRE_CHECK(Within(key, bytes));
    AddKey(&encoded, key);
  }
  const Result<std::vector<Slice>> again = DecodeKeys(encoded);
  QUIRE_CHECK(again.ok() && *again == *keys);
}

void RunValues(Slice bytes) {
  const Result<std::vector<GetResult>> values = DecodeResults(bytes);
  if (!values.ok()) return;
  QUIRE_CHECK(values->size() <= bytes.size());
  std::string encoded;
  for (const GetResult& value : *values) {
    QUIRE_CHECK(Within(value.value, bytes));
    if (value.tables) {
      AddTables(&encoded, *value.tables);
    } else {
      AddResult(&encoded, value.status, value.value);
    }
  }
  const Result<std::vector<GetResult>> again = DecodeResults(encoded);
  QUIRE_CHECK(again.ok() && std::equal(again->begin(), again->end(), values->begin(), values->end(),
                                       [](const GetResult& a, const GetResult& b) {
                                         return a.status.code() == b.status.code() &&
                                                a.value == b.value && a.tables == b.tables;
                                       }));
}

void RunUpdate(Slice bytes) {
  const Result<UpdateRequest> update = DecodeUpdate(bytes);
  if (!update.ok()) return;
  QUIRE_CHECK(Within(update->key, bytes) && Within(update->argument, bytes));
  const std::string encoded = EncodeUpdateHead(*update) + std::string(update->argument);
  const Result<UpdateRequest> again = DecodeUpdate(encoded);
  QUIRE_CHECK(again.ok() && again->id == update->id && again->key == update->key &&
              again->argument == update->argument);
}

}  // namespace
}  // namespace quire::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const quire::Slice rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      quire::kv::RunDamage(rest);
      break;
    case 1:
      quire::kv::RunGetAnswer(rest);
      break;
    case 2:
      quire::kv::RunKeys(rest);
      break;
    case 3:
      quire::kv::RunValues(rest);
      break;
    case 4:
      quire::kv::RunUpdate(rest);
      break;
    default:
      quire::kv::RunTablesAnswer(rest);
  }
  return 0;
}
