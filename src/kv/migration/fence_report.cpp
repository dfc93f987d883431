#include "kv/migration/fence_report.h"

#include <cstdio>
#include <utility>

namespace quire::kv {

FenceReport::~FenceReport() {
  if (dispatcher_ != nullptr) dispatcher_->failures().PutBack(found_);
}

const Status& FenceReport::Run() {
  if (dispatcher_ == nullptr) return status_;
  status_ = dispatcher_->DrainAll();
  found_ = dispatcher_->failures().Take();
  if (!found_.first.ok()) status_ = found_.ToStatus();
  return status_;
}

const Status& FenceReport::Told(const Status& answer) {
  char mine[32] = "";
  if (dispatcher_ != nullptr) std::snprintf(mine, sizeof mine, "rank %d: ", rank_);
  const Slice text = answer.message();
  const bool told = answer.code() == status_.code() && text.starts_with(mine) &&
                    text.ends_with(status_.message());
  if (told) Tell();
  return answer;
}

}  // namespace quire::kv
