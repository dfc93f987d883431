// The functions of nvs/nvs.h.
#include "nvs/nvs.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/compat/nvs_session.h"
#include "base/core/program_call.h"
#include "base/text/printable.h"
#include "base/text/units.h"
#include "base/threads/fork_generation.h"
#include "io/files/machine.h"

namespace quire::compat {
namespace {

// Interval between looks for a store that does not exist yet.
constexpr uint64_t kLookNs = 5 * base::kNsPerMs;

// Serializes the calls that use the stream or its readers; some of them wait for room.
std::mutex work_mutex;
std::mutex session_mutex;  // guards only `session`; locked after work_mutex
// The fork generation of the process that owns the session, plus 1; 0 if there is no session. Read
// before any mutex is locked: in a forked child, a mutex may be held by a thread that does not
// exist there.
std::atomic<uint64_t> owner{0};
// Not destroyed when the program ends: a program that ends without nvs_finalize has not finished
// its stream.
auto& session = *new std::shared_ptr<NvsSession>;

thread_local int last_code = NVS_OK;
thread_local std::string last_message;

int CodeOf(const Status& status) {
  if (status.ok()) return NVS_OK;
  last_code = -static_cast<int>(status.code());
  base::SayWhy(status, &last_message);
  return last_code;
}

// Runs `body`, which returns a Status. No exception leaves the library.
template <typename Body>
int Guarded(const Body& body) {
  try {
    return CodeOf(body());
  } catch (...) {
    return CodeOf(base::StatusOfException("the call"));
  }
}

uint64_t ThisProcess() {
  return uint64_t{base::ForkGeneration()} + 1;
}

// kInvalidArgument in a forked child of the process that called nvs_init.
Status CheckCaller() {
  constexpr const char* kWhat = "the session of nvs_init";
  const uint64_t of = owner.load(std::memory_order_acquire);
  if (of != 0 && of != ThisProcess()) return base::InForkedChild(kWhat);
  return base::CheckNoProgramCall(kWhat);
}

Result<std::shared_ptr<NvsSession>> Session() {
  QUIRE_RETURN_IF_ERROR(CheckCaller());
  const std::lock_guard lock(session_mutex);
  if (session != nullptr) return session;
  return Status(Code::kInvalidArgument, "call nvs_init first, and not after nvs_finalize");
}

// Runs `body` with the session, guarded and locked.
template <typename Body>
int WithSession(const Body& body) {
  return Guarded([&]() -> Status {
    QUIRE_RETURN_IF_ERROR(CheckCaller());
    const std::lock_guard lock(work_mutex);
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<NvsSession> here, Session());
    return body(*here);
  });
}

// Runs `body` with the stream that the session writes, guarded and locked.
template <typename Body>
int WithWriter(const Body& body) {
  return WithSession([&](NvsSession& here) -> Status {
    QUIRE_ASSIGN_OR_RETURN(StreamWriter * writer, here.Writer());
    return body(*writer);
  });
}

Status NullArgument(const char* name) {
  return Status(Code::kInvalidArgument, std::string("the argument ") + name + " is null");
}

Result<Slice> KeyOf(const char* key) {
  if (key == nullptr) return NullArgument("key");
  return Slice(key);
}

// The result of a look for a version. If it is not there, `snapshot` is the last snapshot seen: the
// caller waits for a later one. LookFor returns an error if the version can never come.
struct Look {
  bool there = false;
  uint64_t snapshot = 0;
};

Result<Look> LookFor(StreamReader& reader, Slice key, uint64_t version) {
  Look look;
  // Read before the versions: if a commit comes between the two reads, the wait ends at once.
  QUIRE_ASSIGN_OR_RETURN(look.snapshot, reader.LastSnapshot());
  const Result<std::vector<StreamVersion>> versions = reader.Versions(key);
  if (!versions.ok() && versions.status().code() != Code::kNotFound) return versions.status();
  look.there = versions.ok() && !versions->empty() && versions->front().version >= version;
  return look;
}

// Returns the reader of the session's store; kNotFound if the store does not exist yet.
Result<std::shared_ptr<StreamReader>> SessionReader() {
  QUIRE_RETURN_IF_ERROR(CheckCaller());
  const std::lock_guard lock(work_mutex);
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<NvsSession> here, Session());
  return here->Reader(here->store());
}

