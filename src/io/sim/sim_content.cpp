#include "io/sim/sim_content.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/core/check.h"
#include "base/core/sanitizer.h"

namespace quire::io {
namespace {

constexpr uint64_t kSimPageBytes = 4096;
constexpr uint64_t kUnitBytes = 64;  // the pieces of a torn page
constexpr uint64_t kGarbleOneIn = 32;

uint64_t RoundUp(uint64_t size, uint64_t to) {
  return (size + to - 1) / to * to;
}

uint64_t PageOf(uint64_t offset) {
  return offset / kSimPageBytes * kSimPageBytes;
}

// Other threads may be storing to mapped memory while it is copied here, as they may while the
// kernel writes a page. The byte loads are volatile so that no library function, which
// ThreadSanitizer would watch, takes their place.
#if QUIRE_THREAD_SANITIZER
__attribute__((no_sanitize("thread"))) void CopyShared(char* to, const char* from, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) to[i] = const_cast<const volatile char*>(from)[i];
}
#else
void CopyShared(char* to, const char* from, uint64_t size) {
  if (size != 0) std::memcpy(to, from, size);
}
#endif

enum class Fate { kKeep, kDrop, kTear, kGarble };

Fate ChooseFate(PowerLoss loss, base::Random* random) {
  if (loss == PowerLoss::kKeepAll) return Fate::kKeep;
  if (loss == PowerLoss::kDropAll) return Fate::kDrop;
  if (random->OneIn(kGarbleOneIn)) return Fate::kGarble;
  const uint64_t choice = random->Below(3);
  return choice == 0 ? Fate::kKeep : choice == 1 ? Fate::kDrop : Fate::kTear;
}

// Copies some of the page's 64-byte units, each whole.
void Tear(char* to, const char* from, uint64_t size, base::Random* random) {
  for (uint64_t unit = 0; unit < size; unit += kUnitBytes) {
    if (random->OneIn(2)) std::memcpy(to + unit, from + unit, std::min(kUnitBytes, size - unit));
  }
}

// Overwrites the bytes that differ with noise. The device may not lose bytes that were synced.
void Garble(char* to, const char* from, uint64_t size, base::Random* random) {
  for (uint64_t i = 0; i < size; ++i) {
    if (to[i] != from[i]) to[i] = static_cast<char>(random->Next());
  }
}

}  // namespace

SimBuffer::SimBuffer(uint64_t capacity)
    : data_(nullptr), capacity_(RoundUp(capacity, kSimPageBytes)) {
  if (capacity_ == 0) return;
  data_ = static_cast<char*>(std::aligned_alloc(kSimPageBytes, capacity_));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, capacity_);
}

SimBuffer::~SimBuffer() {
  std::free(data_);
}

void SimContent::Reallocate(uint64_t capacity) {
  auto buffer = std::make_shared<SimBuffer>(capacity);
  CopyShared(buffer->data(), buffer_->data(), size_);
  buffer_ = std::move(buffer);
}

void SimContent::Resize(uint64_t size) {
  QUIRE_CHECK(CanHold(size));
  if (size > buffer_->capacity()) Reallocate(std::max(size, 2 * buffer_->capacity()));
  if (size < size_) std::memset(buffer_->data() + size, 0, size_ - size);
  size_ = size;
  dirty_ = true;
}

void SimContent::Write(uint64_t offset, Slice bytes) {
  if (offset + bytes.size() > size_) Resize(offset + bytes.size());
  if (!bytes.empty()) std::memcpy(buffer_->data() + offset, bytes.data(), bytes.size());
  MarkStored(offset, bytes.size());
  dirty_ = true;
}

void SimContent::Read(uint64_t offset, uint64_t size, char* to) const {
  CopyShared(to, buffer_->data() + offset, size);
}

void SimContent::Sync() {
  if (!dirty_) return;
  SyncRange(0, size_);
  dirty_ = buffer_.use_count() > 1 || !forgotten_.empty();
}

