#include "api/compat/nvs_session.h"

#include <charconv>
#include <system_error>
#include <tuple>
#include <utility>

#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/ipc/shared_memory.h"
#include "stream/store/local_reader.h"

namespace quire::compat {

bool StoreId::operator<(const StoreId& other) const {
  return std::tie(name, rank) < std::tie(other.name, other.rank);
}

Result<StoreId> ParseStoreId(const std::string& text) {
  StoreId store;
  const size_t slash = text.find('/');
  store.name = text.substr(0, slash);
  const Status named = io::CheckName(store.name);
  if (!named.ok()) return named.WithContext("the store");
  if (slash == std::string::npos) return store;
  const char* const begin = text.data() + slash + 1;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, store.rank);
  if (begin == end || rest != end || error != std::errc()) {
    return Status(Code::kInvalidArgument,
                  "\"" + text.substr(slash + 1, 64) + "\" is no rank; a store is name/rank");
  }
  return store;
}

Result<std::string> NvsPlace() {
  const auto wanted = io::Environment("QUIRE_STREAM_PLACE");
  if (wanted && !wanted->empty()) return io::AbsolutePath(*wanted);
  const std::string place = io::UserDirectory("streams");
  // Refuses a directory that another user has made.
  QUIRE_RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectory(place));
  return place;
}

Result<char*> NvsSession::Create(Slice key, uint64_t bytes) {
  if (writer_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(writer_, StreamWriter::Open(place_, store_.name, store_.rank));
  }
  return writer_->Create(key, bytes);
}

Result<StreamWriter*> NvsSession::Writer() {
  if (writer_ == nullptr) return Status(Code::kNotFound, "no object has been created");
  return writer_.get();
}

Status NvsSession::Finish() {
  {
    const std::lock_guard lock(views_mutex_);
    views_.clear();
  }
  readers_.clear();
  return writer_ == nullptr ? Status() : writer_->Finish();
}

Result<std::shared_ptr<StreamReader>> NvsSession::Reader(const StoreId& store) {
  const uint64_t now_ns = io::RealClock().NowNs();
  OpenReader& known = readers_[store];
  if (known.reader != nullptr && now_ns - known.looked_ns < kLookNs) return known.reader;
  // Read before the reader is opened: if the log is replaced between the two, the next look notices
  // it.
  const Result<uint64_t> log_id =
      stream::LogIdAt(io::PosixFileSystem(), place_, store.name, store.rank);
  const bool here = log_id.status().code() != Code::kNotFound;
  // If there is no descriptor for the look, the reader stays in use.
  if (known.reader != nullptr && log_id.status().code() == Code::kOutOfMemory) return known.reader;
  if (here) QUIRE_RETURN_IF_ERROR(log_id.status());
  const uint64_t now = here ? *log_id : 0;
  if (known.reader == nullptr || known.log_id != now) {
    known.reader = nullptr;
    QUIRE_ASSIGN_OR_RETURN(known.reader, StreamReader::Open(place_, store.name, store.rank));
    known.log_id = now;
  }
  known.looked_ns = now_ns;
  return known.reader;
}

Result<const void*> NvsSession::Get(const StoreId& store, Slice key, uint64_t version) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<StreamReader> reader, Reader(store));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<StreamView> view, reader->View(key, version));
  QUIRE_RETURN_IF_ERROR(view->Verify());
  const void* const bytes = view->bytes().data();
  const std::lock_guard lock(views_mutex_);
  views_[bytes].push_back({reader, std::move(view)});
  return bytes;
}

NvsSession::Got NvsSession::Look(const void* got) {
  const std::lock_guard lock(views_mutex_);
  const auto held = views_.find(got);
  if (held == views_.end()) return {};
  const StreamView& view = *held->second.back().view;
  return {view.bytes().size(), view.version().version};
}

Status NvsSession::Release(const void* got) {
  const std::lock_guard lock(views_mutex_);
  const auto held = views_.find(got);
  if (held == views_.end()) {
    return Status(Code::kInvalidArgument, "nvs_get has not returned this, or it was released");
  }
  held->second.pop_back();
  if (held->second.empty()) views_.erase(held);
  return Status();
}

}  // namespace quire::compat
