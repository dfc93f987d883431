// DecodeBatch of arbitrary bytes: what it accepts, encoded again, gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/core/check.h"
#include "engine/write_batch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own size, so that a read beyond it is noticed.
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto ops = quire::engine::DecodeBatch(input);
  if (!ops.ok()) return 0;
  quire::engine::WriteBatch batch;
  for (const auto& op : *ops) batch.Add(op.type, op.key, op.value);
  QUIRE_CHECK(batch.count() == ops->size() && batch.bytes().size() == size);
  const auto again = quire::engine::DecodeBatch(batch.bytes());
  QUIRE_CHECK(again.ok() && again->size() == ops->size());
  for (size_t i = 0; i < ops->size(); ++i) {
    QUIRE_CHECK((*again)[i].type == (*ops)[i].type && (*again)[i].key == (*ops)[i].key &&
                (*again)[i].value == (*ops)[i].value);
  }
  return 0;
}