void SimContent::SyncRange(uint64_t offset, uint64_t size) {
  durable_.resize(size_, '\0');
  if (offset >= size_) return;
  const uint64_t end = offset + std::min(size, size_ - offset);
  while (offset < end) {
    const uint64_t begin = PageOf(offset);
    const uint64_t next = forgotten_.empty() ? end : std::min(end, begin + kSimPageBytes);
    if (!IsForgotten(begin)) {
      CopyShared(durable_.data() + offset, buffer_->data() + offset, next - offset);
    }
    offset = next;
  }
}

void SimContent::FailSync(uint64_t offset, uint64_t size) {
  if (offset >= size_) return;
  const uint64_t end = offset + std::min(size, size_ - offset);
  std::string page(kSimPageBytes, '\0');
  for (uint64_t begin = PageOf(offset); begin < end; begin += kSimPageBytes) {
    CopyShared(page.data(), buffer_->data() + begin, kSimPageBytes);
    std::string device = begin < durable_.size() ? durable_.substr(begin, kSimPageBytes) : "";
    device.resize(kSimPageBytes, '\0');
    if (page != device) forgotten_[begin] = page;
  }
}

void SimContent::MarkStored(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  forgotten_.erase(forgotten_.lower_bound(PageOf(offset)), forgotten_.lower_bound(offset + size));
}

// Returns whether the page at `begin` counts as clean, though the device lacks it.
bool SimContent::IsForgotten(uint64_t begin) {
  const auto found = forgotten_.find(begin);
  if (found == forgotten_.end()) return false;
  std::string page(kSimPageBytes, '\0');
  if (begin < size_) CopyShared(page.data(), buffer_->data() + begin, kSimPageBytes);
  if (page == found->second) return true;
  forgotten_.erase(found);
  return false;
}

void SimContent::Replace(Slice bytes) {
  durable_.assign(bytes);
  buffer_ = std::make_shared<SimBuffer>(bytes.size());
  size_ = bytes.size();
  if (size_ != 0) std::memcpy(buffer_->data(), bytes.data(), size_);
  forgotten_.clear();
  dirty_ = false;
}

void SimContent::Freeze() {
  if (buffer_.use_count() > 1) Reallocate(size_);
}

void SimContent::LosePower(PowerLoss loss, base::Random* random) {
  if (!dirty_) return;
  const bool new_size =
      loss == PowerLoss::kKeepAll || (loss == PowerLoss::kMixed && random->OneIn(2));
  if (new_size) durable_.resize(size_, '\0');
  const uint64_t seen = size_;  // the page cache is right up to here
  Resize(durable_.size());
  if (size_ > seen) std::memcpy(buffer_->data() + seen, durable_.data() + seen, size_ - seen);
  for (uint64_t begin = 0; begin < std::min(seen, size_); begin += kSimPageBytes) {
    ResolvePage(begin, loss, random);
  }
  forgotten_.clear();
  dirty_ = false;
}

// Leaves the same bytes in the page cache and on the device.
void SimContent::ResolvePage(uint64_t begin, PowerLoss loss, base::Random* random) {
  const uint64_t size = std::min(kSimPageBytes, size_ - begin);
  char* device = durable_.data() + begin;
  char* cache = buffer_->data() + begin;
  if (std::memcmp(device, cache, size) == 0) return;  // clean
  Fate fate = ChooseFate(loss, random);
  if (fate == Fate::kKeep && IsForgotten(begin)) fate = Fate::kDrop;
  if (persistent_ && loss == PowerLoss::kMixed) fate = Fate::kTear;
  switch (fate) {
    case Fate::kKeep:
      std::memcpy(device, cache, size);
      return;
    case Fate::kDrop:
      break;
    case Fate::kTear:
      Tear(device, cache, size, random);
      break;
    case Fate::kGarble:
      Garble(device, cache, size, random);
      break;
  }
  std::memcpy(cache, device, size);
}

}  // namespace quire::io
