#include "lsm/db/verify.h"

#include "base/text/coding.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/version/run_iterator.h"

namespace quire::lsm {
namespace {

Status VerifyValues(table::EntryIterator& entries, const ValueCheck& check) {
  for (entries.SeekToFirst(); entries.Valid(); entries.Next()) {
    if (entries.type() != log::RecordType::kValueRef) continue;
    QUIRE_RETURN_IF_ERROR(check(base::LoadLe<log::ValueRef>(entries.value().data())));
  }
  return entries.status();
}

}  // namespace

Status VerifyRun(const Run& run, const ValueCheck& check,
                 const std::function<void(const table::TableInfo& table)>& verified) {
  for (const std::shared_ptr<TableHandle>& table : run.tables()) {
    QUIRE_RETURN_IF_ERROR(table->table().Verify());
    if (verified) verified(table->info());
  }
  return VerifyValues(*NewRunIterator(run, false), check);
}

Status VerifyMemory(PooledMemTable& memory, const std::string& directory, const ValueCheck& check) {
  const std::shared_ptr<const SortedView> view =
      memory.table().NewView(memory.table().QuiescedLsn());
  const std::unique_ptr<table::EntryIterator> entries = view->NewIterator(false);
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    const uint64_t offset = entries->lsn() - memory.base_lsn();
    uint64_t size = 0;
    if (!log::ValidRecord(memory.table().data(), offset, memory.table().segment_bytes(),
                          memory.generation(), &size)) {
      return Status(Code::kCorruption,
                    directory + "/" + LogSegmentName(static_cast<int>(memory.file_number())) +
                        ": the record at offset " + std::to_string(offset) + " is damaged");
    }
  }
  return VerifyValues(*entries, check);
}

}  // namespace quire::lsm
