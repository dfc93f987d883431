#include "lsm/vlog/value_resolver.h"

#include "base/text/coding.h"

namespace quire::lsm {

Status ValueResolver::Resolve(const table::LookupResult& found, const BufferAllocator& allocate,
                              LateValue* late) const {
  switch (found.state) {
    case table::KeyState::kAbsent:
    case table::KeyState::kDeleted:
      return Status(Code::kNotFound);
    case table::KeyState::kValue:
      if (found.value.size() < kHoldUpBytes) return Deliver(found.value, allocate);
      late->beside_key = found.value;
      if (found.block != nullptr) late->block = table::BlockPin(found.block);
      return Status();
    case table::KeyState::kValueRef:
      break;
  }
  const auto reference = base::LoadLe<log::ValueRef>(found.value.data());
  if (reference.value_size < kHoldUpBytes) return read_(reference, allocate);
  Postpone(found.value, late);
  return Status();
}

void ValueResolver::Postpone(Slice reference, LateValue* late) {
  late->reference = base::LoadLe<log::ValueRef>(reference.data());
}

Status ValueResolver::ResolveLate(const LateValue& late, const BufferAllocator& allocate) const {
  if (late.reference.has_value()) return read_(*late.reference, allocate);
  return late.beside_key.empty() ? Status() : Deliver(late.beside_key, allocate);
}

Status ValueResolver::ResolveReference(Slice reference, const BufferAllocator& allocate) const {
  return read_(base::LoadLe<log::ValueRef>(reference.data()), allocate);
}

}  // namespace quire::lsm