Status WaitFor(Slice key, uint64_t version, uint64_t timeout_ms) {
  io::Clock& clock = io::RealClock();
  const uint64_t begin = clock.NowNs();
  const uint64_t allowed =
      timeout_ms > UINT64_MAX / base::kNsPerMs ? UINT64_MAX : timeout_ms * base::kNsPerMs;
  while (true) {
    const uint64_t passed = clock.NowNs() - begin;
    const uint64_t left = allowed - std::min(passed, allowed);
    const Result<std::shared_ptr<StreamReader>> reader = SessionReader();
    if (reader.ok()) {
      QUIRE_ASSIGN_OR_RETURN(const Look look, LookFor(**reader, key, version));
      if (look.there) return Status();
      if (left > 0) {
        QUIRE_RETURN_IF_ERROR((*reader)->Wait(look.snapshot, left / base::kNsPerMs).status());
      }
    } else if (reader.status().code() != Code::kNotFound) {
      return reader.status();
    } else {
      clock.SleepNs(std::min(left, kLookNs));
    }
    if (left == 0) return Status(Code::kTimedOut, "no version came in the time that was given");
  }
}

}  // namespace
}  // namespace quire::compat

using quire::Code;
using quire::Result;
using quire::Slice;
using quire::Status;
using quire::StreamWriter;
using quire::compat::Guarded;
using quire::compat::KeyOf;
using quire::compat::NullArgument;
using quire::compat::NvsSession;
using quire::compat::StoreId;
using quire::compat::WithSession;
using quire::compat::WithWriter;

extern "C" {

int nvs_init(const char* store_id) {
  return Guarded([&]() -> Status {
    if (store_id == nullptr) return NullArgument("store_id");
    QUIRE_ASSIGN_OR_RETURN(const StoreId store, quire::compat::ParseStoreId(store_id));
    QUIRE_RETURN_IF_ERROR(quire::compat::CheckCaller());
    const std::lock_guard lock(quire::compat::session_mutex);
    if (quire::compat::session != nullptr) {
      return Status(Code::kInvalidArgument, "nvs_init was called before; call nvs_finalize first");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::string place, quire::compat::NvsPlace());
    quire::compat::session = std::make_shared<NvsSession>(place, store);
    quire::compat::owner = quire::compat::ThisProcess();
    return Status();
  });
}

int nvs_finalize(void) {
  return WithSession([](NvsSession& here) {
    {
      const std::lock_guard lock(quire::compat::session_mutex);
      quire::compat::session = nullptr;  // destroyed when its last user returns
    }
    const Status finished = here.Finish();
    const std::lock_guard lock(quire::compat::session_mutex);
    if (quire::compat::session == nullptr) quire::compat::owner = 0;
    return finished;
  });
}

void* nvs_create_obj(const char* key, size_t size) {
  char* memory = nullptr;
  const int code = WithSession([&](NvsSession& here) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    QUIRE_ASSIGN_OR_RETURN(memory, here.Create(name, size));
    return Status();
  });
  return code == NVS_OK ? memory : nullptr;
}

int nvs_free_obj(const char* key) {
  return WithWriter([&](StreamWriter& writer) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    return writer.Free(name);
  });
}

int nvs_put(const char* key) {
  return WithWriter([&](StreamWriter& writer) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    return writer.Put(name).status();
  });
}

int nvs_snapshot(void) {
  return WithWriter([](StreamWriter& writer) { return writer.Snapshot().status(); });
}

int nvs_sync(void) {
  return WithWriter([](StreamWriter& writer) { return writer.Sync(); });
}

const void* nvs_get(const char* key, uint64_t version) {
  const void* bytes = nullptr;
  const int code = WithSession([&](NvsSession& here) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    QUIRE_ASSIGN_OR_RETURN(bytes, here.Get(here.store(), name, version));
    return Status();
  });
  return code == NVS_OK ? bytes : nullptr;
}

const void* nvs_get_from(const char* store_id, const char* key, uint64_t version) {
  const void* bytes = nullptr;
  const int code = WithSession([&](NvsSession& here) -> Status {
    if (store_id == nullptr) return NullArgument("store_id");
    QUIRE_ASSIGN_OR_RETURN(const StoreId store, quire::compat::ParseStoreId(store_id));
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    QUIRE_ASSIGN_OR_RETURN(bytes, here.Get(store, name, version));
    return Status();
  });
  return code == NVS_OK ? bytes : nullptr;
}

size_t nvs_size(const void* got) {
  const auto here = quire::compat::Session();
  return here.ok() ? (*here)->Look(got).bytes : 0;
}

uint64_t nvs_version(const void* got) {
  const auto here = quire::compat::Session();
  return here.ok() ? (*here)->Look(got).version : 0;
}

int nvs_release(const void* got) {
  return Guarded([&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(const auto here, quire::compat::Session());
    return here->Release(got);
  });
}

int nvs_wait(const char* key, uint64_t version, uint64_t timeout_ms) {
  return Guarded([&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice name, KeyOf(key));
    return quire::compat::WaitFor(name, version, timeout_ms);
  });
}

int nvs_error(void) {
  return quire::compat::last_code;
}

const char* nvs_error_message(void) {
  return quire::compat::last_message.c_str();
}

}  // extern "C"
